import type { PendingWork } from '../../delivery/pending-work.ts'
import { type Batch, failureError, type Queued } from './batch.ts'
import type { Failure } from './batch-queue-options.ts'

/** Reports the outcomes of items. */
export class ItemOutcomes {
  readonly #type: string
  readonly #work: PendingWork

  /**
   * @param type the type of the transport, for errors.
   * @param work counts the items until they have settled.
   */
  constructor(type: string, work: PendingWork) {
    this.#type = type
    this.#work = work
  }

  /** @param rejected the items of the batch that have failed, by their index. */
  deliver({ queued, attempts }: Batch<unknown>, rejected: ReadonlyMap<number, Failure> | undefined): void {
    const failed = new Map<Failure, Queued<unknown>[]>()
    for (const [index, one] of queued.entries()) {
      const failure = rejected?.get(index)
      if (failure === undefined) {
        this.#work.settle(one.generation)
        one.outcome.delivered()
      } else {
        const others = failed.get(failure)
        if (others === undefined) failed.set(failure, [one])
        else others.push(one)
      }
    }
    for (const [failure, ones] of failed) this.fail(ones, failure, attempts)
  }

  /** @param budgetIsSpent whether the retry budget of the items has ended. */
  fail(queued: readonly Queued<unknown>[], failure: Failure, attempts: number, budgetIsSpent = false): void {
    const error = failureError(this.#type, failure, queued.length, attempts, budgetIsSpent)
    for (const { generation, outcome } of queued) {
      this.#work.settle(generation)
      outcome.failed(error)
    }
  }
}
