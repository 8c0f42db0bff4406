import { mock } from 'node:test'
import { McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { createMcpAdapter, type McpAdapter } from '../../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../../src/mcp/router/router.ts'
import { web } from '../../../support/mcp/entry-points.ts'
import { call, eventsOf, LEGACY, legacy, rpc, type WireAnswer } from '../../../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  .tool('capabilities', { description: 'What the client can do' }, (_args, { clientCapabilities }) =>
    JSON.stringify(clientCapabilities ?? null),
  )
  .tool('logs', { description: 'Logs at two levels' }, async (_args, { log }) => {
    await log('info', 'unimportant')
    await log('error', 'important')
    return 'logged'
  })
  .resource('one', { uri: 'notes://one' }, () => 'x')

const INITIALIZE = rpc('initialize', {
  protocolVersion: LEGACY,
  capabilities: { elicitation: {} },
  clientInfo: { name: 'test', version: '1' },
})

/** The time after which every idle session rests: the longest wait for the timer that looks for idle sessions is included. */
const REST_MS = 20_000

/** Reads an event stream until it has `count` events. @param onOpen called when the stream is open */
async function readEvents({ status, body }: Response, count: number, onOpen?: () => unknown): Promise<any[]> {
  expect(status).to.equal(200)
  await onOpen?.()
  const reader = (body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (eventsOf(text).length < count)
    text += (await reader.read()).value ?? expect.fail('the stream has ended')
  await reader.cancel()
  return eventsOf(text)
}

describe('mcp: resting sessions', () => {
  let adapter: McpAdapter
  let closed: () => number
  let session: Record<string, string>

  const send = (message: unknown, headers: Record<string, string> = {}): Promise<WireAnswer> =>
    web(adapter.server).send(legacy(message, { ...session, ...headers }))
  const textOf = async (message: unknown): Promise<unknown> => {
    const { messages } = await send(message)
    return messages.at(-1)?.result?.content?.[0]?.text
  }
  const open = (headers: Record<string, string> = {}): Promise<Response> =>
    adapter.server(
      new Request('http://localhost/mcp', {
        headers: { accept: 'text/event-stream', 'mcp-protocol-version': LEGACY, ...session, ...headers },
      }),
    )
  /** Opens an event stream. Resolves with its events when `count` events have come. */
  const listen = async (count: number, headers: Record<string, string> = {}): Promise<any[]> =>
    await readEvents(await open(headers), count)

  async function begin(options: Parameters<typeof createMcpAdapter>[0]): Promise<void> {
    adapter = createMcpAdapter({ sessions: true, ...options })
    session = {}
    const { headers } = await send(INITIALIZE)
    session = { 'mcp-session-id': headers.get('mcp-session-id') ?? '' }
    await send({ jsonrpc: '2.0', method: 'notifications/initialized' })
  }

  beforeEach(async () => {
    mock.timers.enable({ apis: ['setInterval', 'Date'] })
    const { mock: calls } = mock.method(WebStandardStreamableHTTPServerTransport.prototype, 'close')
    closed = () => calls.callCount()
    await begin({ router })
  })
  afterEach(() => {
    mock.restoreAll()
    mock.timers.reset()
  })

  const rest = (): void => {
    mock.timers.tick(REST_MS)
    expect(closed()).to.equal(1)
  }

  it('a session that is idle frees its transport, and serves calls as before', async () => {
    const before = await textOf(call('capabilities'))
    rest()
    expect([before, await textOf(call('capabilities'))]).to.deep.equal(
      Array(2).fill(JSON.stringify({ elicitation: { form: {} } })),
    )
  })

  it('a session with an open stream frees its transport, and the stream carries notifications as before', async () => {
    const received = await readEvents(await open(), 2, async () => {
      rest()
      adapter.notify.toolsChanged()
      expect(await textOf(call('capabilities'))).to.equal(JSON.stringify({ elicitation: { form: {} } }))
      adapter.notify.promptsChanged()
    })
    expect(received.map(({ method }) => method)).to.deep.equal([
      'notifications/tools/list_changed',
      'notifications/prompts/list_changed',
    ])
  })

  it('a session with an open stream does not end', async () => {
    const { body } = await open()
    mock.timers.tick(24 * 60 * 60 * 1000)
    expect((await send(rpc('ping'))).status).to.equal(200)
    await body?.cancel()
    mock.timers.tick(24 * 60 * 60 * 1000)
    expect((await send(rpc('ping'))).status).to.equal(404)
  })

  it('a session keeps its log level while it rests', async () => {
    await send(rpc('logging/setLevel', { level: 'error' }))
    rest()
    const { messages } = await send(call('logs'))
    expect(messages.map(({ params }) => params?.data).filter(Boolean)).to.deep.equal(['important'])
  })

  it('a session that rests keeps notifications for the next stream', async () => {
    const opened = open()
    adapter.notify.promptsChanged()
    const reader = ((await opened).body as ReadableStream<Uint8Array>).getReader()
    adapter.notify.promptsChanged()
    let first: string | undefined
    while (first === undefined)
      first = /^id: (\S+)$/m.exec(new TextDecoder().decode((await reader.read()).value))?.[1]
    await reader.cancel()
    rest()
    adapter.notify.toolsChanged()
    const [missed] = await listen(1, { 'last-event-id': first })
    expect(missed.method).to.equal('notifications/tools/list_changed')
  })

  it('a session keeps its subscriptions while it rests', async () => {
    await send(rpc('resources/subscribe', { uri: 'notes://one' }))
    rest()
    const [first] = await readEvents(await open(), 1, () => {
      adapter.notify.resourceUpdated('notes://two')
      adapter.notify.resourceUpdated('notes://one')
    })
    expect(first).to.deep.include({
      method: 'notifications/resources/updated',
      params: { uri: 'notes://one' },
    })
  })

  it('the response to a call can be asked for again after the session has rested', async () => {
    const { text } = await send(call('capabilities'))
    rest()
    const [again] = await listen(1, { 'last-event-id': /^id: (\S+)$/m.exec(text)?.[1] ?? '' })
    expect(again).to.deep.equal(eventsOf(text)[0])
  })

  it('a call that takes a stream works after the session has rested', async () => {
    rest()
    const { messages } = await send(rpc('tools/call', { name: 'logs', arguments: {} }))
    expect(messages.map(({ method, result }) => method ?? result.content[0].text)).to.deep.equal([
      'notifications/message',
      'notifications/message',
      'logged',
    ])
  })

  it('two requests that wake a session at the same time both get their response', async () => {
    rest()
    const answers = await Promise.all([send(call('logs', {}, 1)), send(rpc('ping', undefined, 2))])
    expect(answers.map(({ messages }) => messages.at(-1).id)).to.deep.equal([1, 2])
  })

  it('a second initialize is refused after the session has rested', async () => {
    rest()
    const { status, messages } = await send(INITIALIZE)
    expect([status, messages[0].error.code]).to.deep.equal([400, -32_600])
  })

  it('a session that rests can be ended by its client', async () => {
    rest()
    const deleted = await adapter.server(
      new Request('http://localhost/mcp', {
        method: 'DELETE',
        headers: { 'mcp-protocol-version': LEGACY, ...session },
      }),
    )
    expect([deleted.status, (await send(call('capabilities'))).status]).to.deep.equal([200, 404])
  })

  it('a session whose server the application has made does not rest', async () => {
    let made = 0
    await begin({
      router: () => {
        made++
        const server = new McpServer({ name: 'own', version: '1' })
        server.registerTool('count', { description: 'x' }, () => ({
          content: [{ type: 'text', text: String(made) }],
        }))
        return server
      },
    })
    mock.timers.tick(REST_MS)
    expect([await textOf(call('count')), made]).to.deep.equal(['1', 1])
  })
})
