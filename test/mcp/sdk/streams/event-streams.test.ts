import { once } from 'node:events'
import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { InMemoryServerEventBus } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, mcpHandler } from '../../../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../../../src/mcp/adapter.ts'
import { fakeTime } from '../../../support/fake-time.ts'
import { listen } from '../../../support/listen.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { bearer, call, eventsOf, legacy } from '../../../support/mcp/wire.ts'
import { runs } from '../../../support/runs.ts'

const router = KitMcpRouter.create().tool(
  'echo',
  { description: 'x', input: z.object({ text: z.string() }) },
  ({ text }) => text,
)

/** An open stream of a client, with the received events. */
class Stream {
  readonly #outgoing: ClientRequest
  #text = ''
  #wake: (() => void) | undefined

  private constructor(outgoing: ClientRequest, response: IncomingMessage) {
    this.#outgoing = outgoing
    const wake = (): void => this.#wake?.()
    response.setEncoding('utf8').on('data', (text: string) => {
      this.#text += text
      wake()
    })
    response.on('error', wake).on('close', wake)
  }

  static async open(port: number, token = 'reader'): Promise<Stream> {
    const headers = { ...bearer(token), accept: 'text/event-stream' }
    const outgoing = httpRequest({ host: '127.0.0.1', port, path: '/mcp', headers, agent: false }).end()
    outgoing.on('error', () => undefined)
    const [response] = await once(outgoing, 'response')
    expect(response.statusCode).to.equal(200)
    const stream = new Stream(outgoing, response)
    await stream.until(() => stream.#text.startsWith(': open\n\n'))
    return stream
  }

  get received(): string[] {
    return eventsOf(this.#text.slice(0, this.#text.lastIndexOf('\n') + 1)).map(({ method }) =>
      method.slice('notifications/'.length),
    )
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  cut(): void {
    this.#outgoing.destroy()
  }
}

/** Waits until no stream listens. */
async function silence(bus: InMemoryServerEventBus): Promise<void> {
  while (bus.listenerCount > 0) await new Promise(setImmediate)
}

describe('mcp: event streams', function () {
  this.timeout(60_000)
  let bus: InMemoryServerEventBus
  let adapter: McpAdapter
  let port: number
  beforeEach(async () => {
    bus = new InMemoryServerEventBus()
    adapter = createMcpAdapter({ router, oauth: oauth(), eventBus: bus, streams: { maxPerOwner: 1024 } })
    port = (await listen(mcpHandler(adapter))).port
  })

  const many = runs(1_000)
  it(`${many} open event streams each receive every notification once, and leave nothing behind`, async () => {
    const streams = await Promise.all(Array.from({ length: many }, () => Stream.open(port)))
    expect(bus.listenerCount).to.equal(many)
    const { notify } = adapter
    notify.toolsChanged()
    notify.resourcesChanged()
    await Promise.all(streams.map((stream) => stream.until(() => stream.received.length >= 2)))
    for (const { received } of streams)
      expect(received).to.deep.equal(['tools/list_changed', 'resources/list_changed'])
    for (const stream of streams) stream.cut()
    await silence(bus)
    const again = await Stream.open(port)
    expect(bus.listenerCount).to.equal(1)
    again.cut()
    await silence(bus)
  })

  it('event streams are limited to 1024, and one that ends frees a slot', async () => {
    const { server } = createMcpAdapter({
      router,
      oauth: oauth(),
      eventBus: bus,
      streams: { maxPerOwner: 2000 },
    })
    const open = () => server(new Request('http://localhost/mcp', { headers: bearer('reader') }))
    const responses = await Promise.all(Array.from({ length: 1024 }, open))
    const refused = await open()
    expect(refused.status).to.equal(503)
    expect(refused.headers.get('retry-after')).to.equal('5')
    await responses[500]?.body?.cancel()
    const next = await open()
    expect(next.status).to.equal(200)
    for (const response of [...responses, next]) if (!response.body?.locked) await response.body?.cancel()
    expect(bus.listenerCount).to.equal(0)
  })

  it('an event stream ends when its client disconnects, even if the host keeps the stream', async () => {
    const abort = new AbortController()
    const init = { headers: bearer('reader'), signal: abort.signal }
    for (let time = 0; time < 3; time++) {
      const response = await adapter.server(new Request('http://localhost/mcp', init))
      expect(response.status).to.equal(200)
    }
    expect(bus.listenerCount).to.equal(3)
    abort.abort()
    expect(bus.listenerCount).to.equal(0)
    await adapter.server(new Request('http://localhost/mcp', init))
    expect(bus.listenerCount).to.equal(0)
  })

  it('an event stream of a client that does not read ends at 1 MiB', async () => {
    const response = await adapter.server(new Request('http://localhost/mcp', { headers: bearer('reader') }))
    for (let time = 0; time < 20_000; time++) adapter.notify.toolsChanged()
    expect(bus.listenerCount).to.equal(0)
    expect(await response.text()).to.have.length.within(1_000_000, 1_100_000)
  })

  it('event streams receive notifications in order while the server is busy, and calls are served', async () => {
    const streams = await Promise.all(Array.from({ length: 50 }, () => Stream.open(port)))
    const agent = new Agent({ keepAlive: true, maxSockets: 20 })
    const sent: string[] = []
    const ask = async (n: number): Promise<number | undefined> => {
      const { headers, body } = legacy(call('echo', { text: 'x'.repeat(1000) }, n), bearer('reader'))
      const options = { host: '127.0.0.1', port, path: '/mcp', method: 'POST', agent }
      const outgoing = httpRequest({ ...options, headers: headers as Record<string, string> }).end(body)
      const [response] = await once(outgoing, 'response')
      await once(response.resume(), 'end')
      return response.statusCode
    }
    const say = async (): Promise<void> => {
      for (let time = 0; time < 20; time++) {
        const isTools = time % 2 === 0
        if (isTools) adapter.notify.toolsChanged()
        else adapter.notify.resourcesChanged()
        sent.push(isTools ? 'tools/list_changed' : 'resources/list_changed')
        await Promise.all(streams.map((stream) => stream.until(() => stream.received.length === sent.length)))
      }
    }
    const [statuses] = await Promise.all([
      Promise.all(Array.from({ length: runs(1_000) }, (_, n) => ask(n))),
      say(),
    ])
    expect(new Set(statuses)).to.deep.equal(new Set([200]))
    for (const { received } of streams) expect(received).to.deep.equal(sent)
    for (const stream of streams) stream.cut()
    agent.destroy()
    await silence(bus)
  })

  it('many event streams end with their tokens at once', async () => {
    const expiresAt = Date.now() / 1000 + 2
    const verifyToken = () => ({ valid: true, scopes: ['mcp:read'], expiresAt })
    const own = createMcpAdapter({
      router,
      oauth: oauth({ verifyToken }),
      eventBus: bus,
      streams: { maxPerOwner: 200 },
    })
    const open = () => own.server(new Request('http://localhost/mcp', { headers: bearer('x') }))
    const responses = await Promise.all(Array.from({ length: 200 }, open))
    expect(bus.listenerCount).to.equal(200)
    const texts = await Promise.all(responses.map((response) => response.text()))
    expect(new Set(texts)).to.deep.equal(new Set([': open\n\n']))
    expect(bus.listenerCount).to.equal(0)
  })

  it('an event stream sends a comment every 15 s, but not to a client that does not read', async () => {
    const clock = fakeTime()
    try {
      const { body } = await adapter.server(
        new Request('http://localhost/mcp', { headers: bearer('reader') }),
      )
      const reader = body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
      const text = async (): Promise<string> => Buffer.from((await reader.read()).value ?? []).toString()
      expect(await text()).to.equal(': open\n\n')
      for (let time = 0; time < 2; time++) {
        const next = text()
        clock.advance(15_100)
        expect(await next).to.equal(': keep-alive\n\n')
      }
      for (let time = 0; time < 1000; time++) clock.advance(15_100)
      expect(await text()).to.equal(': keep-alive\n\n')
      adapter.notify.toolsChanged()
      expect(eventsOf(await text())).to.have.length(1)
      await reader.cancel()
      clock.advance(15_100)
      expect(bus.listenerCount).to.equal(0)
    } finally {
      clock.restore()
    }
  })
})
