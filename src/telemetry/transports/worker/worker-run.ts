import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { isRecord } from '../../../options/value-kinds.ts'
import { type LongTimer, setLongTimeout } from '../../../timers.ts'
import type { TelemetryTransportMeta } from '../../delivery/transport.ts'
import { readError, workerFailure } from './worker-errors.ts'
import { runWorkerProgram, type ToWorker, type WorkerInput } from './worker-program.ts'

/** The module that runs in the worker, and the limit of its start. */
export interface WorkerRunSettings {
  readonly type: string
  readonly moduleUrl: string
  readonly data: unknown
  readonly startTimeout: number
}

/** The functions that receive what happens in a worker. */
export interface WorkerRunEvents {
  /** The worker has made its transport. */
  ready(): void
  /** The worker has sent a message, of which nothing is certain. */
  received(message: Readonly<Record<string, unknown>>): void
  /** The worker has ended by itself, or could not start. */
  stopped(cause: Error): void
}

/**
 * The program of a worker. It is part of this module, so that bundles contain it. Bundlers may wrap named functions in calls of
 * `__name`.
 */
const PROGRAM = `import { workerData } from 'node:worker_threads'
const __name = (named) => named
await (${runWorkerProgram})(workerData, (url) => import(url))
//# sourceURL=mcp-gatekit/telemetry/worker`

/** A worker thread, from its start to its end. It does not keep the process alive. */
export class WorkerRun {
  readonly #worker: Worker
  readonly #port: MessagePort
  readonly #startTimer: LongTimer
  readonly #events: WorkerRunEvents
  #isReady = false
  #hasEnded = false
  /** The error that stops the worker. */
  #cause: Error | undefined

  /** @throws {Error} if the thread cannot be created. */
  constructor(
    { type, moduleUrl, data, startTimeout }: WorkerRunSettings,
    meta: TelemetryTransportMeta,
    events: WorkerRunEvents,
  ) {
    this.#events = events
    const { port1, port2 } = new MessageChannel()
    const workerData: WorkerInput = { port: port2, moduleUrl, data, meta }
    this.#port = port1
    try {
      const url = new URL(`data:text/javascript,${encodeURIComponent(PROGRAM)}`)
      this.#worker = new Worker(url, { workerData, transferList: [port2], name: `telemetry ${type}` })
    } catch (error) {
      port1.close()
      throw error
    }
    this.#startTimer = setLongTimeout(
      () => this.#stop(workerFailure(type, `the worker did not start within ${startTimeout} ms`)),
      startTimeout,
    )
    this.#worker.on('error', (error) => {
      this.#cause = error instanceof Error ? error : undefined
    })
    this.#worker.once('exit', (code) =>
      this.#stop(workerFailure(type, `the worker exited with code ${code}`)),
    )
    this.#port.on('message', (message) => this.#receive(message))
    this.#worker.unref()
    this.#port.unref()
  }

  /** `true` if the worker has made its transport, and has not ended. */
  get isReady(): boolean {
    return this.#isReady && !this.#hasEnded
  }

  /** @returns `false` if the message cannot be copied. */
  post(message: ToWorker): boolean {
    try {
      this.#port.postMessage(message)
      return true
    } catch {
      return false
    }
  }

  /** Ends the worker. */
  end(): void {
    this.#hasEnded = true
    this.#startTimer.clear()
    this.#port.close()
    void this.#worker.terminate()
  }

  #receive(message: unknown): void {
    if (this.#hasEnded || !isRecord(message)) return
    if (message.type === 'failed') {
      this.#cause = readError(message.error)
      this.#stop(this.#cause)
    } else if (message.type !== 'ready') {
      this.#events.received(message)
    } else if (!this.#isReady) {
      this.#isReady = true
      this.#startTimer.clear()
      this.#events.ready()
    }
  }

  /** Ends a worker that has stopped, or that must stop. @param cause the reason if no other is known. */
  #stop(cause: Error): void {
    if (this.#hasEnded) return
    // The worker may have sent outcomes, or why it could not start, immediately before its end.
    for (
      let last = receiveMessageOnPort(this.#port);
      last !== undefined;
      last = receiveMessageOnPort(this.#port)
    ) {
      if (!isRecord(last.message)) continue
      if (last.message.type === 'failed') this.#cause = readError(last.message.error)
      else if (last.message.type === 'settled') this.#events.received(last.message)
    }
    this.end()
    this.#events.stopped(this.#cause ?? cause)
  }
}
