import { AsyncLocalStorage } from 'node:async_hooks'
import { spawnSync } from 'node:child_process'
import { expect } from 'chai'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  KitTelemetryError,
  type KitTelemetryManager,
  MockTelemetryAdapter,
  type TelemetryEnvelope,
  type TelemetryTransport,
} from '../../../src/telemetry/index.ts'
import {
  type Deferred,
  deferred,
  RecordingLogger,
  settle,
  thenable,
} from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

const never = new Promise<void>(() => {})

function build(...transports: Partial<TelemetryTransport>[]) {
  const logger = new RecordingLogger()
  const builder = transports.reduce<KitTelemetry>(
    (built, transport, index) => built.addTransport({ type: `t${index}`, handle: () => {}, ...transport }),
    KitTelemetry.create().withSampling({ debugRate: 1, infoRate: 1 }).withLogger(logger),
  )
  return { logger, manager: builder.build() }
}

/** A transport that keeps names, and whose promises a test settles. */
function held() {
  const names: string[] = []
  const waiting: Deferred[] = []
  const handle = ({ name }: TelemetryEnvelope) => {
    names.push(name)
    const one = deferred()
    waiting.push(one)
    return one.promise
  }
  return { names, waiting, handle }
}

const stats = (manager: KitTelemetryManager, index = 0) => {
  const { accepted, delivered, failed, dropped, pending } = manager.stats().transports[index] as Wrong
  expect(accepted).to.equal(delivered + failed + dropped + pending)
  return { accepted, delivered, failed, dropped, pending }
}

describe('delivery', () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => unhandled.push(reason)
  before(() => process.on('unhandledRejection', note))
  after(() => process.off('unhandledRejection', note))
  afterEach(async () => {
    await settle()
    expect(unhandled).to.deep.equal([])
  })

  it('every transport receives the same frozen envelope', () => {
    const one = MockTelemetryAdapter.create()
    const two = MockTelemetryAdapter.create()
    KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(one).addTransport(two).build().emit('a')
    expect(one.getLastEvent()).to.equal(two.getLastEvent())
  })

  it('init of every transport receives the metadata of the manager once', () => {
    const metas: unknown[] = []
    const adapter = { type: 'x', init: (meta: unknown) => void metas.push(meta), handle: () => {} }
    KitTelemetry.create().withService('s').withEnvironment('e').addTransport(adapter).build()
    KitTelemetry.create().withVersion('v').addTransport(adapter).build()
    expect(metas).to.deep.equal([
      { service: 's', environment: 'e' },
      { service: 'kit-app', environment: 'development', version: 'v' },
    ])
  })

  it('stats() counts events by outcome, and the counts add up at every moment', async () => {
    const seen: unknown[] = []
    let manager: KitTelemetryManager
    const answers: (() => unknown)[] = [
      () => undefined,
      () => Promise.resolve(),
      () => Promise.reject(new TypeError('secret')),
      () => {
        throw new Error('secret')
      },
      () => never,
      () =>
        thenable({
          value: (done: () => void) => {
            done()
            done()
          },
        }),
      () =>
        thenable({
          value: () => {
            throw new Error('no')
          },
        }),
      () =>
        thenable({
          get: () => {
            throw new Error('no')
          },
        }),
      () => Object.defineProperty(Promise.resolve(), 'then', { value: undefined }),
      () => 'something else',
    ]
    const built = build({
      handle: () => {
        seen.push(stats(manager))
        return answers.shift()?.() as Wrong
      },
    })
    manager = built.manager
    const count = answers.length
    for (let i = 0; i < count; i++) {
      manager.emit('x')
      stats(manager)
    }
    await settle()
    expect(stats(manager)).to.deep.equal({ accepted: 10, delivered: 5, failed: 4, dropped: 0, pending: 1 })
    const { lastError } = manager.stats().transports[0] as { lastError: KitTelemetryError }
    expect(KitTelemetryError.is(lastError) && lastError.code).to.equal('TELEMETRY_TRANSPORT_FAILED')
    expect(seen).to.have.length(10)
  })

  it('failures are reported by code, transport, and kind, at most once a second for each transport', async () => {
    const fail = () => {
      throw Object.assign(new TypeError('secret'), { code: 'E_X' })
    }
    const { manager, logger } = build(
      { type: 'one', handle: fail },
      { type: 'two', handle: () => Promise.reject(Symbol('x')) },
    )
    for (let i = 0; i < 100; i++) manager.emit('x')
    await settle()
    expect(logger.errors.map(({ message }) => message)).to.deep.equal([
      'TELEMETRY_TRANSPORT_FAILED: transport "one" failed to deliver an event (TypeError E_X)',
      'TELEMETRY_TRANSPORT_FAILED: transport "two" failed to deliver an event',
    ])
    expect(logger.codes).to.deep.equal(['TELEMETRY_TRANSPORT_FAILED', 'TELEMETRY_TRANSPORT_FAILED'])
    expect(stats(manager, 0)).to.include({ failed: 100 })
    expect(stats(manager, 1)).to.include({ failed: 100 })
  })

  it('a KitTelemetryError of a transport is reported as it is', () => {
    const error = new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', 'the collector said no', {
      details: { status: 400 },
    })
    const { manager, logger } = build({
      handle: () => {
        throw error
      },
    })
    manager.emit('x')
    expect(manager.stats().transports[0]?.lastError).to.deep.include({
      code: 'TELEMETRY_TRANSPORT_FAILED',
      cause: error,
      details: { status: 400 },
    })
    expect(logger.errors[0]?.message).to.equal(
      'TELEMETRY_TRANSPORT_FAILED: transport "t0": the collector said no',
    )
  })

  it('errors that throw when they are read do not break the delivery', async () => {
    const proxy = new Proxy(
      {},
      {
        get: () => {
          throw new Error('no')
        },
        getPrototypeOf: () => {
          throw new Error('no')
        },
      },
    )
    const { manager } = build(
      { handle: () => Promise.reject(proxy) },
      {
        handle: () => {
          throw proxy
        },
      },
      { init: () => Promise.reject(proxy) },
    )
    manager.emit('x')
    await settle()
    for (const index of [0, 1, 2]) expect(stats(manager, index)).to.include({ failed: 1 })
  })

  it('a transport cannot delay, starve, or break another', async () => {
    const mock = MockTelemetryAdapter.create()
    const { manager } = build(
      { handle: () => never },
      {
        handle: () => {
          throw new Error('no')
        },
      },
      { init: () => never },
      {
        init: () => {
          throw new Error('no')
        },
      },
      { handle: (envelope) => mock.handle(envelope) },
    )
    for (let i = 0; i < 10; i++) manager.emit('x')
    expect(mock.getEvents()).to.have.length(10)
    expect([0, 1, 2, 3, 4].map((index) => stats(manager, index))).to.deep.equal([
      { accepted: 10, delivered: 0, failed: 0, dropped: 0, pending: 10 },
      { accepted: 10, delivered: 0, failed: 10, dropped: 0, pending: 0 },
      { accepted: 10, delivered: 0, failed: 0, dropped: 0, pending: 10 },
      { accepted: 10, delivered: 0, failed: 10, dropped: 0, pending: 0 },
      { accepted: 10, delivered: 10, failed: 0, dropped: 0, pending: 0 },
    ])
  })

  describe('init', () => {
    it('events wait for init, and are delivered in order and in their own async context', async () => {
      const init = deferred()
      const context = new AsyncLocalStorage<string>()
      const got: unknown[] = []
      const { manager } = build({
        init: () => init.promise,
        handle: ({ name }) => void got.push([name, context.getStore()]),
      })
      context.run('first', () => manager.emit('a'))
      context.run('second', () => manager.emit('b'))
      expect(got).to.deep.equal([])
      expect(stats(manager)).to.include({ pending: 2 })
      init.resolve()
      await settle()
      manager.emit('c')
      expect(got).to.deep.equal([
        ['a', 'first'],
        ['b', 'second'],
        ['c', undefined],
      ])
      expect(stats(manager)).to.include({ delivered: 3, pending: 0 })
    })

    it('events that waited for init may be delivered with promises, or fail', async () => {
      const init = deferred()
      const answers = [
        () => Promise.resolve(),
        () => Promise.reject(new Error('no')),
        () => {
          throw new Error('no')
        },
        () => undefined,
      ]
      const { manager } = build({ init: () => init.promise, handle: () => answers.shift()?.() as Wrong })
      for (let i = 0; i < 4; i++) manager.emit('x')
      init.resolve()
      await manager.flush()
      expect(stats(manager)).to.deep.equal({ accepted: 4, delivered: 2, failed: 2, dropped: 0, pending: 0 })
    })

    for (const [what, init] of [
      [
        'throws',
        () => {
          throw new Error('no')
        },
      ],
      ['rejects', () => Promise.reject(new Error('no'))],
    ] as const) {
      it(`a transport whose init ${what} is disabled, and all of its events count as failed`, async () => {
        let called = 0
        const { manager, logger } = build({
          type: 'bad',
          init,
          handle: () => void called++,
          flush: () => void called++,
          shutdown: () => void called++,
        })
        manager.emit('early')
        await settle()
        manager.emit('late')
        await manager.shutdown()
        expect(called).to.equal(0)
        expect(stats(manager)).to.include({ accepted: 2, failed: 2 })
        expect(logger.errors.map(({ message }) => message)).to.deep.equal([
          'TELEMETRY_TRANSPORT_INIT_FAILED: transport "bad" failed to initialize and has been disabled (Error)',
        ])
        expect(manager.stats().transports[0]?.lastError?.code).to.equal('TELEMETRY_TRANSPORT_INIT_FAILED')
      })
    }

    it('an init that fails with a KitTelemetryError is reported with its message', async () => {
      const { logger } = build({
        type: 'otlp',
        init: () =>
          Promise.reject(new KitTelemetryError('TELEMETRY_TRANSPORT_INIT_FAILED', 'install some-package')),
      })
      await settle()
      expect(logger.errors[0]?.message).to.equal(
        'TELEMETRY_TRANSPORT_INIT_FAILED: transport "otlp": install some-package',
      )
    })
  })

  describe('the bound', () => {
    it('a transport drops debug and info from 80 % of maxPending on, and all events at maxPending', () => {
      const { names, handle } = held()
      const { manager } = build({ handle, maxPending: 10 })
      for (let i = 0; i < 9; i++) manager.emit(`info${i}`)
      manager.emit('debug', { level: 'debug' })
      for (const level of ['warn', 'error', 'fatal'] as const) manager.emit(level, { level })
      expect(names).to.deep.equal([...Array.from({ length: 8 }, (_, i) => `info${i}`), 'warn', 'error'])
      expect(stats(manager)).to.deep.equal({ accepted: 13, delivered: 0, failed: 0, dropped: 3, pending: 10 })
    })

    it('a transport that was full accepts events again when pending events settle', async () => {
      const { waiting, names, handle } = held()
      const { manager } = build({ handle, maxPending: 1 })
      manager.emit('a')
      manager.emit('b')
      waiting[0]?.resolve()
      await settle()
      manager.emit('c')
      expect(names).to.deep.equal(['a', 'c'])
    })

    it('maxPending includes events that wait for init', async () => {
      const init = deferred()
      const mock = MockTelemetryAdapter.create()
      const { manager } = build({
        init: () => init.promise,
        handle: (envelope) => mock.handle(envelope),
        maxPending: 5,
      })
      for (let i = 0; i < 20; i++) manager.emit(`e${i}`, { level: 'error' })
      init.resolve()
      await manager.flush()
      expect(mock.getEvents().map(({ name }) => name)).to.deep.equal(['e0', 'e1', 'e2', 'e3', 'e4'])
      expect(stats(manager)).to.include({ dropped: 15, delivered: 5 })
    })

    it('dropped events are reported at once, then at most every 10 s, and a last time at shutdown', async () => {
      const { manager, logger } = build({ type: 'full', handle: () => never, maxPending: 1 })
      for (let i = 0; i < 100; i++) manager.emit('x')
      expect(logger.warnings).to.have.length(1)
      await manager.shutdown({ timeoutMs: 1 })
      const drops = logger.warnings.filter(({ message }) => message.includes('dropped'))
      expect(drops.map(({ message }) => /"full" has dropped (.*) because/.exec(message)?.[1])).to.deep.equal([
        '1 event',
        '99 events',
      ])
      expect(logger.warnings.some(({ message }) => message.includes('with 1 event pending'))).to.equal(true)
    })
  })

  describe('flush', () => {
    it('flush waits for all events accepted before it, and for none accepted after it', async () => {
      const { waiting, handle } = held()
      const { manager } = build({ handle })
      manager.emit('before')
      manager.emit('before')
      let flushed = false
      const flushing = manager.flush().then(() => {
        flushed = true
      })
      manager.emit('after')
      waiting[0]?.resolve()
      await settle()
      expect(flushed).to.equal(false)
      waiting[1]?.reject(new Error('no'))
      await flushing
      expect(stats(manager)).to.include({ pending: 1 })
    })

    it('flush waits for the events that an earlier flush waits for', async () => {
      const { waiting, handle } = held()
      const { manager } = build({ handle })
      manager.emit('a')
      const first = manager.flush()
      let flushed = false
      const second = manager.flush().then(() => {
        flushed = true
      })
      await settle()
      expect(flushed).to.equal(false)
      waiting[0]?.resolve()
      await Promise.all([first, second])
    })

    it('flush calls a transport whose flush does not end at most eight times at once, and once more afterwards', async () => {
      const calls: Deferred[] = []
      const { manager } = build({
        flush: () => {
          const call = deferred()
          calls.push(call)
          return call.promise
        },
      })
      const flushed = Array.from({ length: 1_000 }, () => manager.flush())
      expect(calls).to.have.length(8)
      for (const call of calls) call.resolve()
      await settle()
      expect(calls).to.have.length(9)
      calls[8]?.resolve()
      await Promise.all(flushed)
    })

    it('flush calls the flush of a transport after init, and waits for it', async () => {
      const calls: string[] = []
      const init = deferred()
      const sent = deferred()
      const { manager } = build({
        init: () => init.promise,
        handle: () => void calls.push('handle'),
        flush: () => {
          calls.push('flush')
          return sent.promise
        },
      })
      manager.emit('x')
      let flushed = false
      const flushing = manager.flush().then(() => {
        flushed = true
      })
      init.resolve()
      await settle()
      expect([calls, flushed]).to.deep.equal([['handle', 'flush'], false])
      sent.resolve()
      await flushing
    })

    it('flush ends at its timeout, and never rejects', async () => {
      for (const transport of [
        { handle: () => never },
        { init: () => never },
        { flush: () => never },
      ] as const) {
        const { manager } = build(transport)
        manager.emit('x')
        const started = performance.now()
        await manager.flush({ timeoutMs: 20 })
        expect(performance.now() - started).to.be.within(15, 5_000)
      }
      const { manager, logger } = build(
        { flush: () => Promise.reject(new Error('no')) },
        {
          flush: () => {
            throw new Error('no')
          },
        },
      )
      await manager.flush({ timeoutMs: Number.NaN })
      await manager.flush(null as Wrong)
      expect(logger.codes).to.deep.equal(['TELEMETRY_TRANSPORT_FAILED', 'TELEMETRY_TRANSPORT_FAILED'])
      expect(logger.errors[0]?.message).to.include('failed in flush()')
    })
  })

  describe('shutdown', () => {
    it('the deadline that flush of a transport receives aborts when no caller of the manager waits any longer', async () => {
      const deadlines: AbortSignal[] = []
      const { manager } = build({
        flush: (deadline) => {
          deadlines.push(deadline as AbortSignal)
          return never
        },
      })
      // The calls after the eighth one share a call, which begins when another one ends.
      const early = Array.from({ length: 8 }, () => manager.flush({ timeoutMs: 20 }))
      const later = manager.flush({ timeoutMs: 60 })
      expect(deadlines.map(({ aborted }) => aborted)).to.deep.equal(new Array(8).fill(false))
      await Promise.all(early)
      expect(deadlines.map(({ aborted }) => aborted)).to.deep.equal(new Array(8).fill(true))
      await later
    })

    it('shutdown flushes before it closes the transports, and returns the same promise each time', async () => {
      const calls: string[] = []
      const { manager } = build({
        flush: async () => {
          await settle()
          calls.push('flush')
        },
        shutdown: async () => {
          calls.push('shutdown')
        },
      })
      const closing = manager.shutdown()
      expect(manager.shutdown({ timeoutMs: 1 })).to.equal(closing)
      await closing
      expect(calls).to.deep.equal(['flush', 'shutdown'])
      await manager.flush()
      expect(calls).to.deep.equal(['flush', 'shutdown'])
    })

    it('events with a valid name that are emitted after shutdown are dropped, counted, and reported', async () => {
      const mock = MockTelemetryAdapter.create()
      const logger = new RecordingLogger()
      const manager = KitTelemetry.create()
        .withSampling({ infoRate: 1 })
        .withLogger(logger)
        .addTransport(mock)
        .build()
      const session = manager.session()
      const closing = manager.shutdown()
      manager.emit('x')
      session.emit('x')
      manager.emit('x', { level: 'trace' as Wrong })
      expect(() => manager.emit('a b')).to.throw()
      await closing
      manager.emit('x')
      expect(mock.getEvents()).to.have.length(0)
      expect(manager.stats()).to.deep.include({ emitted: 0, droppedAfterShutdown: 4 })
      expect(logger.codes).to.deep.equal(['TELEMETRY_RUNTIME_NOT_INITIALIZED'])
      await session.end()
    })

    it('shutdown aborts the signal of a transport at its timeout', async () => {
      const states: unknown[] = []
      let deadline: AbortSignal | undefined
      const { manager } = build(
        {
          shutdown: (signal) => {
            states.push(signal?.aborted)
            deadline = signal
            return never
          },
        },
        { handle: () => never, shutdown: (signal) => void states.push(signal?.aborted) },
      )
      manager.emit('x')
      await manager.shutdown({ timeoutMs: 30 })
      await settle()
      expect([states, deadline?.aborted]).to.deep.equal([[false, true], true])
    })

    it('shutdown has one timeout for all transports, and unsettled events stay pending', async () => {
      let closed = 0
      const shutdown = () => {
        closed++
        return never
      }
      const { manager } = build(
        { handle: () => never, shutdown },
        { init: () => never, shutdown },
        { flush: () => never, shutdown },
        { shutdown },
      )
      manager.emit('x')
      const started = performance.now()
      await manager.shutdown({ timeoutMs: 30 })
      expect(performance.now() - started).to.be.within(25, 5_000)
      expect(closed).to.equal(3)
      expect(stats(manager, 0)).to.include({ pending: 1 })
      expect(stats(manager, 1)).to.include({ pending: 1 })
    })

    it('shutdown closes a transport whose init ends too late, and does not pass events to it', async () => {
      const init = deferred()
      const calls: string[] = []
      const { manager } = build({
        init: () => init.promise,
        handle: () => void calls.push('handle'),
        shutdown: () => void calls.push('shutdown'),
      })
      manager.emit('x')
      await manager.shutdown({ timeoutMs: 1 })
      init.resolve()
      await settle()
      expect(calls).to.deep.equal(['shutdown'])
      expect(stats(manager)).to.include({ pending: 1 })
    })

    it('shutdown reports a transport that cannot be closed, and does not reject', async () => {
      const { manager, logger } = build({ shutdown: () => Promise.reject(new Error('no')) })
      await manager.shutdown()
      expect(logger.errors[0]?.message).to.include('failed in shutdown()')
    })
  })

  describe('a transport that emits while it handles an event', () => {
    it('every transport receives events that a transport emits in the same order', () => {
      const mock = MockTelemetryAdapter.create()
      const { manager } = build(
        {
          handle: ({ name }) => {
            if (name === 'a') manager.emit('b')
          },
        },
        { handle: (envelope) => mock.handle(envelope) },
      )
      manager.emit('a')
      expect(mock.getEvents().map(({ name }) => name)).to.deep.equal(['a', 'b'])
    })

    for (const [what, input] of [
      [
        'attributes that throw',
        {
          attributes: () => {
            throw new Error('no')
          },
        },
      ],
    ] as const)
      it(`an event with ${what} counts as failed for every transport`, async () => {
        for (const unit of ['event', 'session'] as const) {
          const transport = InMemoryTransportAdapter.create()
          const manager = KitTelemetry.create()
            .withLogger(false)
            .withSampling({ infoRate: 1, unit })
            .addTransport(transport)
            .addTransport({ type: 'broken', init: () => Promise.reject(new Error('no')), handle: () => {} })
            .build()
          await settle()
          manager.emit('x', input)
          const { emitted, sampledOut, transports } = manager.stats()
          expect([emitted, sampledOut, transport.getEvents()]).to.deep.equal([1, 0, []])
          for (const counters of transports)
            expect(counters).to.include({ accepted: 1, delivered: 0, failed: 1, pending: 0 })
          expect(transports.map(({ lastError }) => lastError?.code)).to.deep.equal([
            'TELEMETRY_EMIT_FAILED',
            'TELEMETRY_TRANSPORT_INIT_FAILED',
          ])
        }
      })

    it('a transport that emits an event for every event is stopped, also after init', async () => {
      let handled = 0
      const init = deferred()
      const { manager, logger } = build({
        init: () => init.promise,
        handle: () => {
          handled++
          manager.emit('again')
        },
      })
      manager.emit('x')
      init.resolve()
      await settle()
      expect(handled).to.equal(9)
      expect(logger.codes).to.deep.equal(['TELEMETRY_EMIT_FAILED'])
      expect(manager.stats().emitted).to.equal(10)
      expect(stats(manager)).to.include({ accepted: 10, delivered: 9, failed: 1 })
    })
  })

  describe('in a process with nothing else to do', () => {
    const entry = new URL('../../../src/telemetry/index.js', import.meta.url).href
    const run = (script: string) => {
      const started = performance.now()
      const { status, stderr, stdout } = spawnSync(
        process.execPath,
        [
          '--input-type=module',
          '-e',
          `const { KitTelemetry } = await import(${JSON.stringify(entry)})
          const manager = KitTelemetry.create().withSampling({ infoRate: 1 })
            .withLogger(false).addTransport({ type: 'hangs', handle: () => new Promise(() => {}) }).build()
          const session = manager.session()
          session.emit('x')
          ${script}`,
        ],
        { encoding: 'utf8', timeout: 9000 },
      )
      return { status, stderr, stdout, elapsedMs: performance.now() - started }
    }

    it('a flush or shutdown that is not awaited does not keep the process alive', () => {
      const { elapsedMs, ...outcome } = run(
        'void session.end(); void manager.flush(); void manager.shutdown()',
      )
      expect(outcome).to.deep.equal({ status: 0, stderr: '', stdout: '' })
      expect(elapsedMs).to.be.lessThan(5000)
    })

    for (const waiting of [
      'await manager.flush({ timeoutMs: 300 })',
      'await manager.shutdown({ timeoutMs: 300 })',
      'await Promise.all([manager.shutdown({ timeoutMs: 300 })])',
      'const closing = async () => manager.shutdown({ timeoutMs: 300 }); await closing()',
    ]) {
      it(`${waiting} keeps the process alive until the timeout`, () => {
        const { elapsedMs: _, ...outcome } = run(`${waiting}; console.log('went on')`)
        expect(outcome).to.deep.equal({ status: 0, stderr: '', stdout: 'went on\n' })
      })
    }
  })
})
