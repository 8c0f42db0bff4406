import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { connect } from 'node:net'
import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { KitMcpRouter, mcpHandler, type ServerFactory } from '../../src/index.ts'
import { createMcpAdapter, type FetchHandler } from '../../src/mcp/adapter.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listenHttp2 } from '../support/http2.ts'
import { listen } from '../support/listen.ts'
import { web } from '../support/mcp/entry-points.ts'
import { call, definedOf, eventsOf, legacy, rpc, type WireRequest } from '../support/mcp/wire.ts'
import { standstill, until } from '../support/until.ts'

const MIB = 1024 * 1024
const TEXT = 'x'.repeat(MIB / 2)
const CALLS = 60

/** The number of calls whose results may wait: 8 MiB, and the response that is being written. */
const MAX_WAITING = 8 * 2 + 1

/** The number of results that the buffers of the system may take from the server in addition. */
const IN_SOCKETS = 16

let begun = 0
let running = 0
let peak = 0

/** Returns a large result a moment later. */
async function large(): Promise<string> {
  begun++
  peak = Math.max(peak, ++running)
  await new Promise(setImmediate)
  running--
  return TEXT
}

const router = KitMcpRouter.create().tool('large', { description: 'x' }, large)

const ofSdk: ServerFactory = () => {
  const server = new McpServer({ name: 'existing', version: '1' })
  server.registerTool('large', { description: 'x' }, async () => ({
    content: [{ type: 'text', text: await large() }],
  }))
  return server
}

const WAYS: Readonly<Record<string, { router: KitMcpRouter<any> | ServerFactory; sessions: boolean }>> = {
  'without sessions': { router, sessions: false },
  'in a session': { router, sessions: true },
  'of a router function': { router: ofSdk, sessions: false },
  'in a session of a router function': { router: ofSdk, sessions: true },
}

const batchOf = (messages: readonly unknown[]): WireRequest =>
  legacy(messages, { 'mcp-protocol-version': '2025-03-26' })
const BATCH = batchOf(Array.from({ length: CALLS }, (_, id) => call('large', {}, id)))

function webRequest({ headers = {}, body }: WireRequest, signal?: AbortSignal): Request {
  const init = { method: 'POST', headers: definedOf(headers), body: body as string }
  return new Request('http://localhost:3000/mcp', { ...init, ...(signal !== undefined && { signal }) })
}

async function begin(server: FetchHandler): Promise<Record<string, string>> {
  const params = {
    protocolVersion: '2025-03-26',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  }
  const response = await server(
    webRequest(legacy(rpc('initialize', params), { 'mcp-protocol-version': undefined })),
  )
  await response.text()
  return { 'mcp-session-id': response.headers.get('mcp-session-id') as string }
}

const idsIn = (text: string): unknown[] => eventsOf(text).map(({ id }) => id)
const ALL_IDS = Array.from({ length: CALLS }, (_, id) => id)

describe('attacks with batches', function () {
  this.timeout(60_000)
  beforeEach(() => {
    begun = 0
    peak = 0
  })

  for (const [name, way] of Object.entries(WAYS)) {
    const start = async () => {
      const adapter = createMcpAdapter({ router: way.router, ...(way.sessions && { sessions: {} }) })
      const session = way.sessions ? await begin(adapter.server) : {}
      return {
        adapter,
        ask: (request: WireRequest) => ({ ...request, headers: { ...request.headers, ...session } }),
      }
    }

    it(`batches ${name}: ${CALLS} calls with results of 512 KiB, to the web-standard handler, whose response is not read: at most 8 MiB wait, one call runs at a time, and all run in order when the client reads`, async () => {
      const { adapter, ask } = await start()
      const response = await adapter.server(webRequest(ask(BATCH)))
      await standstill(
        () => begun,
        10,
        () => running === 0,
      )
      expect(begun).to.be.within(1, MAX_WAITING)
      const text = await response.text()
      expect(idsIn(text)).to.deep.equal(ALL_IDS)
      expect(peak).to.equal(1)
    })

    it(`batches ${name}: ${CALLS} calls with results of 512 KiB, over HTTP/1.1, on a socket that is not read: at most 8 MiB wait in the server, and all calls run in order when the client reads`, async () => {
      const { adapter, ask } = await start()
      const { port } = await listen(mcpHandler(adapter))
      const { headers = {}, body = '' } = ask(BATCH)
      const lines = Object.entries(definedOf(headers)).map(([header, value]) => `${header}: ${value}`)
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      await once(socket, 'connect')
      const length = `Content-Length: ${(body as string).length}`
      socket.write(
        ['POST /mcp HTTP/1.1', 'Host: 127.0.0.1', 'Connection: close', length, ...lines, '', body].join(
          '\r\n',
        ),
      )
      await standstill(
        () => begun,
        10,
        () => running === 0,
      )
      expect(begun).to.be.within(1, MAX_WAITING + IN_SOCKETS)
      let text = ''
      for await (const chunk of socket.setEncoding('latin1')) text += chunk
      // The chunks of HTTP divide the lines.
      expect(idsIn(text.replace(/\r\n[0-9a-f]+\r\n/g, ''))).to.deep.equal(ALL_IDS)
    })

    it(`batches ${name}: ${CALLS} calls with results of 512 KiB, over HTTP/2, on a stream that is not read: at most 8 MiB wait, and all calls run in order when the client reads`, async () => {
      const { adapter, ask } = await start()
      const served = await listenHttp2(mcpHandler(adapter))
      const { headers = {}, body } = ask(BATCH)
      const stream = (await served.connect()).request({
        ':method': 'POST',
        ':path': '/mcp',
        ...definedOf(headers),
      })
      stream.end(body)
      await standstill(
        () => begun,
        10,
        () => running === 0,
      )
      expect(begun).to.be.within(1, MAX_WAITING)
      let text = ''
      for await (const chunk of stream.setEncoding('utf8')) text += chunk
      expect(idsIn(text)).to.deep.equal(ALL_IDS)
      await served.close()
    })

    it(`batches ${name}: a client that disconnects while the calls of its batch wait: no further call runs`, async () => {
      const { adapter, ask } = await start()
      const client = new AbortController()
      await adapter.server(webRequest(ask(BATCH), client.signal))
      await standstill(
        () => begun,
        10,
        () => running === 0,
      )
      const before = begun
      client.abort()
      await standstill(
        () => begun,
        10,
        () => running === 0,
      )
      expect(begun).to.equal(before)
      expect(peak).to.equal(1)
    })
  }

  for (const sessions of [false, true]) {
    it(`a call of a batch does not see the asynchronous context of the previous call, ${sessions ? 'in' : 'without'} a session`, async () => {
      const context = new AsyncLocalStorage<string>()
      const seen: unknown[] = []
      const nosy = KitMcpRouter.create().tool('look', { description: 'x' }, () => {
        seen.push(context.getStore())
        context.enterWith('secret of a call')
        return 'seen'
      })
      const adapter = createMcpAdapter({ router: nosy, ...(sessions && { sessions: {} }) })
      const session = sessions ? await begin(adapter.server) : {}
      const { headers, body } = batchOf([call('look', {}, 1), call('look', {}, 2), call('look', {}, 3)])
      const response = await adapter.server(
        webRequest({ headers: { ...headers, ...session }, body: body as string }),
      )
      expect(idsIn(await response.text())).to.deep.equal([1, 2, 3])
      expect(seen).to.deep.equal([undefined, undefined, undefined])
    })
  }

  const nested = {
    alone: [[call('large')]],
    'after a message': [rpc('ping'), [call('large')]],
    'in a third one': [[[call('large')]]],
  }
  for (const [where, batch] of Object.entries(nested))
    it(`a batch within a batch, ${where}, does not avoid the scopes of a tool`, async () => {
      const scopes = { tools: { large: ['admin'] } }
      const { server } = createMcpAdapter({ router: ofSdk, scopes, oauth: oauthOptions({ scopes: [] }) })
      const { headers, ...request } = batchOf(batch)
      const response = await web(server).send({
        ...request,
        headers: { ...headers, authorization: 'Bearer good' },
      })
      expect([response.status, response.message.error.code, begun]).to.deep.equal([400, -32_600, 0])
    })

  it('a request on another connection is served between the calls of a batch', async () => {
    const adapter = createMcpAdapter({ router })
    const { port } = await listen(mcpHandler(adapter))
    const send = ({ headers = {}, body }: WireRequest): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/mcp`, {
        method: 'POST',
        headers: definedOf(headers),
        body: body as string,
      })
    const batch = send(BATCH).then((response) => response.text())
    await until(() => begun > 0)
    await (await send(legacy(rpc('tools/list')))).text()
    expect(begun).to.be.below(CALLS)
    expect(idsIn(await batch)).to.have.length(CALLS)
  })
})
