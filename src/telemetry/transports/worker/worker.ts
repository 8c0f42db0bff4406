import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { isRecord } from '../../../options/value-kinds.ts'
import { type LongTimer, setLongTimeout } from '../../../timers.ts'
import {
  DEFAULT_MAX_PENDING_BYTES,
  type TelemetryTransport,
  type TelemetryTransportMeta,
} from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { KitTelemetryError } from '../../errors.ts'
import { telemetryOptions } from '../../options.ts'
import { backOffMs, MAX_FLUSHING_BACKOFF_MS } from '../queue/batch-queue-options.ts'
import { type NumberedEvent, runWorkerProgram, type ToWorker, type WorkerInput } from './worker-program.ts'

const { checkMs, checkText, checkWholeNumber, copyOptions, invalidKind, invalidOption, unusableOption } =
  telemetryOptions

/** The options of `workerTransport()`. */
export interface WorkerTransportOptions {
  /** The name of the transport in `stats()` and in reports. Defaults to `worker`. */
  readonly type?: string | undefined
  /**
   * The argument of the function that makes the transport. It is copied by the structured clone algorithm, so it must not
   * contain functions. Defaults to `undefined`.
   */
  readonly data?: unknown
  /** The maximum number of pending events, at least 1. Further events are dropped. Defaults to 10 000. */
  readonly maxPending?: number | undefined
  /** The maximum size of the pending events in memory, in bytes, at least 1. Further events are dropped. Defaults to 64 MiB. */
  readonly maxPendingBytes?: number | undefined
  /**
   * How often an event is sent to a further worker if the worker has stopped before the outcome of the event was known. With a
   * number above 0, events are delivered at least once. Defaults to 0.
   */
  readonly retries?: number | undefined
  /** The maximum time in which the worker must load the module and make the transport. Defaults to 10 000 ms. */
  readonly startTimeout?: number | undefined
}

interface WorkerSettings {
  readonly moduleUrl: string
  readonly type: string
  readonly data: unknown
  readonly maxPending: number
  readonly maxPendingBytes: number
  readonly retries: number
  readonly startTimeout: number
}

/** An event without an outcome. */
interface PendingEvent {
  readonly event: NumberedEvent
  readonly resolve: () => void
  readonly reject: (error: Error) => void
  /** The number of workers that have stopped since the event was emitted. */
  stops: number
  /** `true` if the current worker has received it. */
  posted: boolean
}

/** A worker that is starting or running. */
interface Run {
  readonly worker: Worker
  readonly port: MessagePort
  readonly startTimer: LongTimer
  isReady: boolean
  /** The error that stops the worker. */
  cause: Error | undefined
}

/** A call that waits for the transport in the worker. */
interface WaitingCall {
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** The pause before the next worker starts, after one has stopped. It doubles until an event is delivered. */
const BACK_OFF = { firstMs: 250, maxMs: 30_000, minShare: 0.5 }

/** The length up to which the strings of an error are kept. */
const MAX_TEXT = 10_000

/**
 * The program of a worker. It is part of this module, so that bundles contain it. Bundlers may wrap named functions in calls of
 * `__name`.
 */
const PROGRAM = `import { workerData } from 'node:worker_threads'
const __name = (named) => named
await (${runWorkerProgram})(workerData, (url) => import(url))
//# sourceURL=mcp-gatekit/telemetry/worker`

/**
 * Runs a transport in a worker thread, so that its work does not delay the application. The worker gets a copy of each event,
 * and reports the outcome, so `stats()` is as exact as for a transport without a worker.
 *
 * If the worker stops, another one starts when there are events for it, after a pause that doubles from 250 ms to 30 s. Events
 * whose outcome is unknown then fail, or are sent again if `retries` allows it. If the first worker cannot make the transport,
 * the transport is disabled. The worker does not keep the process alive, so await `shutdown()` of the manager.
 * @param moduleUrl the `file:` or `data:` URL of a module. Its default export, or its export `transport`, is a function that
 * receives `data` and returns a transport or a promise of one.
 * @param options the argument of that function, and limits.
 * @returns the transport.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an argument is invalid.
 *
 * @example
 * ```ts
 * import { KitTelemetry } from 'mcp-gatekit/telemetry'
 * import { workerTransport } from 'mcp-gatekit/telemetry/worker'
 *
 * const telemetry = KitTelemetry.create()
 *   .addTransport(workerTransport(new URL('./archive.js', import.meta.url), { data: { folder: '/var/log/shop' } }))
 *   .build()
 * ```
 * @see docs/reference/transports.md
 */
export function workerTransport(
  moduleUrl: URL | string,
  options: WorkerTransportOptions = {},
): TelemetryTransport {
  const {
    type = 'worker',
    data,
    maxPending = 10_000,
    maxPendingBytes = DEFAULT_MAX_PENDING_BYTES,
    retries = 0,
    startTimeout = 10_000,
  } = copyOptions<WorkerTransportOptions>('workerTransport', options, {
    type: checkText,
    data: checkCloneable,
    maxPending: (option, value) => checkWholeNumber(option, value, 1, Number.MAX_SAFE_INTEGER),
    maxPendingBytes: (option, value) => checkWholeNumber(option, value, 1, Number.MAX_SAFE_INTEGER),
    retries: (option, value) => checkWholeNumber(option, value, 0, Number.MAX_SAFE_INTEGER),
    startTimeout: (option, value) => checkMs(option, value, 'more than 0'),
  })
  return new WorkerTransport({
    moduleUrl: readModuleUrl(moduleUrl),
    type,
    data: structuredClone(data),
    maxPending,
    maxPendingBytes,
    retries,
    startTimeout,
  })
}

class WorkerTransport implements TelemetryTransport {
  readonly type: string
  readonly maxPending: number
  readonly maxPendingBytes: number
  readonly #settings: WorkerSettings
  readonly #pending = new Map<number, PendingEvent>()
  /** The pending events that the current worker has not received, in order. */
  #unposted: PendingEvent[] = []
  #postScheduled = false
  #lastNumber = 0
  #meta: TelemetryTransportMeta | undefined

  #run: Run | undefined
  /** The number of workers that have stopped since an event was delivered. */
  #failures = 0
  /** When the latest worker stopped, and the pause after it. */
  #stoppedMs = 0
  #pauseMs = 0
  #restart: LongTimer | undefined

  /** The call of `init`, until the first worker is ready. */
  #initializing: WaitingCall | undefined
  readonly #flushes = new Map<number, WaitingCall>()
  #lastFlush = 0
  /** The call of `shutdown`, until the worker has shut down. */
  #closing: WaitingCall | undefined
  #isClosed = false

  constructor(settings: WorkerSettings) {
    this.type = settings.type
    this.maxPending = settings.maxPending
    this.maxPendingBytes = settings.maxPendingBytes
    this.#settings = settings
  }

  init(meta: TelemetryTransportMeta): Promise<void> {
    this.#meta = meta
    return new Promise((resolve, reject) => {
      this.#initializing = { resolve, reject }
      this.#start()
    })
  }

  handle(envelope: TelemetryEnvelope, emittedAtMs?: number): Promise<void> {
    if (this.#isClosed || this.#meta === undefined)
      return Promise.reject(this.#failure(this.#isClosed ? 'it is shut down' : 'it is not initialized'))
    const number = ++this.#lastNumber
    return new Promise((resolve, reject) => {
      const pending: PendingEvent = {
        event: [number, envelope, emittedAtMs],
        resolve,
        reject,
        stops: 0,
        posted: false,
      }
      this.#pending.set(number, pending)
      this.#unposted.push(pending)
      this.#postSoon()
    })
  }

  flush(deadline?: AbortSignal): Promise<void> {
    if (this.#isClosed || (this.#run === undefined && this.#pending.size === 0)) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const call = ++this.#lastFlush
      this.#flushes.set(call, { resolve, reject })
      deadline?.addEventListener('abort', () => this.#abandonFlush(call), { once: true })
      if (this.#run?.isReady === true) this.#postFlush(call)
      else this.#startWhenDue()
      if (deadline?.aborted === true) this.#abandonFlush(call)
    })
  }

  async shutdown(deadline?: AbortSignal): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    if (deadline?.aborted === true || (this.#run === undefined && this.#pending.size === 0)) {
      this.#end()
      return
    }
    try {
      await new Promise<void>((resolve, reject) => {
        this.#closing = { resolve, reject }
        deadline?.addEventListener('abort', () => resolve(), { once: true })
        if (this.#run?.isReady === true) this.#postShutdown()
        else this.#startWhenDue()
      })
    } finally {
      this.#end()
    }
  }

  /** Sends events after the current code of the application has returned, because copying them takes time. */
  #postSoon(): void {
    if (this.#postScheduled) return
    this.#postScheduled = true
    setImmediate(() => {
      this.#postScheduled = false
      if (this.#run?.isReady === true) this.#postEvents()
      else this.#startWhenDue()
    })
  }

  #postEvents(): void {
    const unposted = this.#unposted
    if (unposted.length === 0) return
    this.#unposted = []
    if (this.#post({ type: 'events', events: unposted.map(({ event }) => event) })) {
      for (const pending of unposted) pending.posted = true
      return
    }
    for (const pending of unposted) {
      pending.posted = this.#post({ type: 'events', events: [pending.event] })
      if (!pending.posted) this.#fail(pending, this.#failure('the event cannot be copied to the worker'))
    }
  }

  #postFlush(call: number): void {
    this.#postEvents()
    this.#post({ type: 'flush', call })
  }

  #abandonFlush(call: number): void {
    this.#flushes.get(call)?.resolve()
    if (this.#flushes.delete(call)) this.#post({ type: 'abandon', call })
  }

  #postShutdown(): void {
    this.#postEvents()
    this.#post({ type: 'shutdown' })
  }

  /** @returns `false` if the message cannot be copied. */
  #post(message: ToWorker): boolean {
    try {
      this.#run?.port.postMessage(message)
      return true
    } catch {
      return false
    }
  }

  /** Starts a worker when the pause after the previous one is over. A caller that flushes waits for a second at most. */
  #startWhenDue(): void {
    if (this.#run !== undefined || this.#meta === undefined) return
    const isFlushing = this.#flushes.size > 0 || this.#closing !== undefined
    const pauseMs = isFlushing ? Math.min(this.#pauseMs, MAX_FLUSHING_BACKOFF_MS) : this.#pauseMs
    this.#restart?.clear()
    this.#restart = setLongTimeout(() => this.#start(), this.#stoppedMs + pauseMs - performance.now())
  }

  #start(): void {
    this.#restart = undefined
    const { moduleUrl, data, startTimeout } = this.#settings
    const { port1: port, port2 } = new MessageChannel()
    const workerData: WorkerInput = {
      port: port2,
      moduleUrl,
      data,
      meta: this.#meta as TelemetryTransportMeta,
    }
    let worker: Worker
    try {
      const url = new URL(`data:text/javascript,${encodeURIComponent(PROGRAM)}`)
      worker = new Worker(url, { workerData, transferList: [port2], name: `telemetry ${this.type}` })
    } catch (error) {
      port.close()
      this.#stopped(error as Error)
      return
    }
    const startTimer = setLongTimeout(() => {
      run.cause = this.#failure(`the worker did not start within ${startTimeout} ms`)
      this.#stop(run)
    }, startTimeout)
    const run: Run = { worker, port, startTimer, isReady: false, cause: undefined }
    this.#run = run
    worker.on('error', (error) => {
      run.cause = error instanceof Error ? error : undefined
    })
    worker.once('exit', (code) => {
      run.cause ??= this.#failure(`the worker exited with code ${code}`)
      this.#stop(run)
    })
    port.on('message', (message) => this.#receive(run, message))
    worker.unref()
    port.unref()
  }

  #receive(run: Run, message: unknown): void {
    if (run !== this.#run || !isRecord(message)) return
    const { type, call, error } = message
    if (type === 'ready') {
      this.#ready(run)
    } else if (type === 'failed') {
      run.cause = this.#readError(error)
      this.#stop(run)
    } else if (type === 'settled') {
      this.#settled(message)
    } else if (type === 'flushed') {
      const waiting = this.#flushes.get(call as number)
      this.#flushes.delete(call as number)
      if (error === undefined) waiting?.resolve()
      else waiting?.reject(this.#readError(error))
    } else if (type === 'closed') {
      if (error === undefined) this.#closing?.resolve()
      else this.#closing?.reject(this.#readError(error))
    }
  }

  #ready(run: Run): void {
    if (run.isReady) return
    run.isReady = true
    run.startTimer.clear()
    this.#initializing?.resolve()
    this.#initializing = undefined
    this.#postEvents()
    for (const call of this.#flushes.keys()) this.#postFlush(call)
    if (this.#closing !== undefined) this.#postShutdown()
  }

  #settled({ delivered, failed }: Record<string, unknown>): void {
    if (Array.isArray(delivered)) {
      for (const number of delivered) {
        const pending = this.#pending.get(number)
        if (pending?.posted !== true) continue
        this.#failures = 0
        this.#pending.delete(number)
        pending.resolve()
      }
    }
    if (!Array.isArray(failed)) return
    for (const entry of failed) {
      const pending = Array.isArray(entry) ? this.#pending.get(entry[0]) : undefined
      if (pending?.posted === true) this.#fail(pending, this.#readError(entry[1]))
    }
  }

  #fail(pending: PendingEvent, error: Error): void {
    this.#pending.delete(pending.event[0])
    pending.reject(error)
  }

  /** Ends a worker that has stopped, or that must stop. */
  #stop(run: Run): void {
    if (run !== this.#run) return
    // The worker may have sent outcomes, or why it could not start, immediately before its end.
    for (
      let last = receiveMessageOnPort(run.port);
      last !== undefined;
      last = receiveMessageOnPort(run.port)
    ) {
      const { type, error, ...outcomes } = isRecord(last.message) ? last.message : {}
      if (type === 'settled') this.#settled(outcomes)
      else if (type === 'failed') run.cause = this.#readError(error)
    }
    this.#release(run)
    this.#stopped(run.cause)
  }

  #release({ worker, port, startTimer }: Run): void {
    this.#run = undefined
    startTimer.clear()
    port.close()
    void worker.terminate()
  }

  #stopped(cause: Error | undefined): void {
    const error = stopError(this.type, cause)
    if (this.#initializing !== undefined) {
      this.#meta = undefined
      this.#initializing.reject(cause ?? error)
      this.#initializing = undefined
      this.#unposted = []
      for (const pending of [...this.#pending.values()]) this.#fail(pending, error)
    } else {
      this.#failures++
      this.#stoppedMs = performance.now()
      this.#pauseMs = backOffMs(BACK_OFF, this.#failures, Math.random())
      this.#unposted = []
      for (const pending of this.#pending.values()) {
        pending.posted = false
        if (++pending.stops > this.#settings.retries) this.#fail(pending, error)
        else this.#unposted.push(pending)
      }
    }
    if (this.#pending.size > 0) {
      this.#startWhenDue()
      return
    }
    // The events that these calls wait for have settled.
    for (const flush of this.#flushes.values()) flush.resolve()
    this.#flushes.clear()
    this.#closing?.resolve()
  }

  /** Stops everything. Events without an outcome stay pending. */
  #end(): void {
    this.#restart?.clear()
    this.#meta = undefined
    this.#closing = undefined
    if (this.#run !== undefined) this.#release(this.#run)
    for (const flush of this.#flushes.values()) flush.resolve()
    this.#flushes.clear()
    this.#initializing?.resolve()
    this.#initializing = undefined
  }

  #failure(reason: string): KitTelemetryError {
    return new KitTelemetryError(
      'TELEMETRY_TRANSPORT_FAILED',
      `transport ${JSON.stringify(this.type)}: ${reason}`,
    )
  }

  /** Makes an error from the data that the worker has sent. */
  #readError(data: unknown): Error {
    const { name, message, code, stack, kitDetails } = isRecord(data) ? data : {}
    const text = textOf(message) ?? ''
    if (typeof kitDetails === 'string')
      return new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', text, { details: readDetails(kitDetails) })
    const error = new Error(text)
    error.name = textOf(name) ?? 'Error'
    const ownStack = textOf(stack)
    if (ownStack !== undefined) error.stack = ownStack
    return Object.assign(error, typeof code === 'string' && { code: textOf(code) })
  }
}

/** Returns the error of the events that were lost with a worker. Of the cause, only the code is shown. */
function stopError(type: string, cause: Error | undefined): KitTelemetryError {
  if (KitTelemetryError.is(cause)) return cause
  const { name, code } = (cause ?? {}) as { name?: unknown; code?: unknown }
  const words = [name, code].filter((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word))
  const kind = words.length === 0 ? '' : ` (${words.join(' ')})`
  return new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport ${JSON.stringify(type)}: the worker stopped${kind} before the outcome of the event was known`,
    cause === undefined ? {} : { cause },
  )
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, MAX_TEXT) : undefined
}

function readDetails(json: string): Readonly<Record<string, unknown>> {
  try {
    const details: unknown = JSON.parse(json)
    return isRecord(details) ? details : {}
  } catch {
    return {}
  }
}

function checkCloneable(option: string, value: unknown): void {
  try {
    structuredClone(value)
  } catch {
    throw unusableOption(
      option,
      'must not contain values that cannot be copied to a worker, such as functions',
      'Create them in the worker.',
    )
  }
}

function readModuleUrl(value: unknown): string {
  const option = 'the first argument of workerTransport()'
  const text = value instanceof URL ? value.href : value
  const fix = "Use new URL('./transport.js', import.meta.url)."
  if (typeof text !== 'string') throw invalidKind(option, 'must be the URL of a module', value, fix)
  if (!URL.canParse(text) || !['file:', 'data:'].includes(new URL(text).protocol))
    throw invalidOption(option, 'must be a file: or data: URL', text, fix)
  return text
}
