import { EdgeVM } from '@edge-runtime/vm'
import { expect } from 'chai'
import type * as Telemetry from '../../src/telemetry/index.ts'
import { browserBundle } from '../support/browser-bundle.ts'
import { startCollector, type Target } from '../support/chat-services.ts'
import { emitted } from '../support/telemetry/recording.ts'

/** The globals of the code in an edge runtime. */
interface InEdge {
  readonly kit: typeof Telemetry
  readonly origin: string
  readonly options?: object
}

/** Attributes of every kind, which are made in the realm in which this runs. */
function someAttributes(): Record<string, unknown> {
  return {
    date: new Date(0),
    map: new Map([['a', 1]]),
    set: new Set([1, 'b']),
    bytes: new Uint8Array([1, 2]),
    error: Object.assign(new RangeError('out'), { stack: 'RangeError: out' }),
    boxes: [Object('a'), Object(1), Object(true), Object(1n)],
    own: { toJSON: () => ({ a: 1 }) },
    symbol: Symbol('s'),
    lone: `\ud800${'x'.repeat(6_000)}`,
    number: -0,
  }
}

describe('telemetry in an edge runtime', () => {
  let bundle: string
  let target: Target

  before(async () => {
    bundle = await browserBundle(new URL('../support/telemetry/web-telemetry.js', import.meta.url))
  })
  beforeEach(async () => {
    target = await startCollector()
  })

  /** Runs a function, which must not refer to variables of this file, in a new edge runtime. */
  async function inEdge<Result>(
    run: (globals: InEdge) => Result | Promise<Result>,
    globals: Readonly<Record<string, unknown>> = {},
  ): Promise<Result> {
    const vm = new EdgeVM({ extend: (context) => Object.assign(context, globals, { origin: target.origin }) })
    vm.evaluate(bundle)
    const result = await vm.evaluate<Promise<string | undefined>>(
      `(async () => JSON.stringify(await (${run.toString()})(globalThis)))()`,
    )
    return result === undefined ? (undefined as Result) : JSON.parse(result)
  }

  it('the edge runtime of these tests has neither modules of Node.js nor its globals', async () => {
    const present = await inEdge(() =>
      ['process', 'Buffer', 'setImmediate', 'require', 'AsyncLocalStorage', 'document'].filter(
        (name) => name in globalThis,
      ),
    )
    expect(present).to.deep.equal([])
  })

  it('an event with values of every kind is the same in an edge runtime as in Node.js', async () => {
    const inNode = emitted({ attributes: someAttributes() })
    const vm = new EdgeVM()
    vm.evaluate(bundle)
    const attributes: string = vm.evaluate(`(() => {
      const memory = kit.InMemoryTransportAdapter.create()
      const telemetry = kit.KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(memory).build()
      telemetry.emit('something.happened', { attributes: (${someAttributes.toString()})() })
      return JSON.stringify(memory.getEvents()[0].attributes)
    })()`)
    expect(JSON.parse(attributes)).to.deep.equal(JSON.parse(JSON.stringify(inNode.attributes)))
  })

  it('HttpTransportAdapter in an edge runtime posts batches with fetch, and its statistics are exact', async () => {
    target.answers.push({ status: 503 }, { status: 200 }, { status: 413 })
    const stats = await inEdge(async ({ kit, origin }) => {
      const http = kit.HttpTransportAdapter.create({
        url: `${origin}/events`,
        headers: { 'x-key': 'k' },
        retries: 1,
        batch: { maxSize: 2, maxDelayMs: 0 },
      })
      const telemetry = kit.KitTelemetry.create()
        .withLogger(false)
        .withSampling({ infoRate: 1 })
        .addTransport(http)
        .build()
      for (const name of ['a.a', 'a.b', 'a.c', 'a.d', 'a.e']) telemetry.emit(name)
      await telemetry.shutdown()
      return telemetry.stats().transports
    })
    expect(stats).to.deep.equal([
      { type: 'http', accepted: 5, delivered: 5, failed: 0, dropped: 0, pending: 0 },
    ])
    expect(
      target.requests.map(({ json, status }) => [status, ...json.map(({ name }: { name: string }) => name)]),
    ).to.deep.equal([
      [503, 'a.a', 'a.b'],
      [200, 'a.a', 'a.b'],
      [413, 'a.c', 'a.d'],
      [200, 'a.c'],
      [200, 'a.d'],
      [200, 'a.e'],
    ])
    expect(target.requests[0]?.headers).to.include({ 'x-key': 'k', 'content-type': 'application/json' })
    expect(target.requests[0]?.headers['user-agent']).not.to.include('mcp-gatekit')
  })

  it('a shutdown in an edge runtime ends at its timeout, and leaves the event of a hung request pending', async () => {
    target.answers.push('hung')
    const [pending, failed] = await inEdge(async ({ kit, origin }) => {
      const telemetry = kit.KitTelemetry.create()
        .withLogger(false)
        .withSampling({ infoRate: 1 })
        .addTransport(kit.HttpTransportAdapter.create({ url: origin, timeout: 60_000 }))
        .build()
      telemetry.emit('a.a')
      await telemetry.shutdown({ timeoutMs: 100 })
      const [stats] = telemetry.stats().transports
      return [stats?.pending, stats?.failed]
    })
    expect([pending, failed]).to.deep.equal([1, 0])
  })

  it('options that need Node.js throw in an edge runtime, and the errors name them', async () => {
    const messages = await inEdge(({ kit, origin }) => {
      const agent: any = { addRequest: () => {} }
      const dispatcher = { dispatch: () => true }
      const builder = kit.KitTelemetry.create()
      return [
        () => builder.withRedaction({ hashKeys: ['email'] }),
        () => builder.withRedaction({ hashSecret: 'x'.repeat(32) }),
        () => builder.withRedaction({ patterns: [{ name: 'id', pattern: /id_\d{1,9}/, replace: 'hash' }] }),
        () => kit.HttpTransportAdapter.create({ url: origin, dispatcher }),
        () => kit.OtlpTransportAdapter.create({ url: origin, agent }),
        () => builder.withRedaction({ hashKeys: [], patterns: [{ name: 'id', pattern: /id_\d{1,9}/ }] }),
      ].map((attempt) => {
        try {
          attempt()
          return 'accepted'
        } catch (error) {
          return `${(error as { code: string }).code} ${(error as Error).message.split(' Run ')[0]}`
        }
      })
    })
    const invalid = 'TELEMETRY_CONFIGURATION_INVALID'
    const hashing =
      'needs node:crypto, which this runtime does not have. Use denylistKeys, and hash values on a server.'
    const nodeOnly = 'is available in Node.js only. Remove it in other runtimes.'
    expect(messages).to.deep.equal([
      `${invalid} withRedaction({ hashKeys }) ${hashing}`,
      `${invalid} withRedaction({ hashSecret }) ${hashing}`,
      `${invalid} replace: 'hash' of withRedaction({ patterns }) ${hashing}`,
      `${invalid} HttpTransportAdapter.create({ dispatcher }) ${nodeOnly}`,
      `${invalid} OtlpTransportAdapter.create({ agent }) ${nodeOnly}`,
      'accepted',
    ])
  })

  it('events are validated in an edge runtime without process.env', async () => {
    const code = await inEdge(({ kit }) => {
      const telemetry = kit.KitTelemetry.create().addActor('user').build()
      try {
        telemetry.emit('a.a', { actor: { type: 'robot' as 'user', id: '1' } })
        return 'accepted'
      } catch (error) {
        return (error as { code: string }).code
      }
    })
    expect(code).to.equal('TELEMETRY_INVALID_ACTOR')
  })
})
