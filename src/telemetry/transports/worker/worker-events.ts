import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { readError } from './worker-errors.ts'
import { EventState, type EventStates, type NumberedEvent, type ToWorker } from './worker-program.ts'

/** The number of workers, beyond `retries`, that may stop one after the other without beginning an event. */
const MAX_IDLE_STOPS = 2

/** The number of states that are shared with a worker at a time. A batch of more events has its own. */
const STATES = 1_024

/** An event without an outcome. */
interface PendingEvent {
  readonly event: NumberedEvent
  readonly resolve: () => void
  readonly reject: (error: Error) => void
  /** The states that contain its state at `index`, if the current worker has received it. */
  states: EventStates | undefined
  index: number
  /** `true` if it may have stopped a worker. It is then sent alone. */
  isSuspect: boolean
  /** The number of workers that have stopped while they handled only this event. */
  stops: number
}

/** Sends a message to the worker. @returns `false` if it cannot be copied. */
export type SendToWorker = (message: ToWorker) => boolean

/**
 * The events without an outcome, in their order. If a worker stops, the state of each event is known. Only events that were begun
 * can have stopped it. If there is one, it has. If there are several, each of them is sent alone to the next worker.
 */
export class WorkerEvents {
  readonly #retries: number
  readonly #pending = new Map<number, PendingEvent>()
  /** The pending events that the current worker has not received. */
  #unsent: PendingEvent[] = []
  /** The suspect that the current worker handles. */
  #alone: PendingEvent | undefined
  #lastNumber = 0
  /** The states of the latest events that the current worker has received, and how many of them are used. */
  #states = newStates(0)
  #used = 0
  #stopsInARow = 0
  #idleStops = 0

  constructor(retries: number) {
    this.#retries = retries
  }

  get size(): number {
    return this.#pending.size
  }

  /** `true` if the current worker has received all events. */
  get areSent(): boolean {
    return this.#unsent.length === 0
  }

  /** `true` while the current worker handles an event that may stop it. No other event is sent then. */
  get isAlone(): boolean {
    return this.#alone !== undefined
  }

  /** The number of workers that have stopped since an event was delivered. */
  get stopsInARow(): number {
    return this.#stopsInARow
  }

  add(envelope: TelemetryEnvelope, emittedAtMs: number | undefined): Promise<void> {
    const number = ++this.#lastNumber
    return new Promise((resolve, reject) => {
      const pending: PendingEvent = {
        event: [number, envelope, emittedAtMs],
        resolve,
        reject,
        states: undefined,
        index: 0,
        isSuspect: false,
        stops: 0,
      }
      this.#pending.set(number, pending)
      this.#unsent.push(pending)
    })
  }

  /**
   * Sends the next suspect, or else all events. Suspects are the oldest events.
   * @param cannotCopy makes the error of an event that cannot be copied.
   */
  send(send: SendToWorker, cannotCopy: () => Error): void {
    if (this.#alone !== undefined || this.#unsent.length === 0) return
    if (this.#unsent[0]?.isSuspect === true) {
      const [suspect] = this.#unsent.splice(0, 1) as [PendingEvent]
      this.#alone = suspect
      this.#sendBatch([suspect], send)
      // A transport that collects events would otherwise wait for events that come only after this one.
      send({ type: 'flush', call: 0 })
      return
    }
    const events = this.#unsent
    this.#unsent = []
    if (this.#sendBatch(events, send)) return
    for (const pending of events) {
      if (!this.#sendBatch([pending], send)) this.#fail(pending, cannotCopy())
    }
  }

  /** Settles the events of a message of the worker, of which nothing is certain. */
  settle({ delivered, failed }: Readonly<Record<string, unknown>>): void {
    if (Array.isArray(delivered)) {
      for (const number of delivered) {
        const pending = this.#pending.get(number)
        if (pending?.states !== undefined) this.#deliver(pending)
      }
    }
    if (!Array.isArray(failed)) return
    for (const entry of failed) {
      const pending = Array.isArray(entry) ? this.#pending.get(entry[0]) : undefined
      if (pending?.states !== undefined) this.#fail(pending, readError(entry[1]))
    }
  }

  /** Settles the events whose outcome is known although the worker has stopped. The others are sent again, or fail. */
  workerStopped(error: Error): void {
    this.#alone = undefined
    this.#states = newStates(0)
    this.#used = 0
    const begun: PendingEvent[] = []
    const events = [...this.#pending.values()]
    for (const pending of events) {
      const state = pending.states?.[pending.index]
      pending.states = undefined
      if (state === EventState.delivered) this.#deliver(pending)
      else if (state === EventState.failed) this.#fail(pending, error)
      else if (state === EventState.begun) begun.push(pending)
    }
    this.#stopsInARow++
    this.#idleStops = begun.length === 0 ? this.#idleStops + 1 : 0
    for (const pending of begun) {
      pending.isSuspect = true
      if (begun.length === 1 && ++pending.stops > this.#retries) this.#fail(pending, error)
    }
    if (this.#idleStops > this.#retries + MAX_IDLE_STOPS) this.failAll(error)
    this.#unsent = [...this.#pending.values()]
  }

  failAll(error: Error): void {
    for (const pending of [...this.#pending.values()]) this.#fail(pending, error)
    this.#unsent = []
  }

  #sendBatch(events: readonly PendingEvent[], send: SendToWorker): boolean {
    const first = this.#used
    const isNew = first + events.length > this.#states.length
    const states = isNew ? newStates(Math.max(events.length, STATES)) : this.#states
    const start = isNew ? 0 : first
    const batch = { type: 'events', events: events.map(({ event }) => event), start } as const
    if (!send(isNew ? { ...batch, states } : batch)) return false
    this.#states = states
    this.#used = start + events.length
    for (const [index, pending] of events.entries()) {
      pending.states = states
      pending.index = start + index
    }
    return true
  }

  #deliver(pending: PendingEvent): void {
    this.#stopsInARow = 0
    this.#remove(pending)
    pending.resolve()
  }

  #fail(pending: PendingEvent, error: Error): void {
    this.#remove(pending)
    pending.reject(error)
  }

  #remove(pending: PendingEvent): void {
    this.#idleStops = 0
    if (this.#alone === pending) this.#alone = undefined
    this.#pending.delete(pending.event[0])
  }
}

function newStates(length: number): EventStates {
  return new Uint8Array(new SharedArrayBuffer(length))
}
