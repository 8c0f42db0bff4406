import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, type McpAdapter } from '../../../../src/mcp/adapter.ts'
import { web } from '../../../support/mcp/entry-points.ts'
import { beginSession, call, eventsOf, LEGACY, legacy, type WireAnswer } from '../../../support/mcp/wire.ts'

/** Returns the message of a JSON-RPC error. */
async function messageOf(response: Response): Promise<string> {
  const { error } = (await response.json()) as { error: { message: string } }
  return error.message
}

describe('mcp: the standalone stream of a session', () => {
  let adapter: McpAdapter
  let session: Record<string, string>
  /** The messages of the errors that the server of the session has received. */
  let errors: string[]

  const send = (message: unknown): Promise<WireAnswer> => web(adapter.server).send(legacy(message, session))
  const open = (headers: Record<string, string> = {}): Promise<Response> =>
    adapter.server(
      new Request('http://localhost/mcp', {
        headers: { accept: 'text/event-stream', 'mcp-protocol-version': LEGACY, ...session, ...headers },
      }),
    )

  beforeEach(async () => {
    errors = []
    const router = () => {
      const server = new McpServer({ name: 'own', version: '1' }, { capabilities: { logging: {} } })
      server.server.onerror = ({ message }) => errors.push(message)
      server.registerTool('close', { description: 'x' }, (ctx) => {
        ctx.http?.closeStandaloneSSE?.()
        return { content: [] }
      })
      server.registerTool(
        'log',
        { description: 'x', inputSchema: z.object({ length: z.number().default(1) }) },
        async ({ length }) => {
          await server.server.sendLoggingMessage({ level: 'error', data: 'x'.repeat(length) })
          return { content: [] }
        },
      )
      return server
    }
    adapter = createMcpAdapter({ router, sessions: true })
    session = {}
    session = await beginSession(web(adapter.server))
    await send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  })

  it('the stream has the headers of an event stream and the id of the session', async () => {
    const { status, headers, body } = await open()
    expect(status).to.equal(200)
    expect(headers.get('content-type')).to.equal('text/event-stream')
    expect(headers.get('cache-control')).to.equal('no-cache, no-transform')
    expect(headers.get('mcp-session-id')).to.equal(session['mcp-session-id'])
    await body?.cancel()
  })

  it('a handler can close the stream, and the client resumes it where it has ended', async () => {
    const first = await open()
    await send(call('log'))
    await send(call('close'))
    const text = await first.text()
    expect(eventsOf(text).map(({ params }) => params.data)).to.deep.equal(['x'])
    await send(call('log'))
    const lastEventId = /^id: (\S+)$/m.exec(text)?.[1] ?? ''
    const second = await open({ 'last-event-id': lastEventId })
    await send(call('close'))
    expect(eventsOf(await second.text())).to.have.length(1)
  })

  for (const [request, headers, status, message] of [
    ['does not accept event streams', { accept: 'application/json' }, 406, 'Not Acceptable'],
    [
      'names an unknown revision',
      { 'mcp-protocol-version': '2024-01-01' },
      400,
      'Unsupported protocol version',
    ],
  ] as const) {
    it(`a GET that ${request} is refused with ${status}, and the server receives the error`, async () => {
      const stream = await open()
      const refused = await open(headers)
      expect(refused.status).to.equal(status)
      expect(await messageOf(refused)).to.contain(message)
      expect(errors).to.have.length(1)
      expect(errors[0]).to.contain(message)
      await stream.body?.cancel()
    })
  }

  it('a stream that its client does not read ends when 1 MiB waits, and another one can be opened', async () => {
    const stream = await open()
    for (let times = 0; times < 12; times++) await send(call('log', { length: 100_000 }))
    expect(eventsOf(await stream.text())).to.have.length.within(10, 11)
    const another = await open()
    expect(another.status).to.equal(200)
    await another.body?.cancel()
  })
})
