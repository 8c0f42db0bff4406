import { AsyncLocalStorage } from 'node:async_hooks'
import { expect } from 'chai'
import type {
  KitTelemetryManager,
  KitTelemetrySession,
  TelemetryEnvelope,
  TelemetryLevel,
  TelemetrySamplingPolicy,
  TelemetryTransport,
} from '../../../src/telemetry/index.ts'
import { MAX_HELD } from '../../../src/telemetry/session/tail-sampling.ts'
import { deferred, expectCode, expectDeeplyFrozen, recording } from '../../support/telemetry/recording.ts'

type Keep = NonNullable<TelemetrySamplingPolicy['keep']>

/** A policy that drops every event below `warn`, unless `keep` keeps it. */
const NOTHING_BELOW_WARN = { unit: 'session', debugRate: 0, infoRate: 0 } as const

function keeping(keep: Keep, policy: TelemetrySamplingPolicy = {}) {
  const { builder, events, logger } = recording()
  const manager = builder
    .withRedaction({ denylistKeys: ['password'] })
    .withSampling({ ...NOTHING_BELOW_WARN, ...policy, keep })
    .build()
  return { manager, logger, events, summary: () => events().map(summaryOf) }
}

/** The name of an event, and the condition under which it was delivered. */
function summaryOf({ name, attributes }: TelemetryEnvelope): string {
  const condition = attributes?.['kit.sampled_by']
  return condition === undefined ? name : `${name} by ${condition}`
}

function expectSum(manager: KitTelemetryManager): void {
  const { emitted, sampledOut, held, transports } = manager.stats()
  for (const { accepted } of transports) expect(sampledOut + held + accepted).to.equal(emitted)
}

/** A transport that passes each event to a function. */
function transportOf(handle: TelemetryTransport['handle'], more: Partial<TelemetryTransport> = {}) {
  return { type: 'test', handle, ...more }
}

describe('tail sampling', () => {
  const now = performance.now
  let offsetMs = 0
  beforeEach(() => {
    offsetMs = 0
    performance.now = () => offsetMs
  })
  afterEach(() => {
    performance.now = now
  })

  type Condition = readonly [
    title: string,
    keep: Keep,
    emits: readonly (readonly [name: string, level?: TelemetryLevel])[],
    delivered: readonly string[],
    lastsMs?: number | undefined,
    policy?: TelemetrySamplingPolicy,
  ]
  const conditions: readonly Condition[] = [
    [
      'a session without a condition is dropped when it ends',
      { level: 'warn', slowerThanMs: 1000, names: ['*.kept'] },
      [['a'], ['b', 'debug']],
      [],
    ],
    [
      'a session with an event of the level is delivered in order after the events that sampling keeps',
      { level: 'warn' },
      [['a'], ['b', 'debug'], ['c', 'warn'], ['d']],
      ['c', 'a by level', 'b by level', 'd by level'],
    ],
    [
      'a session with an event above the level is delivered',
      { level: 'warn' },
      [['a'], ['b', 'fatal']],
      ['b', 'a by level'],
    ],
    ['a session with events below the level is dropped', { level: 'error' }, [['a'], ['b', 'warn']], ['b']],
    [
      'a held event itself can meet the condition level',
      { level: 'info' },
      [['a', 'debug'], ['b']],
      ['a by level', 'b by level'],
    ],
    [
      'a session that lasts longer than slowerThanMs is delivered',
      { slowerThanMs: 1000 },
      [['a'], ['b', 'warn']],
      ['b', 'a by slowerThanMs'],
      1001,
    ],
    ['a session of exactly slowerThanMs is dropped', { slowerThanMs: 60_000 }, [['a']], [], 60_000],
    [
      'a session with an event whose name matches a pattern is delivered',
      { names: ['order.*', 'x?'] },
      [['a'], ['order.item.paid'], ['b']],
      ['a by names', 'order.item.paid by names', 'b by names'],
    ],
    [
      'the condition level has precedence over slowerThanMs and names',
      { level: 'warn', slowerThanMs: 10, names: ['a'] },
      [['a'], ['b', 'warn']],
      ['b', 'a by level'],
      20,
    ],
    [
      'the condition slowerThanMs has precedence over names',
      { slowerThanMs: 10, names: ['a'] },
      [['a']],
      ['a by slowerThanMs'],
      20,
    ],
    [
      'an event that never matches is dropped and does not meet a condition',
      { level: 'error', names: ['*'] },
      [['secret', 'fatal']],
      [],
      undefined,
      { never: ['secret'] },
    ],
    [
      'an event that never matches is dropped in a session that is kept',
      { level: 'error' },
      [['secret'], ['a'], ['b', 'error']],
      ['b', 'a by level'],
      undefined,
      { never: ['secret'] },
    ],
    [
      'an event that always matches is delivered at once and meets a condition',
      { names: ['login'] },
      [['a'], ['login'], ['b']],
      ['login', 'a by names', 'b by names'],
      undefined,
      { always: ['login'] },
    ],
    [
      'the oldest held events beyond maxBuffered are dropped',
      { level: 'warn', maxBuffered: 2 },
      [['a'], ['b'], ['c'], ['d'], ['e'], ['f', 'warn']],
      ['f', 'd by level', 'e by level'],
    ],
    [
      'a dropped event beyond maxBuffered still meets its condition',
      { names: ['a'], maxBuffered: 1 },
      [['a'], ['b']],
      ['b by names'],
    ],
  ]
  for (const [title, keep, emits, delivered, lastsMs = 0, policy] of conditions) {
    it(title, () => {
      const { manager, summary } = keeping(keep, policy)
      const session = manager.session()
      for (const [name, level] of emits) {
        session.emit(name, { level })
        expectSum(manager)
      }
      const atOnce = delivered.filter((one) => !one.includes(' by '))
      expect(summary()).to.deep.equal(atOnce)
      offsetMs += lastsMs
      void session.end()
      expect(summary()).to.deep.equal(delivered)
      expect(manager.stats()).to.include({
        emitted: emits.length,
        held: 0,
        sampledOut: emits.length - delivered.length,
      })
    })
  }

  it('200 events of a session are held if maxBuffered is not set', () => {
    const { manager, summary } = keeping({ names: ['*'] })
    const session = manager.session()
    for (let index = 0; index < 201; index++) session.emit(`e${index}`)
    expect(manager.stats()).to.include({ emitted: 201, held: 200, sampledOut: 1 })
    void session.end()
    expect(summary()).to.have.length(200)
    expect(summary()[0]).to.equal('e1 by names')
    expect(summary()[199]).to.equal('e200 by names')
  })

  it('a held event keeps its values of the time at which it was emitted, and is deeply frozen', () => {
    const { manager, events } = keeping({ level: 'warn' })
    const session = manager.session().actor('user', 'u1').attributes({ plan: 'pro' })
    const attributes = { items: [1], password: 'p4ss' }
    session.emit('a', { attributes, time: '2026-01-01T00:00:00Z' })
    attributes.items.push(2)
    session.actor('user', 'u2').emit('b', { level: 'warn' })
    void session.end()
    const held = events()[1] as TelemetryEnvelope
    expect(held).to.deep.include({
      name: 'a',
      time: '2026-01-01T00:00:00.000Z',
      actor: { type: 'user', id: 'u1' },
    })
    expect(held.attributes).to.deep.include({ plan: 'pro', items: [1], 'kit.sampled_by': 'level' })
    expect(JSON.stringify(held)).not.to.include('p4ss')
    expectDeeplyFrozen(held)
  })

  it('a held event reaches the transport in the async context and with the time of its emit call', () => {
    const storage = new AsyncLocalStorage<string>()
    const handled: unknown[] = []
    const manager = recording()
      .builder.addTransport(
        transportOf(
          (envelope, emittedAtMs) => void handled.push([envelope.name, storage.getStore(), emittedAtMs]),
        ),
      )
      .withSampling({ ...NOTHING_BELOW_WARN, keep: { level: 'warn' } })
      .build()
    const session = manager.session()
    const before = Date.now()
    storage.run('span of a', () => session.emit('a'))
    const after = Date.now()
    storage.run('span of b', () => session.emit('b', { level: 'warn' }))
    storage.run('span of end', () => void session.end())
    const [b, a] = handled as [unknown, [string, string, number]]
    expect(b).to.deep.equal(['b', 'span of b', undefined])
    expect(a.slice(0, 2)).to.deep.equal(['a', 'span of a'])
    expect(a[2]).to.be.within(before, after)
  })

  it('a held event that is delivered before init has finished keeps its async context and time', async () => {
    const storage = new AsyncLocalStorage<string>()
    const started = deferred()
    const handled: unknown[] = []
    const transport = transportOf(
      (envelope, emittedAtMs) => void handled.push([envelope.name, storage.getStore(), emittedAtMs]),
      { init: () => started.promise },
    )
    const manager = recording()
      .builder.addTransport(transport)
      .withSampling({ ...NOTHING_BELOW_WARN, keep: { names: ['a'] } })
      .build()
    const session = manager.session()
    const dateNow = Date.now
    try {
      Date.now = () => 1_000
      storage.run('span', () => session.emit('a'))
    } finally {
      Date.now = dateNow
    }
    const ended = session.end()
    expect(handled).to.deep.equal([])
    started.resolve()
    await ended
    expect(handled).to.deep.equal([['a', 'span', 1_000]])
  })

  it('the promise of end() resolves after the held events are delivered', async () => {
    const sent = deferred()
    const manager = recording()
      .builder.addTransport(transportOf(() => sent.promise))
      .withSampling({ ...NOTHING_BELOW_WARN, keep: { names: ['a'] } })
      .build()
    const session = manager.session()
    session.emit('a')
    let isEnded = false
    const ended = session.end().then(() => {
      isEnded = true
    })
    await new Promise(setImmediate)
    expect(isEnded).to.equal(false)
    sent.resolve()
    await ended
    expect(manager.stats().transports[1]).to.include({ delivered: 1, pending: 0 })
  })

  it('an inner session and the session around it are decided separately', async () => {
    const { manager, summary } = keeping({ level: 'warn' })
    const outer = manager.session()
    const inner = await outer.run(() => manager.session())
    await outer.run(async () => {
      manager.emit('outer.first')
      await inner.run(() => manager.emit('inner.first'))
      await inner.run(() => manager.emit('inner.failed', { level: 'error' }))
      void inner.end()
      manager.emit('outer.second')
    })
    expect(summary()).to.deep.equal(['inner.failed', 'inner.first by level'])
    void outer.end()
    expect(manager.stats()).to.include({ emitted: 4, held: 0, sampledOut: 2 })
  })

  it('an event outside of all sessions is decided at once', () => {
    const { manager, summary } = keeping({ level: 'warn', slowerThanMs: 1, names: ['a'] }, { warnRate: 0 })
    manager.emit('a')
    manager.emit('b', { level: 'warn' })
    manager.emit('c')
    manager.emit('d', { sessionId: 'of another process' })
    expect(summary()).to.deep.equal(['a by names', 'b by level'])
    expect(manager.stats()).to.include({ emitted: 4, held: 0, sampledOut: 2 })
  })

  for (const [title, level, endsAfterMs, delivered] of [
    ['is kept if the session was kept', 'error', 0, ['failed', 'late by level']],
    ['is kept if the session was slow', 'info', 1001, ['failed by slowerThanMs', 'late by slowerThanMs']],
    ['is dropped if the session was dropped', 'info', 0, []],
  ] as const) {
    it(`an event after the end of its session ${title}`, async () => {
      const { manager, summary } = keeping({ level: 'error', slowerThanMs: 1000 })
      const session = manager.session()
      await session.run(() => {
        manager.emit('failed', { level })
        offsetMs += endsAfterMs
        void session.end()
        offsetMs += 2000
        manager.emit('late', { sessionId: session.getState().sessionId })
      })
      expect(summary()).to.deep.equal(delivered)
      expect(manager.stats().held).to.equal(0)
      expectSum(manager)
    })
  }

  for (const [what, stop] of [
    ['the session', (_: KitTelemetryManager, session: KitTelemetrySession) => void session.end()],
    ['the manager', (manager: KitTelemetryManager) => void manager.shutdown()],
  ] as const) {
    it(`an event whose attributes end ${what} is not held forever`, () => {
      const { manager, summary } = keeping({ names: ['b'] })
      const session = manager.session()
      session.emit('a')
      session.emit('b', {
        attributes: () => {
          stop(manager, session)
          return {}
        },
      })
      expect(summary()).to.deep.equal(['a by names', 'b by names'])
      expect(manager.stats().held).to.equal(0)
      expectSum(manager)
    })
  }

  it('an unreadable event is not held, and meets its condition', () => {
    const { manager, summary, logger } = keeping({ names: ['b'] })
    const session = manager.session()
    session.emit('a')
    session.emit('b', {
      attributes: () => {
        throw new Error('unreadable')
      },
    })
    expect(logger.codes).to.deep.equal(['TELEMETRY_EMIT_FAILED'])
    expect(manager.stats().held).to.equal(1)
    void session.end()
    expect(summary()).to.deep.equal(['a by names'])
  })

  it('the statistics add up within the calls of a transport', () => {
    let calls = 0
    const transport = transportOf(() => {
      calls++
      const { emitted, sampledOut, held, transports } = manager.stats()
      expect(sampledOut + held + (transports[0]?.accepted as number)).to.equal(emitted)
    })
    const manager: KitTelemetryManager = recording()
      .builder.addTransport(transport)
      .withSampling({ ...NOTHING_BELOW_WARN, keep: { level: 'warn' } })
      .build()
    const session = manager.session()
    for (let index = 0; index < 5; index++) session.emit('a')
    session.emit('b', { level: 'warn' })
    void session.end()
    expect(calls).to.equal(6)
    expect(manager.stats().transports[1]).to.include({ delivered: 6, failed: 0 })
  })

  it('a transport that emits and ends sessions loses no held event', () => {
    const names: string[] = []
    const inner: KitTelemetrySession[] = []
    const transport = transportOf((envelope) => {
      names.push(summaryOf(envelope))
      if (envelope.name !== 'a') return
      inner[0]?.emit('nested', { level: 'warn' })
      void inner[0]?.end()
    })
    const manager = recording()
      .builder.addTransport(transport)
      .withSampling({ ...NOTHING_BELOW_WARN, keep: { level: 'warn', names: ['a'] } })
      .build()
    inner.push(manager.session())
    inner[0]?.emit('held')
    const session = manager.session()
    session.emit('a')
    void session.end()
    expect(names).to.deep.equal(['a by names', 'nested', 'held by level'])
    expectSum(manager)
    expect(manager.stats()).to.include({ held: 0, sampledOut: 0 })
  })

  it('sessions that never end hold a limited number of events, and the longest holding session is decided first', () => {
    const { manager, logger, summary } = keeping({ level: 'warn' })
    const first = manager.session()
    first.emit('first')
    first.emit('first.failed', { level: 'warn' })
    const second = manager.session()
    second.emit('second')
    const more = Array.from({ length: MAX_HELD }, () => manager.session())
    for (const session of more.slice(2)) session.emit('a')
    expect(manager.stats()).to.include({ held: MAX_HELD, sampledOut: 0 })
    expect(logger.warnings).to.deep.equal([])
    more[0]?.emit('a')
    expect(summary()).to.deep.equal(['first.failed', 'first by level'])
    expect(manager.stats()).to.include({ held: MAX_HELD, sampledOut: 0 })
    more[1]?.emit('a')
    expect(manager.stats()).to.include({ held: MAX_HELD, sampledOut: 1 })
    expect(logger.warnings.map(({ message }) => message)).to.have.length(1)
    expect(logger.warnings[0]?.message).to.include(`the limit of ${MAX_HELD} held events was reached`)
    first.emit('first.later')
    void first.end()
    expect(summary().at(-1)).to.equal('first.later by level')
    expectSum(manager)
  })

  it('sessions that never end hold at most 64 MiB, and the longest holding session is decided first', () => {
    const { manager, logger, summary } = keeping({ level: 'warn' })
    const list = Array.from({ length: 20 }, () => 'x'.repeat(5_000))
    const first = manager.session()
    first.emit('first')
    first.emit('first.failed', { level: 'warn' })
    for (let session = 0; session < 600; session++) manager.session().emit('a', { attributes: { list } })
    expect(manager.stats()).to.include({ held: 601, sampledOut: 0 })
    for (let session = 0; session < 600; session++) manager.session().emit('a', { attributes: { list } })
    expect(manager.stats().held).to.be.within(620, 671)
    expect(summary()).to.deep.equal(['first.failed', 'first by level'])
    expect(logger.warnings).to.have.length(1)
    expectSum(manager)
    void manager.shutdown()
    expect(manager.stats()).to.include({ held: 0 })
  })

  it('a session that holds 64 MiB is decided, and the bytes of events that it has replaced do not count', () => {
    const { manager } = keeping({ level: 'warn', maxBuffered: 100 })
    const list = Array.from({ length: 20 }, () => 'x'.repeat(5_000))
    const session = manager.session()
    for (let event = 0; event < 2_000; event++) session.emit('a', { attributes: { list } })
    expect(manager.stats()).to.include({ held: 100, sampledOut: 1_900 })
    const other = keeping({ level: 'warn', maxBuffered: 10_000 }).manager
    const only = other.session()
    for (let event = 0; event < 700; event++) only.emit('a', { attributes: { list } })
    expect(other.stats().held).to.be.below(100)
    expectSum(other)
  })

  for (const [title, policies] of [
    ['keep without unit', [{ keep: { level: 'error' } }]],
    ['keep with the unit event', [{ unit: 'event', keep: { level: 'error' } }]],
    ['the unit event after keep', [{ unit: 'session', keep: { level: 'error' } }, { unit: 'event' }]],
    ['an undefined unit after keep', [{ unit: 'session', keep: { level: 'error' } }, { unit: undefined }]],
  ] as const) {
    it(`${title} is rejected`, () => {
      const apply = () =>
        (policies as readonly TelemetrySamplingPolicy[]).reduce(
          (builder, policy) => builder.withSampling(policy),
          recording().builder,
        )
      const { message } = expectCode('TELEMETRY_CONFIGURATION_INVALID', apply)
      expect(message).to.include("withSampling({ keep }) can be used only with unit: 'session'. Set unit:")
    })
  }

  for (const keep of [{}, { maxBuffered: 5 }, { names: [] }, { level: undefined }]) {
    it(`keep without a condition is rejected: ${JSON.stringify(keep)}`, () => {
      const { message } = expectCode('TELEMETRY_CONFIGURATION_INVALID', () => keeping(keep))
      expect(message).to.include('withSampling({ keep }) must have at least one condition. Set level')
    })
  }

  it('keep is copied with its defaults, and a later undefined removes it', () => {
    const names = ['a']
    const builder = recording().builder.withSampling({ unit: 'session', keep: { names } })
    names.push('b')
    const { sampling } = builder.withSampling({ infoRate: 0 }).buildConfig()
    expect(sampling.keep).to.deep.equal({ names: ['a'], maxBuffered: 200 })
    expectDeeplyFrozen(sampling)
    expect(builder.withSampling({ keep: undefined }).buildConfig().sampling.keep).to.equal(undefined)
  })
})
