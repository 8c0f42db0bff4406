import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { KitMcpRouter, mcpHandler, type ServerFactory } from '../../src/index.ts'
import { createMcpAdapter, type FetchHandler } from '../../src/mcp/adapter.ts'
import { listen } from '../support/listen.ts'
import {
  definedOf,
  eventsOf,
  initialization,
  legacy,
  modern,
  rpc,
  type WireRequest,
} from '../support/mcp/wire.ts'
import { standstill, until } from '../support/until.ts'

const REPORT = 'x'.repeat(20_000)
const REPORTS = 1_000

/** The number of reports of the handler so far. */
let reportCount = 0
let isDone = false

type Tell = (what: 'progress' | 'log', n: number) => Promise<void>

/** Sends more reports than sockets can buffer, and waits for the client each time. */
async function reportInTurn(tell: Tell): Promise<void> {
  for (reportCount = 0; reportCount < REPORTS; reportCount++)
    await tell(reportCount % 2 === 0 ? 'progress' : 'log', reportCount)
  isDone = true
}

/** Does the same without waiting. */
async function reportAtOnce(tell: Tell): Promise<void> {
  for (reportCount = 0; reportCount < REPORTS; reportCount++) {
    tell(reportCount % 2 === 0 ? 'progress' : 'log', reportCount).catch(() => undefined)
    if (reportCount % 50 === 0) await new Promise(setImmediate)
  }
  isDone = true
}

const router = KitMcpRouter.create()
  .tool('patient', { description: 'x' }, async (_args, { progress, log }) => {
    await reportInTurn((what, n) =>
      what === 'progress' ? progress(n, REPORTS, REPORT) : log('info', REPORT),
    )
    return 'done'
  })
  .tool('flood', { description: 'x' }, async (_args, { progress, log }) => {
    await reportAtOnce((what, n) =>
      what === 'progress' ? progress(n, REPORTS, REPORT) : log('info', REPORT),
    )
    return 'done'
  })

const ofSdk: ServerFactory = () => {
  const server = new McpServer({ name: 'existing', version: '1' }, { capabilities: { logging: {} } })
  for (const [name, run] of Object.entries({ patient: reportInTurn, flood: reportAtOnce })) {
    server.registerTool(name, { description: 'x' }, async ({ mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken as string
      await run((what, n) =>
        what === 'progress'
          ? mcpReq.notify({
              method: 'notifications/progress',
              params: { progressToken, progress: n, total: REPORTS, message: REPORT },
            })
          : mcpReq.log('info', REPORT),
      ).catch(() => {
        // The SDK rejects when the client has disconnected.
        isDone = true
      })
      return { content: [{ type: 'text', text: 'done' }] }
    })
  }
  return server
}

const meta = { progressToken: 'p', 'io.modelcontextprotocol/logLevel': 'debug' }
const legacyCall = (name: string) => rpc('tools/call', { name, arguments: {}, _meta: { progressToken: 'p' } })

/** The paths by which a call can be served, by name. */
const WAYS: Readonly<
  Record<
    string,
    { router: KitMcpRouter<any> | ServerFactory; sessions?: true; ask: (name: string) => WireRequest }
  >
> = {
  '2026-07-28': { router, ask: (name) => modern('tools/call', { name, arguments: {}, _meta: meta }) },
  '2025-11-25': { router, ask: (name) => legacy(legacyCall(name)) },
  'a batch of 2025-03-26': {
    router,
    ask: (name) => legacy([legacyCall(name)], { 'mcp-protocol-version': undefined }),
  },
  'a session': { router, sessions: true, ask: (name) => legacy(legacyCall(name)) },
  '2026-07-28, and a router function': {
    router: ofSdk,
    ask: (name) => modern('tools/call', { name, arguments: {}, _meta: meta }),
  },
  '2025-11-25, and a router function': { router: ofSdk, ask: (name) => legacy(legacyCall(name)) },
  'a session, and a router function': {
    router: ofSdk,
    sessions: true,
    ask: (name) => legacy(legacyCall(name)),
  },
}

async function posted(server: FetchHandler, { headers = {}, body }: WireRequest): Promise<Response> {
  const init = { method: 'POST', headers: definedOf(headers), body: body as string }
  return await server(new Request('http://localhost:3000/mcp', init))
}

async function sessionOf(server: FetchHandler): Promise<Record<string, string>> {
  const begun = await posted(server, legacy(initialization(), { 'mcp-protocol-version': undefined }))
  await begun.text()
  return { 'mcp-session-id': begun.headers.get('mcp-session-id') as string }
}

/** A client that sends one request and reads only on demand. */
class SlowReader {
  readonly socket: Socket
  text = ''

  private constructor(socket: Socket) {
    this.socket = socket
    socket.setEncoding('latin1').on('error', () => undefined)
  }

  static async ask(port: number, { headers = {}, body }: WireRequest): Promise<SlowReader> {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    const lines = Object.entries(definedOf(headers)).map(([name, value]) => `${name}: ${value}`)
    const length = Buffer.byteLength(body as string)
    socket.write(
      [
        'POST /mcp HTTP/1.1',
        'Host: 127.0.0.1',
        'Connection: close',
        `Content-Length: ${length}`,
        ...lines,
        '',
        body,
      ].join('\r\n'),
    )
    return new SlowReader(socket)
  }

  async read(): Promise<string> {
    for await (const chunk of this.socket) this.text += chunk
    // Chunks of HTTP can end within a line.
    return this.text.replace(/\r\n[0-9a-f]+\r\n/g, '')
  }
}

const logsIn = (text: string): any[] =>
  eventsOf(text).filter(({ method }) => method === 'notifications/message')
const reportsIn = (text: string): any[] =>
  eventsOf(text).filter(({ method }) => method === 'notifications/progress')

describe('attacks of clients that do not read', function () {
  this.timeout(60_000)
  beforeEach(() => {
    reportCount = 0
    isDone = false
  })

  for (const [name, way] of Object.entries(WAYS)) {
    const asked = (tool: string, session: Record<string, string>): WireRequest => {
      const request = way.ask(tool)
      return { ...request, headers: { ...request.headers, ...session } }
    }
    const start = async (tool: string) => {
      const adapter = createMcpAdapter({
        router: way.router,
        ...(way.sessions && { sessions: { maxBufferedBytes: 1000 } }),
      })
      const session = way.sessions === true ? await sessionOf(adapter.server) : {}
      const { port } = await listen(mcpHandler(adapter))
      return { adapter, request: asked(tool, session), port }
    }

    it(`slow readers: ${name}: a socket that is not read, and a handler that waits for it: the handler waits, and continues when the client reads; nothing is lost`, async () => {
      const { request, port } = await start('patient')
      const reader = await SlowReader.ask(port, request)
      await standstill(() => reportCount, 20)
      expect(isDone).to.equal(false)
      const text = await reader.read()
      expect(isDone).to.equal(true)
      expect(reportsIn(text)).to.have.length(REPORTS / 2)
      expect(logsIn(text)).to.have.length(REPORTS / 2)
      expect(eventsOf(text).at(-1).result.content[0].text).to.equal('done')
    })

    it(`slow readers: ${name}: a response of the web-standard handler that is not read: the handler waits after 1 MiB at most, and ends when the response is cancelled`, async () => {
      const { adapter, request } = await start('patient')
      const response = await posted(adapter.server, request)
      await standstill(() => reportCount, 20)
      expect(reportCount * REPORT.length).to.be.below(1_100_000)
      await response.body?.cancel()
      await until(() => isDone)
    })

    it(`slow readers: ${name}: a response that is not read, and a handler that does not wait: about 1 MiB is kept, and one notice stands for the log messages that are dropped`, async () => {
      const { adapter, request } = await start('flood')
      const response = await posted(adapter.server, request)
      await until(() => isDone)
      const text = await response.text()
      expect(text.length).to.be.within(500_000, 1_200_000)
      const logs = logsIn(text)
      expect(logs).to.have.length.below(REPORTS / 2)
      const notices = logs.filter(({ params }) => params.data !== REPORT)
      expect(notices.map(({ params }) => params.data)).to.deep.equal([
        'Log messages are dropped, because the client does not read fast enough.',
      ])
      expect(eventsOf(text).at(-1).result.content[0].text).to.equal('done')
    })
  }
})
