import { execFile } from 'node:child_process'
import { getEventListeners } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'chai'
import fc from 'fast-check'
import {
  KitTelemetry,
  type TelemetryEnvelope,
  type TelemetryTransport,
} from '../../../../src/telemetry/index.ts'
import { type WorkerTransportOptions, workerTransport } from '../../../../src/telemetry/worker.ts'
import { anEvent } from '../../../support/chat-services.ts'
import { runs } from '../../../support/runs.ts'
import { expectCode, RecordingLogger } from '../../../support/telemetry/recording.ts'
import { until } from '../../../support/until.ts'

const run = promisify(execFile)

/** Counters that the worker changes: how often it started, and how often it got each event `e.n<index>`. */
type Counters = Int32Array<SharedArrayBuffer>
const counters = (): Counters => new Int32Array(new SharedArrayBuffer(4_096))
const STARTS = 1_000

/**
 * A module whose transport counts in `data.counters`, and does for an event what its attribute `action` says. Actions that stop
 * the worker do so only while `data.counters[1001]` is above 0, which they decrement.
 */
const ACTING = `
  const STARTS = 1000, STOPS = 1001
  const stop = {
    exit: () => process.exit(3),
    throw: () => setImmediate(() => { throw new RangeError('secret') }),
    reject: () => void Promise.reject(new RangeError('secret')),
  }
  export default ({ counters }) => {
    Atomics.add(counters, STARTS, 1)
    const waiting = []
    const release = () => { for (const resolve of waiting.splice(0)) resolve() }
    return {
      type: 'acting',
      handle({ name, attributes }) {
        const { action } = attributes ?? {}
        Atomics.add(counters, Number(name.slice(3)), 1)
        if (action in stop) {
          if (Atomics.sub(counters, STOPS, 1) <= 0) return
          stop[action]()
          return new Promise(() => {})
        }
        if (action === 'fail') throw new TypeError('secret')
        if (action === 'later') return new Promise((resolve) => setTimeout(resolve, 2))
        if (action === 'buffer') return new Promise((resolve) => waiting.push(resolve))
        if (action === 'hang') for (;;);
      },
      flush: release,
      shutdown: release,
    }
  }`

const moduleOf = (code: string): URL => new URL(`data:text/javascript,${encodeURIComponent(code)}`)

/** A manager with one transport. */
function managerWith(transport: TelemetryTransport) {
  const logger = new RecordingLogger()
  const telemetry = KitTelemetry.create()
    .withSampling({ infoRate: 1 })
    .withLogger(logger)
    .addTransport(transport)
    .build()
  const counts = () => {
    const { accepted, delivered, failed, dropped, pending } = telemetry.stats().transports[0] ?? expect.fail()
    return { accepted, delivered, failed, dropped, pending }
  }
  return { telemetry, logger, counts, lastError: () => telemetry.stats().transports[0]?.lastError }
}

function acting(options: WorkerTransportOptions = {}, stops = 0) {
  const counted = counters()
  counted[STARTS + 1] = stops
  const manager = managerWith(workerTransport(moduleOf(ACTING), { data: { counters: counted }, ...options }))
  let emitted = 0
  const emit = (action?: string): number => {
    manager.telemetry.emit(`e.n${emitted}`, { attributes: { action } })
    return emitted++
  }
  return { ...manager, emit, seen: (event: number) => counted[event], starts: () => counted[STARTS] }
}

describe('workerTransport', function () {
  this.timeout(60_000)

  describe('events', () => {
    let folder: string
    before(() => {
      folder = mkdtempSync(join(tmpdir(), 'worker-'))
    })
    after(() => rmSync(folder, { recursive: true }))

    it('flush and shutdown of a worker do not listen to their deadline after they have ended', async () => {
      const transport = workerTransport(moduleOf(ACTING), { data: { counters: counters() } })
      const { signal } = new AbortController()
      await transport.init?.({ service: 'shop', environment: 'test' })
      for (let call = 0; call < 3; call++) await transport.flush?.(signal)
      await transport.shutdown?.(signal)
      expect(getEventListeners(signal, 'abort')).to.have.length(0)
    })

    it('the transport in the worker gets the data, the metadata, and equal frozen events in their order', async () => {
      const file = join(folder, 'events')
      const code = `
        import { appendFileSync } from 'node:fs'
        const frozen = (value) => typeof value !== 'object' || value === null || (Object.isFrozen(value) && Object.values(value).every(frozen))
        export async function transport({ file }) {
          const write = (value) => appendFileSync(file, JSON.stringify(value) + '\\n')
          return { type: 'file', init: write, handle: (event, at) => write([frozen(event), at, event]) }
        }`
      const memory: TelemetryEnvelope[] = []
      const telemetry = KitTelemetry.create()
        .withService('shop')
        .withSampling({ infoRate: 1 })
        .addTransport({ type: 'memory', handle: (event) => void memory.push(event) })
        .addTransport(workerTransport(moduleOf(code), { type: 'archive', data: { file } }))
        .build()
      const attributes = JSON.parse('{"__proto__":{"a":[1,null,{"b":"\\ud800ü"}]},"constructor":1,"c":1e300}')
      telemetry.emit('a.first', { attributes, error: new Error('no', { cause: new Error('why') }) })
      await telemetry.flush()
      for (let index = 0; index < 50; index++)
        telemetry.emit(`a.n${index}`, { actor: { type: 'user', id: 'u1' } })
      await telemetry.shutdown()
      const [meta, ...written] = readFileSync(file, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
      expect(meta).to.deep.equal({ service: 'shop', environment: 'development' })
      expect(written.map(([, , event]) => event)).to.deep.equal(JSON.parse(JSON.stringify(memory)))
      expect(written.every(([isFrozen]) => isFrozen)).to.equal(true)
      // The first event waited for the start of the worker.
      expect(written.map(([, at]) => typeof at)).to.deep.equal(['number', ...Array(50).fill('object')])
      expect(telemetry.stats().transports[1]).to.include({ type: 'archive', accepted: 51, delivered: 51 })
    })

    it('an event that cannot be copied to the worker fails, and the events around it are delivered', async () => {
      const transport = workerTransport(moduleOf(ACTING), { data: { counters: counters() } })
      await transport.init?.({ service: 's', environment: 'e' })
      const outcomes = await Promise.allSettled([
        transport.handle(anEvent({ name: 'e.n0' })),
        transport.handle(anEvent({ name: 'e.n1', attributes: { no: () => {} } })),
        transport.handle(anEvent({ name: 'e.n2' })),
      ])
      expect(outcomes.map(({ status }) => status)).to.deep.equal(['fulfilled', 'rejected', 'fulfilled'])
      await transport.shutdown?.()
      const late = await Promise.resolve(transport.handle(anEvent())).catch((error: Error) => error.message)
      expect(late).to.contain('it is shut down')
    })

    it('an event that the transport in the worker rejects fails, and the report contains the kind of the error only', async () => {
      const { emit, telemetry, counts, logger, lastError } = acting()
      emit('fail')
      emit()
      await telemetry.shutdown()
      expect(counts()).to.deep.equal({ accepted: 2, delivered: 1, failed: 1, dropped: 0, pending: 0 })
      expect(logger.errors[0]?.message).to.contain('(TypeError)').but.not.contain('secret')
      const cause = lastError()?.cause as Error | undefined
      expect(cause?.stack).to.contain('handle').but.not.contain('runWorkerProgram(%7B')
    })

    it('a KitTelemetryError of the transport in the worker keeps its message and details', async () => {
      const code = `export default () => ({ handle() {
        throw Object.assign(new Error('transport "http": the target responded with 500'), {
          [Symbol.for('mcp-gatekit.KitTelemetryError')]: true, code: 'TELEMETRY_TRANSPORT_FAILED', details: { status: 500 },
        })
      } })`
      const { telemetry, lastError } = managerWith(workerTransport(moduleOf(code)))
      telemetry.emit('a.b')
      await telemetry.shutdown()
      expect(lastError()?.message).to.equal(
        'transport "worker": transport "http": the target responded with 500',
      )
      expect(lastError()?.details).to.deep.equal({ status: 500 })
    })

    it('events beyond maxPending are dropped while the worker is busy', async () => {
      const { telemetry, counts } = acting({ maxPending: 10 })
      for (let count = 0; count < 15; count++) telemetry.emit(`e.n${count}`, { level: 'error' })
      await telemetry.shutdown()
      expect(counts()).to.deep.equal({ accepted: 15, delivered: 10, failed: 0, dropped: 5, pending: 0 })
    })
  })

  describe('flush and shutdown', () => {
    it('flush sends what the transport in the worker has buffered, and so does shutdown', async () => {
      const { emit, telemetry, counts } = acting()
      emit('buffer')
      await telemetry.flush()
      expect(counts()).to.include({ delivered: 1, pending: 0 })
      emit('buffer')
      await telemetry.shutdown()
      expect(counts()).to.include({ delivered: 2, pending: 0 })
    })

    for (const method of ['flush', 'shutdown'] as const) {
      it(`an error of ${method} in the worker is the last error of the transport`, async () => {
        const code = `export default () => ({ handle() {}, async ${method}() { throw new RangeError('secret') } })`
        const { telemetry, counts, lastError } = managerWith(workerTransport(moduleOf(code)))
        telemetry.emit('a.b')
        await telemetry.flush()
        await telemetry.shutdown()
        expect(counts()).to.include({ delivered: 1, failed: 0 })
        expect(lastError()?.message).to.contain(`failed in ${method}() (RangeError)`)
      })
    }

    it('the deadline of a flush aborts in the worker when no caller waits any longer', async () => {
      const code = `export default () => {
        let deliver
        return {
          handle: () => new Promise((resolve) => { deliver = resolve }),
          flush: (deadline) => new Promise(() => deadline.addEventListener('abort', deliver)),
        }
      }`
      const { telemetry, counts } = managerWith(workerTransport(moduleOf(code)))
      telemetry.emit('a')
      const flushes = [telemetry.flush({ timeoutMs: 500 }), telemetry.flush({ timeoutMs: 1_000 })]
      await Promise.all(flushes)
      await until(() => counts().pending === 0)
      expect(counts()).to.include({ delivered: 1 })
      await telemetry.shutdown({ timeoutMs: 10 })
    })

    it('flush and shutdown end at their timeout while the worker hangs, and its event stays pending', async () => {
      const { emit, telemetry, counts } = acting()
      emit()
      await telemetry.flush()
      emit('hang')
      const started = performance.now()
      await telemetry.flush({ timeoutMs: 100 })
      await telemetry.shutdown({ timeoutMs: 100 })
      expect(performance.now() - started).to.be.within(180, 2_000)
      expect(counts()).to.deep.equal({ accepted: 2, delivered: 1, failed: 0, dropped: 0, pending: 1 })
    })

    for (const [what, code] of [
      [
        'after a shutdown at whose timeout the worker hangs',
        "emit('hang'); await telemetry.shutdown({ timeoutMs: 100 })",
      ],
      ['after a shutdown that has delivered everything', 'emit(); await telemetry.shutdown()'],
      [
        'without a shutdown while the worker hangs',
        "emit('hang'); await telemetry.flush({ timeoutMs: 100 })",
      ],
      ['while a stopped worker waits for its restart', "emit('exit'); await telemetry.flush(); emit()"],
    ] as const) {
      it(`a process with a worker ends ${what}`, async () => {
        const url = (path: string) =>
          JSON.stringify(new URL(`../../../../src/telemetry/${path}`, import.meta.url))
        const program = `
          import { KitTelemetry } from ${url('index.js')}
          import { workerTransport } from ${url('worker.js')}
          const counters = new Int32Array(new SharedArrayBuffer(8192))
          counters[1001] = 1
          const transport = workerTransport(${JSON.stringify(moduleOf(ACTING))}, { data: { counters } })
          const telemetry = KitTelemetry.create().withLogger(false).withSampling({ infoRate: 1 }).addTransport(transport).build()
          const emit = (action) => telemetry.emit('e.n0', { attributes: { action } })
          emit()
          await telemetry.flush()
          ${code}
          const { pending } = telemetry.stats().transports[0]
          console.log('pending', pending)`
        const { stdout } = await run(process.execPath, ['--input-type=module', '-e', program], {
          timeout: 10_000,
        })
        expect(stdout).to.match(/^pending [01]\n$/)
      })
    }
  })

  describe('a worker that cannot start', () => {
    for (const [what, module, reason, options] of [
      ['throws while it is loaded', "throw new RangeError('no')", 'RangeError'],
      ['exits while it is loaded', 'process.exit(0)', 'the worker exited with code 0'],
      ['does not export a function', 'export const handle = 5', 'TypeError'],
      ['makes an object without handle', "export default () => ({ type: 'x' })", 'TypeError'],
      ['cannot make the transport', 'export default async () => { throw new SyntaxError() }', 'SyntaxError'],
      [
        'makes a transport whose init rejects',
        'export default () => ({ handle() {}, async init() { throw new RangeError() } })',
        'RangeError',
      ],
      [
        'never ends to load',
        'await new Promise((resolve) => setTimeout(resolve, 1e6))',
        'did not start',
        { startTimeout: 300 },
      ],
      [
        'loops while it is loaded',
        'for (;;);',
        'the worker did not start within 300 ms',
        { startTimeout: 300 },
      ],
      ['is missing', 'file:///is/missing.js', 'ERR_MODULE_NOT_FOUND'],
    ] as const) {
      it(`a transport whose module ${what} is disabled, and its events fail`, async () => {
        const url = module.startsWith('file:') ? module : moduleOf(module)
        const { telemetry, counts, lastError } = managerWith(workerTransport(url, options))
        telemetry.emit('a.b')
        await telemetry.shutdown()
        expect(counts()).to.deep.equal({ accepted: 1, delivered: 0, failed: 1, dropped: 0, pending: 0 })
        expect(lastError()?.code).to.equal('TELEMETRY_TRANSPORT_INIT_FAILED')
        const cause = lastError()?.cause as Error | undefined
        expect(`${lastError()?.message} ${cause?.message}`).to.contain(reason)
      })
    }

    it('the error of a worker that cannot start is known if the worker ends while the application is busy', async () => {
      const ended = new Int32Array(new SharedArrayBuffer(8))
      const module = `export default (ended) => {
        process.on('exit', () => Atomics.store(ended, 0, 1) + Atomics.notify(ended, 0))
        return { type: 'x' }
      }`
      const transport = workerTransport(moduleOf(module), { data: ended })
      const started = transport.init?.({ service: 'a', environment: 'b' } as never)
      Atomics.wait(ended, 0, 0, 5_000)
      // The worker reports its end after the event `exit`.
      Atomics.wait(ended, 1, 0, 100)
      const error = await Promise.resolve(started).catch((thrown: Error) => thrown)
      expect(error).to.have.property('name', 'TypeError')
    })
  })

  describe('a worker that stops', () => {
    for (const action of ['exit', 'throw', 'reject']) {
      it(`without retries, the event of a worker that stops by ${action} fails once, and later events are delivered`, async () => {
        const { emit, telemetry, counts, seen, starts, logger } = acting({}, 1)
        emit()
        await telemetry.flush()
        const stopping = emit(action)
        await telemetry.flush()
        expect(counts()).to.deep.equal({ accepted: 2, delivered: 1, failed: 1, dropped: 0, pending: 0 })
        const later = emit()
        await telemetry.shutdown()
        expect(counts()).to.deep.equal({ accepted: 3, delivered: 2, failed: 1, dropped: 0, pending: 0 })
        expect([seen(stopping), seen(later), starts()]).to.deep.equal([1, 1, 2])
        expect(logger.errors.map(({ message }) => message).join())
          .to.contain('the worker')
          .and.not.contain('secret')
      })

      it(`with retries, the events of a worker that stops by ${action} are delivered by the next one`, async () => {
        const { emit, telemetry, counts, seen, starts } = acting({ retries: 1 }, 1)
        const delivered = emit()
        await telemetry.flush()
        const buffered = emit('later')
        const stopping = emit(action)
        await telemetry.shutdown()
        expect(counts()).to.deep.equal({ accepted: 3, delivered: 3, failed: 0, dropped: 0, pending: 0 })
        expect([seen(delivered), seen(stopping), starts()]).to.deep.equal([1, 2, 2])
        expect(seen(buffered)).to.be.within(1, 2)
      })
    }

    it('an event that stops each worker fails after its retries, and the pauses between the workers grow', async () => {
      const { emit, telemetry, counts, starts } = acting({ retries: 2 }, 100)
      const started = performance.now()
      emit('exit')
      await telemetry.flush()
      expect(starts()).to.equal(3)
      // At least half of 250 and of 500 ms.
      expect(performance.now() - started).to.be.within(370, 5_000)
      expect(counts()).to.deep.equal({ accepted: 1, delivered: 0, failed: 1, dropped: 0, pending: 0 })
      await telemetry.shutdown()
    })

    /** Transports that an event with the attribute `stops` stops. */
    const POISONED = {
      'ends the process in a function that returns nothing': `
        handle({ attributes: { stops } }) { if (stops) process.exit(3); count(arguments[0]) }`,
      'ends the process in an async function that does not wait': `
        async handle(event) { if (event.attributes.stops) process.exit(3); count(event) }`,
      'ends the process after a while, as other events that wait for it': `
        async handle(event) {
          count(event)
          await new Promise((resolve) => setTimeout(resolve, event.attributes.stops ? 1 : 5))
          if (event.attributes.stops) process.exit(3)
        }`,
      'ends the process in a transport that collects events until a flush': `
        handle(event) {
          count(event)
          return new Promise((resolve) => waiting.push(() => event.attributes.stops ? process.exit(3) : resolve()))
        },
        flush() { for (const send of waiting.splice(0)) send() }`,
    }
    for (const [what, members] of Object.entries(POISONED)) {
      for (const retries of [0, 2]) {
        it(`an event that ${what} fails alone with retries: ${retries}, and 100 others are delivered`, async () => {
          const handled = counters()
          const code = `export default (handled) => {
            const count = ({ attributes }) => Atomics.add(handled, attributes.index, 1)
            const waiting = []
            return { ${members} }
          }`
          const { telemetry, counts } = managerWith(
            workerTransport(moduleOf(code), { data: handled, retries }),
          )
          for (let index = 0; index <= 100; index++)
            telemetry.emit('a.b', { attributes: { index, stops: index === 7 } })
          await telemetry.flush()
          expect(counts()).to.deep.equal({ accepted: 101, delivered: 100, failed: 1, dropped: 0, pending: 0 })
          const times = Array.from(handled.subarray(0, 101), (time, index) => (index === 7 ? 1 : time))
          // Events that were begun together with it are sent again.
          const isBegunTogether = what.includes('after a while') || what.includes('collects')
          expect(new Set(times)).to.deep.equal(new Set(isBegunTogether ? [1, 2] : [1]))
          await telemetry.shutdown()
        })
      }
    }

    it('events emitted while a suspect is sent alone are delivered after it, and so is a flush', async () => {
      const { emit, telemetry, counts, seen } = acting({}, 1)
      const together = [emit('later'), emit('buffer'), emit('exit'), emit('buffer')]
      await until(() => seen(together[2] as number) === 1)
      const later = emit('buffer')
      await telemetry.flush()
      expect(counts()).to.deep.equal({ accepted: 5, delivered: 5, failed: 0, dropped: 0, pending: 0 })
      expect(seen(later)).to.equal(1)
      await telemetry.shutdown()
    })

    it('events that no worker begins fail after three workers, and after each retry one more', async () => {
      for (const retries of [0, 1]) {
        const started = counters()
        const code = `export default (started) => {
          Atomics.add(started, 0, 1)
          setImmediate(() => process.exit(1))
          return { handle() {} }
        }`
        const { telemetry, counts } = managerWith(workerTransport(moduleOf(code), { data: started, retries }))
        await until(() => started[0] === 1)
        telemetry.emit('a.b')
        telemetry.emit('a.c')
        await telemetry.flush()
        const { delivered, failed } = counts()
        expect(delivered + failed).to.equal(2)
        expect(started[0]).to.be.at.most(4 + retries)
        await telemetry.shutdown()
      }
    })

    it('a worker that has stopped does not start again before there is an event', async () => {
      const { emit, telemetry, starts } = acting({}, 1)
      emit('exit')
      await telemetry.flush()
      await telemetry.flush()
      expect(starts()).to.equal(1)
      emit()
      await telemetry.flush()
      expect(starts()).to.equal(2)
      await telemetry.shutdown()
    })

    it('outcomes that a worker sends immediately before it exits count', async () => {
      const code = `export default () => ({
        handle() { queueMicrotask(() => queueMicrotask(() => queueMicrotask(() => process.exit(0)))) },
      })`
      const { telemetry, counts } = managerWith(workerTransport(moduleOf(code)))
      await telemetry.flush()
      for (let count = 0; count < 5; count++) telemetry.emit('a.b')
      await new Promise(setImmediate)
      // While this thread is busy, the worker sends the outcomes and exits.
      for (const started = performance.now(); performance.now() - started < 200; );
      await telemetry.flush()
      expect(counts()).to.deep.equal({ accepted: 5, delivered: 5, failed: 0, dropped: 0, pending: 0 })
      await telemetry.shutdown()
    })

    it('events, flush, and shutdown of a transport without a manager settle if its first worker fails to start', async () => {
      const transport = workerTransport(moduleOf('throw new Error()'))
      const outcomes = await Promise.allSettled([
        transport.init?.({ service: 'billing', environment: 'test' } as never),
        transport.handle(anEvent()),
        transport.flush?.(),
        transport.shutdown?.(),
      ])
      expect(outcomes.map(({ status }) => status)).to.deep.equal([
        'rejected',
        'rejected',
        'fulfilled',
        'fulfilled',
      ])
    })

    it('a shutdown ends if the worker exits in it', async () => {
      const code = 'export default () => ({ handle() {}, shutdown() { process.exit(1) } })'
      const { telemetry, counts } = managerWith(workerTransport(moduleOf(code)))
      telemetry.emit('a.b')
      await telemetry.flush()
      const started = performance.now()
      await telemetry.shutdown({ timeoutMs: 10_000 })
      expect(performance.now() - started).to.be.below(5_000)
      expect(counts()).to.include({ delivered: 1, pending: 0 })
    })
  })

  it('garbage that the worker sends changes no outcome', async () => {
    const code = `
      import { parentPort, workerData } from 'node:worker_threads'
      const { port } = workerData
      const circle = {}
      circle.circle = circle
      const garbage = [
        null, undefined, 5, 'ready', [], {}, circle, new Error('x'), new Uint8Array(10),
        { type: 'nothing' }, { type: {} }, { type: 'settled' }, { type: 'settled', delivered: 5, failed: {} },
        { type: 'settled', delivered: [-1, 'x', null, {}, 1e9, NaN], failed: [null, 5, [], [7], [{}, {}], ['x', 5]] },
        { type: 'flushed' }, { type: 'flushed', call: {} }, { type: 'flushed', call: 1e9, error: 5 }, { type: 'ready' },
        { type: 'closed', error: { name: {}, message: 5, stack: [], code: {} } },
      ]
      const send = () => { for (const message of garbage) { parentPort.postMessage(message); port.postMessage(message) } }
      export default () => ({ handle(event) { send(); if (event.name === 'a.fails') throw new RangeError() }, flush: send })`
    const { telemetry, counts } = managerWith(workerTransport(moduleOf(code)))
    for (const name of ['a.b', 'a.fails', 'a.c']) telemetry.emit(name)
    await telemetry.flush()
    telemetry.emit('a.d')
    await telemetry.flush()
    expect(counts()).to.deep.equal({ accepted: 4, delivered: 3, failed: 1, dropped: 0, pending: 0 })
    await telemetry.shutdown()
  })

  it('the statistics are exact for any order of events, flushes, and stops of the worker', async () => {
    const step = fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(undefined, 'later', 'buffer', 'fail') },
      { weight: 1, arbitrary: fc.constantFrom('exit', 'throw', 'reject') },
      { weight: 2, arbitrary: fc.constantFrom('flush', 'tick') },
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 30 }),
        fc.nat(2),
        fc.nat(3),
        async (steps, retries, stops) => {
          const { emit, telemetry, counts, seen } = acting({ retries }, stops)
          const emitted: number[] = []
          let failing = 0
          for (const action of steps) {
            if (action === 'flush') await telemetry.flush()
            else if (action === 'tick') await new Promise(setImmediate)
            else {
              if (action === 'fail') failing++
              emitted.push(emit(action))
            }
            const { accepted, delivered, failed, dropped, pending } = counts()
            expect(accepted).to.equal(delivered + failed + dropped + pending)
          }
          await telemetry.shutdown()
          const { accepted, delivered, failed, dropped, pending } = counts()
          expect([accepted, dropped, pending]).to.deep.equal([emitted.length, 0, 0])
          expect(delivered + failed).to.equal(accepted)
          expect(failed).to.be.at.least(failing)
          if (stops === 0) expect(failed).to.equal(failing)
          const arrived = emitted.filter((event) => (seen(event) ?? 0) > 0).length
          expect(arrived).to.be.at.least(delivered)
          for (const event of emitted) expect(seen(event)).to.be.at.most(retries + 2)
        },
      ),
      { numRuns: runs(30) },
    )
  })

  it('only the events that stop each worker, or that its transport rejects, fail for any order of events', async () => {
    const action = fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom(undefined, 'later', 'buffer', 'fail') },
      { weight: 1, arbitrary: fc.constantFrom('exit', 'throw', 'reject') },
    )
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 15 }), fc.nat(1), async (actions, retries) => {
        const { emit, telemetry, counts, seen } = acting({ retries }, 1_000_000)
        for (const action of actions) emit(action)
        await telemetry.shutdown()
        const stops = (action: string | undefined) => ['exit', 'throw', 'reject'].includes(String(action))
        const failed = actions.filter((action) => action === 'fail' || stops(action)).length
        expect(counts()).to.include({ delivered: actions.length - failed, failed, pending: 0 })
        for (const [event, action] of actions.entries())
          expect(seen(event)).to.be.at.most(stops(action) ? retries + 2 : 2)
      }),
      { numRuns: runs(10) },
    )
  })

  describe('arguments', () => {
    for (const [what, url, words] of [
      ['a path', './transport.js', 'must be a file: or data: URL'],
      ['an http: URL', new URL('https://example.com/x.js'), 'must be a file: or data: URL'],
      ['nothing', undefined, 'must be the URL of a module; received undefined'],
    ] as const) {
      it(`workerTransport with ${what} throws an error that contains the fix`, () => {
        const { message } = expectCode('TELEMETRY_CONFIGURATION_INVALID', () => workerTransport(url as URL))
        expect(message).to.contain(`the first argument of workerTransport() ${words}`)
        expect(message).to.contain("Use new URL('./transport.js', import.meta.url).")
      })
    }

    it('later changes of data have no effect', async () => {
      const data = { names: ['a'] }
      const code = `export default ({ names }) => ({ handle() { if (names.length !== 1) throw new Error() } })`
      const { telemetry, counts } = managerWith(
        (() => {
          const transport = workerTransport(moduleOf(code), { data })
          data.names.push('b')
          return transport
        })(),
      )
      telemetry.emit('a.b')
      await telemetry.shutdown()
      expect(counts()).to.include({ delivered: 1, failed: 0 })
    })
  })
})
