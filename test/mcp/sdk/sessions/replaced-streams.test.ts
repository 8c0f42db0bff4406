import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect } from 'chai'
import { KitMcpRouter, mcpHandler } from '../../../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../../../src/mcp/adapter.ts'
import { withNotifications } from '../../../support/mcp/clients.ts'
import { onNode } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { bearer, call, eventsOf, LEGACY, type Listening, legacy, rpc } from '../../../support/mcp/wire.ts'
import { until } from '../../../support/until.ts'

/** A TCP proxy that keeps its connections to the server when clients leave. */
class HoldingProxy {
  readonly #server = createServer()
  readonly #upstream: Socket[] = []
  readonly #clients: Socket[] = []
  /** The bytes that the server has sent on each connection. */
  readonly received: string[] = []

  async start(port: number): Promise<string> {
    this.#server.on('connection', (client) => {
      const upstream = connect(port, '127.0.0.1')
      const index = this.received.push('') - 1
      this.#upstream.push(upstream)
      this.#clients.push(client)
      client.on('data', (data) => upstream.write(data))
      upstream.on('data', (data) => {
        this.received[index] = `${this.received[index]}${data}`
        if (!client.destroyed) client.write(data)
      })
      for (const socket of [client, upstream]) socket.on('error', () => undefined)
    })
    await once(this.#server.listen(0, '127.0.0.1'), 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Disconnects all clients. */
  drop(): void {
    for (const client of this.#clients.splice(0)) client.destroy()
  }

  async close(): Promise<void> {
    this.drop()
    for (const socket of this.#upstream) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

describe('mcp: a stream of a session that its client has lost', () => {
  let adapter: McpAdapter
  let server: Listening
  let proxy: HoldingProxy
  let throughProxy: string
  let finish: () => void

  beforeEach(async () => {
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    const router = KitMcpRouter.create().tool('wait', { description: 'Waits' }, async () => {
      await finished
      return 'done'
    })
    adapter = createMcpAdapter({ router, oauth: oauth(), sessions: true })
    server = await onNode(mcpHandler(adapter))
    proxy = new HoldingProxy()
    throughProxy = await proxy.start(server.port)
  })
  afterEach(async () => {
    finish()
    await proxy.close()
    await server.close()
  })

  /** Begins a session. @returns its headers */
  async function begin(protocolVersion: string = LEGACY): Promise<Record<string, string>> {
    const clientInfo = { name: 'test', version: '1' }
    const message = rpc('initialize', { protocolVersion, capabilities: {}, clientInfo })
    const request = legacy(message, { 'mcp-protocol-version': undefined, ...bearer('reader') })
    const { headers } = await server.send(request)
    return {
      'mcp-session-id': headers.get('mcp-session-id') ?? '',
      'mcp-protocol-version': protocolVersion,
      ...bearer('reader'),
    }
  }

  /** Sends a request. Resolves with the response when its headers have arrived. */
  async function open(
    headers: Record<string, string>,
    { origin = server.origin, message }: { origin?: string; message?: object } = {},
  ): Promise<IncomingMessage> {
    const outgoing = httpRequest(`${origin}/mcp`, {
      agent: false,
      method: message === undefined ? 'GET' : 'POST',
      headers: {
        accept: message === undefined ? 'text/event-stream' : 'application/json, text/event-stream',
        ...(message !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
    })
    outgoing.on('error', () => undefined)
    outgoing.end(message === undefined ? undefined : JSON.stringify(message))
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    response.on('error', () => undefined)
    return response.setEncoding('utf8')
  }

  /** Reads a stream until its text matches. */
  async function readUntil(stream: IncomingMessage, pattern: RegExp): Promise<string> {
    let text = ''
    while (!pattern.test(text)) {
      const chunk: string | null = stream.read()
      if (chunk !== null) text += chunk
      else if (stream.readableEnded || stream.destroyed) throw new Error(`the stream has ended: ${text}`)
      else await Promise.race([once(stream, 'readable'), once(stream, 'close')])
    }
    return text
  }
  const idIn = (text: string): string => /^id: (\S+)$/m.exec(text)?.[1] ?? ''

  it('is replaced by a second GET, which receives what comes next, while a proxy holds the first one open', async () => {
    const session = await begin()
    await readUntil(await open(session, { origin: throughProxy }), /^:/)
    proxy.drop()
    const second = await open(session)
    expect(second.statusCode).to.equal(200)
    adapter.notify.toolsChanged()
    expect(await readUntil(second, /list_changed/)).to.match(/^: open\n\n/)
    await until(() => proxy.received[0]?.endsWith('0\r\n\r\n') === true)
    expect(proxy.received[0]).not.to.contain('list_changed')
    second.destroy()
  })

  it('is replaced by a GET with Last-Event-ID, which receives each missed event once and what comes next', async () => {
    const session = await begin()
    const first = await open(session, { origin: throughProxy })
    adapter.notify.toolsChanged()
    const lastEventId = idIn(await readUntil(first, /tools\/list_changed/))
    proxy.drop()
    adapter.notify.promptsChanged()
    await until(() => proxy.received[0]?.includes('prompts/list_changed') === true)
    const second = await open({ ...session, 'last-event-id': lastEventId })
    expect(second.statusCode).to.equal(200)
    adapter.notify.resourcesChanged()
    const methods = eventsOf(await readUntil(second, /resources\/list_changed.*\n\n/)).map(
      ({ method }) => method,
    )
    expect(methods).to.deep.equal([
      'notifications/prompts/list_changed',
      'notifications/resources/list_changed',
    ])
    await until(() => proxy.received[0]?.endsWith('0\r\n\r\n') === true)
    expect(proxy.received[0]).not.to.contain('resources/list_changed')
    second.destroy()
  })

  it('is replaced by a GET that resumes a POST, and the result arrives there', async () => {
    const session = await begin()
    const first = await open(session, { origin: throughProxy, message: call('wait') })
    const lastEventId = idIn(await readUntil(first, /^id: \S+$/m))
    proxy.drop()
    for (const last of [false, true]) {
      const resumed = await open({ ...session, 'last-event-id': lastEventId })
      expect(resumed.statusCode).to.equal(200)
      if (last) {
        finish()
        expect(eventsOf(await readUntil(resumed, /"done"/))).to.have.length(1)
      }
      // The second resumption replaces the first one.
      else resumed.resume()
    }
    await until(() => proxy.received[0]?.endsWith('0\r\n\r\n') === true)
    expect(proxy.received[0]).not.to.contain('"done"')
  })

  it('is not replaced by a GET of another user, who gets 404', async () => {
    const session = await begin()
    const stream = await open(session)
    for (const headers of [{}, { 'last-event-id': 'unknown' }]) {
      const foreign = await open({ ...session, ...bearer('writer'), ...headers })
      expect(foreign.statusCode).to.equal(404)
      foreign.resume()
    }
    adapter.notify.toolsChanged()
    await readUntil(stream, /list_changed/)
    stream.destroy()
  })

  it('is replaced as often as its client asks, and one stream is open in the end', async () => {
    const session = await begin()
    const ended: Promise<unknown>[] = []
    for (let count = 0; count < 100; count++) {
      const stream = await open(session)
      expect(stream.statusCode).to.equal(200)
      ended.push(once(stream.resume(), 'end'))
    }
    const last = await open(session)
    await Promise.all(ended)
    adapter.notify.toolsChanged()
    await readUntil(last, /list_changed/)
    last.destroy()
  })

  it('is opened again by the client of SDK v1, which receives the next notification', async () => {
    const received: string[] = []
    const client = withNotifications(new ClientV1({ name: 'test', version: '1' }), ({ method }) =>
      received.push(method),
    )
    let opened = 0
    const transport = new TransportV1(new URL('/mcp', throughProxy), {
      reconnectionOptions: {
        initialReconnectionDelay: 1,
        maxReconnectionDelay: 1,
        reconnectionDelayGrowFactor: 1,
        maxRetries: 2,
      },
      fetch: async (input, init) => {
        const headers = new Headers(init?.headers)
        headers.set('authorization', 'Bearer reader')
        const response = await fetch(input, { ...init, headers })
        if (init?.method === 'GET' && response.status === 200) opened++
        return response
      },
    })
    await client.connect(transport as Parameters<typeof client.connect>[0])
    await until(() => opened === 1)
    proxy.drop()
    await until(() => opened === 2)
    adapter.notify.toolsChanged()
    await until(() => received.length > 0)
    expect(received).to.deep.equal(['notifications/tools/list_changed'])
    await client.close()
  })

  for (const revision of ['2025-03-26', '2025-06-18', '2025-11-25'])
    for (const [what, message] of [
      ['GET', undefined],
      ['POST that is answered by a stream', call('wait')],
    ] as const)
      it(`of revision ${revision} has begun with a first byte at once, for a ${what}`, async () => {
        const stream = await open(await begin(revision), message && { message })
        expect(await readUntil(stream, /\n/)).to.match(/^(?:: open\n|id: )/)
        stream.destroy()
      })
})
