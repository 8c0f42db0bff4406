import type { Generation, PendingWork } from './pending-work.ts'
import type { EventOutcome } from './transport.ts'

/** A pending event of a transport, which reports its outcome. */
export class CountedEvent implements EventOutcome {
  readonly #channel: Settling
  readonly #work: PendingWork
  readonly #generation: Generation
  readonly #session: PendingWork | undefined
  readonly #sessionGeneration: Generation | undefined
  /** Its size in memory. */
  readonly bytes: number

  /** @param session the pending events of its session. */
  constructor(channel: Settling, work: PendingWork, session: PendingWork | undefined, bytes: number) {
    this.bytes = bytes
    this.#channel = channel
    this.#work = work
    this.#generation = work.add()
    this.#session = session
    this.#sessionGeneration = session?.add()
  }

  /** Ends its counting as pending. */
  release(): void {
    this.#work.settle(this.#generation)
    if (this.#sessionGeneration !== undefined) this.#session?.settle(this.#sessionGeneration)
  }

  delivered(): void {
    this.#channel.settle(this)
  }

  /** The failure is reported later, because loggers may emit events, and a transport may be in the middle of its work. */
  failed(cause: unknown): void {
    queueMicrotask(() => this.#channel.settle(this, { cause }))
  }
}

/** Counts an event that has settled. */
interface Settling {
  settle(event: CountedEvent, failure?: { readonly cause: unknown }): void
}
