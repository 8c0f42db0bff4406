import { type LongTimer, setLongTimeout } from '../../../timers.ts'
import type { TelemetryTransport, TelemetryTransportMeta } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { backOffMs, MAX_FLUSHING_BACKOFF_MS } from '../queue/batch-queue-options.ts'
import { readError, stopError, workerFailure } from './worker-errors.ts'
import { WorkerEvents } from './worker-events.ts'
import { WorkerRun, type WorkerRunSettings } from './worker-run.ts'

/** The checked options of `workerTransport()`. */
export interface WorkerSettings extends WorkerRunSettings {
  readonly maxPending: number
  readonly maxPendingBytes: number
  readonly retries: number
}

/** A call that waits for the transport in the worker. */
interface WaitingCall {
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** The pause before the next worker starts, after one has stopped. It doubles until an event is delivered. */
const BACK_OFF = { firstMs: 250, maxMs: 30_000, minShare: 0.5 }

/** Passes events and calls to the transport in the current worker, and starts another worker if it stops. */
export class WorkerTransport implements TelemetryTransport {
  readonly type: string
  readonly maxPending: number
  readonly maxPendingBytes: number
  readonly #settings: WorkerSettings
  readonly #events: WorkerEvents
  #meta: TelemetryTransportMeta | undefined
  #run: WorkerRun | undefined
  #sendScheduled = false

  /** When the latest worker stopped, and the pause after it. */
  #stoppedMs = 0
  #pauseMs = 0
  #restart: LongTimer | undefined

  /** The call of `init`, until the first worker is ready. */
  #initializing: WaitingCall | undefined
  /** The calls of `flush` and `shutdown`, until the worker has responded. */
  readonly #calls = new Map<number, WaitingCall>()
  #lastCall = 0
  /** The latest call that the current worker has received. */
  #lastSentCall = 0
  /** The number of the call of `shutdown`. */
  #closing: number | undefined

  constructor(settings: WorkerSettings) {
    this.type = settings.type
    this.maxPending = settings.maxPending
    this.maxPendingBytes = settings.maxPendingBytes
    this.#settings = settings
    this.#events = new WorkerEvents(settings.retries)
  }

  init(meta: TelemetryTransportMeta): Promise<void> {
    this.#meta = meta
    return new Promise((resolve, reject) => {
      this.#initializing = { resolve, reject }
      this.#start()
    })
  }

  handle(envelope: TelemetryEnvelope, emittedAtMs?: number): Promise<void> {
    if (this.#closing !== undefined || this.#meta === undefined)
      return Promise.reject(
        workerFailure(this.type, this.#closing !== undefined ? 'it is shut down' : 'it is not initialized'),
      )
    const handled = this.#events.add(envelope, emittedAtMs)
    this.#sendSoon()
    return handled
  }

  async flush(deadline?: AbortSignal): Promise<void> {
    if (this.#closing === undefined) await this.#call(deadline)
  }

  async shutdown(deadline?: AbortSignal): Promise<void> {
    if (this.#closing !== undefined) return
    this.#closing = this.#lastCall + 1
    try {
      await this.#call(deadline)
    } finally {
      this.#end()
    }
  }

  /** Calls the transport in the worker when it has received all events. Resolves at the deadline. */
  #call(deadline: AbortSignal | undefined): Promise<void> | undefined {
    if (this.#isIdle || deadline?.aborted === true) return undefined
    const call = ++this.#lastCall
    const abandon = () => this.#abandon(call)
    deadline?.addEventListener('abort', abandon, { once: true })
    const called = new Promise<void>((resolve, reject) => {
      this.#calls.set(call, { resolve, reject })
      this.#send()
    })
    return called.finally(() => deadline?.removeEventListener('abort', abandon))
  }

  /** `true` if no worker runs, and no event waits for one. */
  get #isIdle(): boolean {
    return this.#run === undefined && this.#events.size === 0
  }

  /** Sends events after the current code of the application has returned, because copying them takes time. */
  #sendSoon(): void {
    if (this.#sendScheduled) return
    this.#sendScheduled = true
    setImmediate(() => {
      this.#sendScheduled = false
      this.#send()
    })
  }

  /** Sends events, and the calls after them, to the worker. Starts one if there is none. */
  #send(): void {
    const run = this.#run
    if (run?.isReady !== true) {
      this.#startWhenDue()
      return
    }
    this.#events.send(
      (message) => run.post(message),
      () => workerFailure(this.type, 'the event cannot be copied to the worker'),
    )
    if (!this.#events.areSent) return
    for (; this.#lastSentCall < this.#lastCall; this.#lastSentCall++) {
      const call = this.#lastSentCall + 1
      if (this.#calls.has(call))
        run.post(call === this.#closing ? { type: 'shutdown' } : { type: 'flush', call })
    }
  }

  #abandon(call: number): void {
    this.#calls.get(call)?.resolve()
    if (this.#calls.delete(call) && this.#lastSentCall >= call) this.#run?.post({ type: 'abandon', call })
  }

  /** Settles a call. @param error the error that the worker has sent, if there is one. */
  #settle(call: unknown, error: unknown): void {
    const waiting = this.#calls.get(call as number)
    this.#calls.delete(call as number)
    if (error === undefined) waiting?.resolve()
    else waiting?.reject(readError(error))
  }

  #resolveCalls(): void {
    for (const call of this.#calls.values()) call.resolve()
    this.#calls.clear()
  }

  /** Starts a worker when the pause after the previous one is over. A caller that flushes waits for a second at most. */
  #startWhenDue(): void {
    if (this.#run !== undefined || this.#meta === undefined) return
    const pauseMs = this.#calls.size > 0 ? Math.min(this.#pauseMs, MAX_FLUSHING_BACKOFF_MS) : this.#pauseMs
    this.#restart?.clear()
    this.#restart = setLongTimeout(() => this.#start(), this.#stoppedMs + pauseMs - performance.now())
  }

  #start(): void {
    this.#restart = undefined
    this.#lastSentCall = 0
    try {
      this.#run = new WorkerRun(this.#settings, this.#meta as TelemetryTransportMeta, {
        ready: () => this.#ready(),
        received: (message) => this.#received(message),
        stopped: (cause) => this.#stopped(cause),
      })
    } catch (error) {
      this.#stopped(error as Error)
    }
  }

  #ready(): void {
    this.#initializing?.resolve()
    this.#initializing = undefined
    this.#send()
  }

  #received(message: Readonly<Record<string, unknown>>): void {
    const { type, call, error } = message
    if (type === 'settled') {
      const wasAlone = this.#events.isAlone
      this.#events.settle(message)
      if (wasAlone && !this.#events.isAlone) this.#sendSoon()
    } else if (type === 'flushed') {
      this.#settle(call, error)
    } else if (type === 'closed') {
      this.#settle(this.#closing, error)
    }
  }

  #stopped(cause: Error): void {
    const error = stopError(this.type, cause)
    this.#run = undefined
    if (this.#initializing !== undefined) {
      this.#meta = undefined
      this.#initializing.reject(cause)
      this.#initializing = undefined
      this.#events.failAll(error)
    } else {
      this.#events.workerStopped(error)
      this.#stoppedMs = performance.now()
      this.#pauseMs = backOffMs(BACK_OFF, this.#events.stopsInARow, Math.random())
    }
    if (this.#events.size > 0) {
      this.#startWhenDue()
      return
    }
    // The events that the calls wait for have settled.
    this.#resolveCalls()
  }

  /** Stops everything. Events without an outcome stay pending. */
  #end(): void {
    this.#restart?.clear()
    this.#meta = undefined
    this.#run?.end()
    this.#run = undefined
    this.#resolveCalls()
    this.#initializing?.resolve()
    this.#initializing = undefined
  }
}
