import { inputRequired, McpServer, type ServerContext } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, type ServerFactory } from '../../../src/index.ts'
import { web } from '../../support/mcp/entry-points.ts'
import { call, legacy, modern, rpc } from '../../support/mcp/wire.ts'

const SAMPLING = {
  messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'hi' } }],
  maxTokens: 5,
}
const FORM = { message: 'q', requestedSchema: { type: 'object' as const, properties: {} } }
const ANY = z.object({})

type Ask = (server: McpServer, sdk: ServerContext) => Promise<unknown>

/** The ways to send a request to the client. */
const ASKS: Readonly<Record<string, Ask>> = {
  createMessage: ({ server }) => server.createMessage(SAMPLING),
  'createMessage for the request': ({ server }, { mcpReq }) =>
    server.createMessage(SAMPLING, { relatedRequestId: mcpReq.id }),
  elicitInput: ({ server }) => server.elicitInput(FORM),
  listRoots: ({ server }) => server.listRoots(),
  ping: ({ server }) => server.ping(),
  request: ({ server }) => server.request({ method: 'ping' }),
  'request of an extension': ({ server }) => server.request({ method: 'x/y' }, ANY),
  'mcpReq.send': (_server, { mcpReq }) => mcpReq.send({ method: 'roots/list' }),
  'mcpReq.send of an extension': (_server, { mcpReq }) => mcpReq.send({ method: 'x/y' }, ANY),
  'mcpReq.elicitInput': (_server, { mcpReq }) => mcpReq.elicitInput(FORM),
  'mcpReq.requestSampling': (_server, { mcpReq }) => mcpReq.requestSampling(SAMPLING),
}

const router: ServerFactory = () => {
  const server = new McpServer({ name: 'asking', version: '1' })
  for (const [name, ask] of Object.entries(ASKS))
    server.registerTool(name.replaceAll(' ', '_'), { description: 'x' }, async (sdk) => {
      const asked = ask(server, sdk)
      return { content: [{ type: 'text', text: JSON.stringify(await asked) }] }
    })
  return server
}

describe('mcp: requests of a server that no client can receive', () => {
  for (const hasSessions of [false, true]) {
    const { server } = createMcpAdapter({ router, ...(hasSessions && { sessions: {} }) })
    for (const name of Object.keys(ASKS)) {
      const tool = name.replaceAll(' ', '_')
      for (const [revision, request] of [
        ['2025-11-25', legacy(call(tool))],
        ['2026-07-28', modern('tools/call', { name: tool, arguments: {} })],
      ] as const) {
        if (hasSessions && revision === '2025-11-25') continue
        it(`${name} rejects at once on ${revision}${hasSessions ? ', also if sessions are enabled' : ''}`, async () => {
          const { result } = (await web(server).send(request)).message
          expect(result.isError).to.equal(true)
          expect(result.content[0].text).to.contain('sessions').and.to.contain('inputRequired')
        })
      }
    }
  }

  it('a request after the result rejects in the same way', async () => {
    let asked: Promise<unknown> | undefined
    const { server } = createMcpAdapter({
      router: () => {
        const late = new McpServer({ name: 'late', version: '1' })
        late.registerTool('late', { description: 'x' }, () => {
          asked = new Promise(setImmediate).then(() => late.server.ping()).catch((error) => error)
          return { content: [] }
        })
        return late
      },
    })
    await web(server).send(legacy(call('late')))
    expect(String(await asked)).to.contain('sessions')
  })

  it('a server that the application returns again can send requests in a session', async () => {
    const shared = new McpServer({ name: 'shared', version: '1' })
    shared.registerTool('ask', { description: 'x' }, (_sdk) =>
      inputRequired({ inputRequests: { q: inputRequired.elicit(FORM) } }),
    )
    const { server } = createMcpAdapter({ router: () => shared, sessions: {} })
    const served = web(server)
    await served.send(modern('tools/list'))
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    }
    const { headers } = await served.send(legacy(rpc('initialize', params)))
    expect(headers.get('mcp-session-id')).to.be.a('string')
    expect(Object.hasOwn(shared.server, 'ping')).to.equal(false)
  })
})
