import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import type * as Telemetry from '../../src/telemetry/index.ts'
import { browserBundle } from '../support/browser-bundle.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import { listen } from '../support/listen.ts'
import { skipIf } from '../support/skip.ts'

/** The globals of the page that the tests use. The types of Node.js do not include them. */
interface InPage {
  readonly kit: typeof Telemetry
  readonly document: any
  readonly navigator: { sendBeacon(url: string, body: unknown): boolean }
  readonly Request: { prototype: object }
  telemetry: Telemetry.KitTelemetryManager
  /** The number of beacons. */
  beacons: number
}

interface Arrived {
  readonly method: string | undefined
  readonly headers: IncomingMessage['headers']
  readonly bytes: number
  readonly names: readonly string[]
}

describe('telemetry in a browser', function () {
  this.timeout(120_000)

  let browser: Browser
  let bundle: string
  let context: BrowserContext
  let page: Page
  let origin: string
  let collector: Collector
  const problems: string[] = []
  /** The statuses of the next responses to OTLP requests. */
  const statuses: number[] = []
  /** The OTLP requests. */
  const logs: { readonly headers: IncomingMessage['headers']; readonly body: string }[] = []

  before(async function () {
    skipIf(this, chromiumMissing())
    bundle = await browserBundle(new URL('../support/telemetry/web-telemetry.js', import.meta.url))
    browser = await startChromium()
  })
  after(() => browser?.close())

  beforeEach(async () => {
    problems.length = 0
    collector = await Collector.start()
    logs.length = 0
    ;({ origin } = await listen(async (request, response) => {
      if (request.method === 'POST') {
        const body = (await buffer(request)).toString('latin1')
        logs.push({ headers: request.headers, body })
        response.writeHead(statuses.shift() ?? 200, { 'content-type': request.headers['content-type'] }).end()
        return
      }
      const isScript = request.url === '/telemetry.js'
      response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html')
      response.end(isScript ? bundle : '<!doctype html><script type="module" src="/telemetry.js"></script>')
    }))
    context = await browser.newContext()
    page = await context.newPage()
    page.on('pageerror', (error) => problems.push(String(error)))
    await page.goto(origin)
  })
  afterEach(async () => {
    await context?.close()
    expect(problems).to.deep.equal([])
  })

  /** Builds a manager in the page that posts to the collector, which is of another origin. */
  async function build(options: Partial<Telemetry.HttpTransportOptions> = {}): Promise<void> {
    await page.evaluate(
      ([url, more]) => {
        const globals = globalThis as unknown as InPage
        const { KitTelemetry, HttpTransportAdapter } = globals.kit
        globals.telemetry = KitTelemetry.create()
          .withLogger(false)
          .withSampling({ infoRate: 1 })
          .addTransport(HttpTransportAdapter.create({ url, ...more }))
          .build()
      },
      [collector.url, options] as const,
    )
  }

  const emit = (count: number, size = 10) =>
    page.evaluate(
      ([events, length]) => {
        const { telemetry } = globalThis as unknown as InPage
        for (let index = 0; index < events; index++)
          telemetry.emit(`page.event${index}`, { attributes: { text: 'ü'.repeat(length) } })
      },
      [count, size] as const,
    )

  const stats = () =>
    page.evaluate(() => {
      const { telemetry } = globalThis as unknown as InPage
      return telemetry.stats().transports.map(({ lastError: _, ...counters }) => counters)
    })

  /** Hides the page as switching to another tab does. */
  const hide = () =>
    page.evaluate(() => {
      const { document } = globalThis as unknown as InPage
      Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })
      document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
    })

  it('events of a page arrive at a collector of another origin, which allows the page with CORS', async () => {
    await build({ headers: { 'x-key': 'k' }, batch: { maxSize: 10, maxDelayMs: 0 } })
    await emit(3)
    await page.evaluate(() => (globalThis as unknown as InPage).telemetry.flush())
    expect(collector.names()).to.deep.equal(['page.event0', 'page.event1', 'page.event2'])
    const [request] = collector.posts
    expect(request?.headers).to.include({ origin, 'x-key': 'k', 'content-type': 'application/json' })
    expect(request?.headers['user-agent']).to.match(/^Mozilla/)
    expect(collector.preflights[0]?.headers['access-control-request-headers']).to.equal('content-type,x-key')
    expect(await stats()).to.deep.equal([
      { type: 'http', accepted: 3, delivered: 3, failed: 0, dropped: 0, pending: 0 },
    ])
  })

  it('a collector that does not allow the page makes events of the page fail', async () => {
    collector.allows = false
    await build()
    await emit(1)
    const error = await page.evaluate(async () => {
      const { telemetry } = globalThis as unknown as InPage
      await telemetry.flush()
      return telemetry.stats().transports[0]?.lastError?.message
    })
    expect(error).to.contain('could not be reached')
    problems.length = 0
  })

  it('a Retry-After that the collector exposes to the page delays the next attempt', async () => {
    collector.answers.push({ status: 429, headers: { 'retry-after': '1' } })
    await build({ retries: 1 })
    await emit(1)
    await page.evaluate(() => (globalThis as unknown as InPage).telemetry.flush())
    const [first, second] = collector.times
    expect((second ?? 0) - (first ?? 0)).to.be.within(900, 5_000)
    expect((await stats())[0]).to.include({ delivered: 1, failed: 0 })
  })

  it('events that wait for a batch arrive when the page is hidden, each exactly once', async () => {
    await build({ headers: { 'x-key': 'k' }, batch: { maxSize: 100, maxDelayMs: 600_000 } })
    await emit(20)
    expect(collector.posts).to.have.length(0)
    await hide()
    await collector.received(20)
    await page.evaluate(() => (globalThis as unknown as InPage).telemetry.flush())
    expect(collector.names().toSorted()).to.deep.equal(
      Array.from({ length: 20 }, (_, index) => `page.event${index}`).toSorted(),
    )
    expect(collector.posts[0]?.headers['x-key']).to.equal('k')
    expect(await stats()).to.deep.equal([
      { type: 'http', accepted: 20, delivered: 20, failed: 0, dropped: 0, pending: 0 },
    ])
  })

  it('events that wait for a batch arrive when the page is left, in requests of less than 64 KiB in all', async () => {
    await build({ batch: { maxSize: 1_000, maxDelayMs: 600_000 } })
    // Each event has more than 1,000 bytes, so that they need two batches.
    await emit(40, 500)
    await page.goto('about:blank')
    await collector.received(40)
    expect(collector.posts).to.have.length(2)
    for (const { bytes } of collector.posts) expect(bytes).to.be.within(10_000, 30_000)
    expect(new Set(collector.names())).to.have.property('size', 40)
    expect(collector.names()).to.have.length(40)
  })

  it('an event that the page emits in its own visibilitychange listener arrives when the page is left', async () => {
    await build({ batch: { maxSize: 1_000, maxDelayMs: 600_000 } })
    await page.evaluate(() => {
      const { document, telemetry } = globalThis as unknown as InPage
      document.addEventListener('visibilitychange', () => telemetry.emit('page.left'))
    })
    await page.goto('about:blank')
    await collector.received(1)
    expect(collector.names()).to.deep.equal(['page.left'])
  })

  it('a request that is in flight when the page is left arrives once', async () => {
    collector.answers.push('hung')
    await build({ batch: { maxSize: 1, maxDelayMs: 0 } })
    await emit(3)
    await collector.received(1)
    await page.goto('about:blank')
    await collector.received(3)
    expect(collector.names()).to.deep.equal(['page.event0', 'page.event1', 'page.event2'])
  })

  it('a batch of more than 64 KiB arrives from a visible page', async () => {
    await build()
    await emit(1, 4_900)
    await page.evaluate(() => {
      const { telemetry } = globalThis as unknown as InPage
      const texts = Object.fromEntries(
        Array.from({ length: 20 }, (_, index) => [`text${index}`, 'x'.repeat(4_900)]),
      )
      telemetry.emit('page.large', { attributes: texts })
      return telemetry.flush()
    })
    expect(collector.posts.map(({ bytes }) => bytes > 65_536)).to.deep.equal([false, true])
    expect((await stats())[0]).to.include({ delivered: 2, failed: 0 })
  })

  for (const [what, headers, expected] of [
    ['sends a beacon', {}, 1],
    ['sends no beacon for a request with own headers', { 'x-key': 'k' }, 0],
  ] as const) {
    it(`a hidden page of a browser whose fetch does not have keepalive ${what}`, async () => {
      await page.evaluate(() => {
        const globals = globalThis as unknown as InPage
        delete (globals.Request.prototype as { keepalive?: boolean }).keepalive
        const { navigator } = globals
        const sendBeacon = navigator.sendBeacon.bind(navigator)
        globals.beacons = 0
        navigator.sendBeacon = (url, body) => {
          globals.beacons++
          return sendBeacon(url, body)
        }
      })
      await build({ headers, batch: { maxSize: 1_000, maxDelayMs: 600_000 } })
      await emit(3)
      await hide()
      await collector.received(3)
      await page.evaluate(() => (globalThis as unknown as InPage).telemetry.flush())
      expect(collector.names()).to.have.length(3)
      const [request] = collector.posts
      expect(request?.headers['content-type']).to.equal('application/json')
      expect(await page.evaluate(() => (globalThis as unknown as InPage).beacons)).to.equal(expected)
      expect((await stats())[0]).to.include({ accepted: 3, delivered: 3, pending: 0 })
    })
  }

  it('a transport that is shut down sends nothing when the page is hidden', async () => {
    await build({ batch: { maxSize: 1_000, maxDelayMs: 600_000 } })
    await page.evaluate(() => (globalThis as unknown as InPage).telemetry.shutdown())
    await emit(1)
    await hide()
    await page.goto('about:blank')
    expect(collector.posts).to.have.length(0)
  })

  for (const encoding of ['json', 'protobuf'] as const) {
    it(`OtlpTransportAdapter sends the events of a page as ${encoding}, and again after a 503`, async () => {
      statuses.push(503)
      const counters = await page.evaluate(
        async ([url, form]) => {
          const { KitTelemetry, OtlpTransportAdapter } = (globalThis as unknown as InPage).kit
          const telemetry = KitTelemetry.create()
            .withLogger(false)
            .withSampling({ infoRate: 1 })
            .addTransport(OtlpTransportAdapter.create({ url, encoding: form, headers: { 'x-key': 'k' } }))
            .build()
          for (const name of ['a.a', 'a.b']) telemetry.emit(name, { attributes: { text: 'ü' } })
          await telemetry.shutdown()
          const [transport] = telemetry.stats().transports
          return [transport?.delivered, transport?.failed, transport?.lastError?.message]
        },
        [`${origin}/v1/logs`, encoding] as const,
      )
      expect(counters).to.deep.equal([2, 0, undefined])
      expect(logs).to.have.length(2)
      const [, request] = logs
      expect(request?.headers).to.include({
        'x-key': 'k',
        'content-type': encoding === 'json' ? 'application/json' : 'application/x-protobuf',
      })
      expect(request?.body).to.contain('a.a').and.to.contain('a.b').and.to.contain('kit-app')
    })
  }
})

/** A server that receives events of another origin. */
class Collector {
  readonly preflights: Arrived[] = []
  readonly posts: Arrived[] = []
  /** When each post arrived. */
  readonly times: number[] = []
  /** The next responses. `hung` does not respond. */
  readonly answers: ('hung' | { status: number; headers: Record<string, string> })[] = []
  allows = true
  url = ''
  #waiting: { readonly count: number; readonly resolve: () => void }[] = []

  static async start(): Promise<Collector> {
    const collector = new Collector()
    const { origin } = await listen((request, response) => collector.#receive(request, response))
    collector.url = `${origin.replace('127.0.0.1', 'localhost')}/events`
    return collector
  }

  names(): string[] {
    return this.posts.flatMap(({ names }) => names)
  }

  /** Resolves after `count` events. */
  received(count: number): Promise<void> {
    if (this.names().length >= count) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ count, resolve }))
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method, headers } = request
      if (this.allows && headers.origin !== undefined) {
        response.setHeader('access-control-allow-origin', headers.origin)
        response.setHeader('access-control-allow-credentials', 'true')
        response.setHeader('access-control-allow-headers', 'content-type, x-key')
        response.setHeader('access-control-expose-headers', 'retry-after, date')
      }
      const body = Buffer.concat(chunks)
      if (method === 'OPTIONS') {
        this.preflights.push({ method, headers, bytes: 0, names: [] })
        response.writeHead(204).end()
        return
      }
      const json = JSON.parse(body.toString())
      const names = [json].flat().map(({ name }) => name)
      this.posts.push({ method, headers, bytes: body.length, names })
      this.times.push(performance.now())
      const answer = this.answers.shift()
      if (answer !== 'hung') response.writeHead(answer?.status ?? 200, answer?.headers).end('ok')
      this.#waiting = this.#waiting.filter(({ count, resolve }) => {
        if (this.names().length < count) return true
        resolve()
        return false
      })
    })
  }
}
