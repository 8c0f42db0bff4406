import { AsyncLocalStorage } from 'node:async_hooks'
import { spawnSync } from 'node:child_process'
import { expect } from 'chai'
import {
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

  it('calls handle within emit, in the order of the emits, on the adapter', () => {
    const mock = MockTelemetryAdapter.create()
    const { manager } = build()
    const attached = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(mock).build()
    for (const name of ['a', 'b', 'c']) attached.emit(name)
    expect(mock.getEvents().map(({ name }) => name)).to.deep.equal(['a', 'b', 'c'])
    expect(manager.stats().transports).to.deep.equal([])
  })

  it('gives every transport the same frozen envelope', () => {
    const one = MockTelemetryAdapter.create()
    const two = MockTelemetryAdapter.create()
    KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(one).addTransport(two).build().emit('a')
    expect(one.getLastEvent()).to.equal(two.getLastEvent())
  })

  it('tells transports once who they serve', () => {
    const metas: unknown[] = []
    const adapter = { type: 'x', init: (meta: unknown) => void metas.push(meta), handle: () => {} }
    KitTelemetry.create().withService('s').withEnvironment('e').addTransport(adapter).build()
    KitTelemetry.create().withVersion('v').addTransport(adapter).build()
    expect(metas).to.deep.equal([
      { service: 's', environment: 'e' },
      { service: 'kit-app', environment: 'development', version: 'v' },
    ])
  })

  it('counts by outcome, and the ledger closes at every moment', async () => {
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

  it('reports failures by code, transport and kind, at most once a second for each transport', async () => {
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

  it("keeps a transport's own error", () => {
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

  it('survives what is hostile even as an error', async () => {
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

  it('lets no transport delay, starve or break another', async () => {
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
    it('holds events back, and gives them over in order and in their own async context', async () => {
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

    it('may give back promises and failures for what waited', async () => {
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
      it(`disables the transport when it ${what}, and everything counts as failed`, async () => {
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

    it("tells an adapter's own words when init fails with a KitTelemetryError", async () => {
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
    it('sheds debug and info at 80 %, and everything when it is full', () => {
      const { names, handle } = held()
      const { manager } = build({ handle, maxPending: 10 })
      for (let i = 0; i < 9; i++) manager.emit(`info${i}`)
      manager.emit('debug', { level: 'debug' })
      for (const level of ['warn', 'error', 'fatal'] as const) manager.emit(level, { level })
      expect(names).to.deep.equal([...Array.from({ length: 8 }, (_, i) => `info${i}`), 'warn', 'error'])
      expect(stats(manager)).to.deep.equal({ accepted: 13, delivered: 0, failed: 0, dropped: 3, pending: 10 })
    })

    it('opens again when events settle', async () => {
      const { waiting, names, handle } = held()
      const { manager } = build({ handle, maxPending: 1 })
      manager.emit('a')
      manager.emit('b')
      waiting[0]?.resolve()
      await settle()
      manager.emit('c')
      expect(names).to.deep.equal(['a', 'c'])
    })

    it('holds for what waits for init as well', async () => {
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

    it('is 10 000 by default', () => {
      const { manager } = build({ handle: () => never })
      for (let i = 0; i < 10_050; i++) manager.emit('x', { level: 'error' })
      expect(stats(manager)).to.include({ pending: 10_000, dropped: 50 })
    })

    it('is warned of at once, then at most every 10 s, and a last time at shutdown', async () => {
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
    it('waits for everything accepted before, and for nothing accepted after', async () => {
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

    it('waits for what an earlier flush is waiting for', async () => {
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

    it('calls flush of a transport that does not end at most eight times at once, and once more afterwards', async () => {
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

    it('asks the transport to send what it has, after init, and waits for that', async () => {
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

    it('ends at its deadline, and never rejects', async () => {
      for (const transport of [
        { handle: () => never },
        { init: () => never },
        { flush: () => never },
      ] as const) {
        const { manager } = build(transport)
        manager.emit('x')
        const started = performance.now()
        await manager.flush({ timeoutMs: 20 })
        expect(performance.now() - started).to.be.within(15, 1000)
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
    it('delivers what was emitted just before', async () => {
      const got: string[] = []
      const { manager } = build({
        handle: async ({ name }) => {
          await settle()
          got.push(name)
        },
      })
      for (let i = 0; i < 100; i++) manager.emit('x')
      await manager.shutdown()
      expect(got).to.have.length(100)
      expect(stats(manager)).to.include({ delivered: 100, pending: 0 })
    })

    it('flushes before it closes, and is one promise', async () => {
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

    it('drops, counts and reports what is emitted afterwards, if its name is good', async () => {
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

    it('tells the transport when its deadline has passed', async () => {
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

    it('has one deadline for everything, and leaves what is outstanding pending', async () => {
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
      expect(performance.now() - started).to.be.within(25, 1000)
      expect(closed).to.equal(3)
      expect(stats(manager, 0)).to.include({ pending: 1 })
      expect(stats(manager, 1)).to.include({ pending: 1 })
    })

    it('closes a transport whose init comes too late, and gives it nothing', async () => {
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

    it('reports a transport that cannot be closed, and does not reject', async () => {
      const { manager, logger } = build({ shutdown: () => Promise.reject(new Error('no')) })
      await manager.shutdown()
      expect(logger.errors[0]?.message).to.include('failed in shutdown()')
    })
  })

  describe('a transport that emits while it is handed an event', () => {
    it('keeps the order for every transport', () => {
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

    it('cannot go on for ever, also when it starts with what waited for init', async () => {
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
      expect(stats(manager)).to.include({ accepted: 9, delivered: 9 })
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

    it('keeps it alive for nobody', () => {
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
      it(`keeps it alive until the deadline for ${waiting}`, () => {
        const { elapsedMs: _, ...outcome } = run(`${waiting}; console.log('went on')`)
        expect(outcome).to.deep.equal({ status: 0, stderr: '', stdout: 'went on\n' })
      })
    }
  })
})
