import { expect } from 'chai'
import { KitTelemetry, type KitTelemetryManager, type TelemetryTransport } from '../../src/telemetry/index.ts'

type Method = 'handle' | 'flush' | 'shutdown'
type Call = 'emit' | 'flush' | 'shutdown'

/** More calls than this show an infinite recursion. */
const MANY = 50

describe('transports that call their manager', () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => unhandled.push(reason)
  before(() => process.on('unhandledRejection', note))
  after(() => process.off('unhandledRejection', note))

  /** The time of the call to the manager, and if the transport awaits it. */
  const ways = {
    'and ignores the result': (call: () => unknown) => void call(),
    'and returns the promise': (call: () => unknown) => call() as Promise<void>,
    'later, and awaits it': async (call: () => unknown) => {
      await new Promise((resolve) => setImmediate(resolve))
      await call()
    },
  }

  const ends = (method: Method, call: Call, way: keyof typeof ways) => async () => {
    let calls = 0
    let manager: KitTelemetryManager | undefined
    const act: () => unknown = () => {
      calls++
      if (calls > MANY) throw new Error('A recursion without end')
      if (call === 'emit') return manager?.emit('kit.mcp.again')
      return manager?.[call]({ timeoutMs: 200 })
    }
    const transport: TelemetryTransport = {
      type: 'calls',
      handle: () => {},
      [method]: () => ways[way](act),
    }
    let bystander = 0
    manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger({ error: () => {}, warn: () => {} })
      .addTransport(transport)
      .addTransport({ type: 'bystander', handle: () => void bystander++ })
      .build()
    manager.emit('first')
    const started = performance.now()
    await manager.flush({ timeoutMs: 300 })
    await manager.shutdown({ timeoutMs: 300 })
    expect(performance.now() - started).to.be.below(2_000)
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(calls).to.be.within(1, MANY)
    expect(bystander).to.be.above(0)
    for (const { accepted, delivered, failed, dropped, pending } of manager.stats().transports)
      expect(accepted).to.equal(delivered + failed + dropped + pending)
    // The event that is emitted too deep within others is not passed to any transport.
    const isStopped = method === 'handle' && call === 'emit' && way !== 'later, and awaits it'
    expect(manager.stats().transports[1]).to.include({ pending: 0, failed: isStopped ? 1 : 0 })
    expect(unhandled.splice(0)).to.deep.equal([])
  }

  for (const method of ['handle', 'flush', 'shutdown'] as const)
    for (const call of ['emit', 'flush', 'shutdown'] as const)
      for (const way of Object.keys(ways) as (keyof typeof ways)[])
        it(
          `transports that call their manager: ${method} calls ${call} ${way}: both end in time, and the counts are correct`,
          ends(method, call, way),
        )

  it('a shutdown that a transport calls in the flush of a shutdown ends long before its deadline', async () => {
    for (const call of ['flush', 'shutdown'] as const) {
      const manager: KitTelemetryManager = KitTelemetry.create()
        .addTransport({
          type: 'calls',
          handle: () => {},
          flush: async () => {
            await manager[call]()
          },
          shutdown: async () => {
            await manager[call]()
          },
        })
        .build()
      const started = performance.now()
      await manager.shutdown()
      expect(performance.now() - started).to.be.below(1_000)
    }
  })
})
