import { counted } from '../../../options/counted.ts'
import type { Generation } from '../../delivery/pending-work.ts'
import type { EventOutcome } from '../../delivery/transport.ts'
import { KitTelemetryError } from '../../errors.ts'
import type { Failure } from './batch-queue-options.ts'

/** An item of the queue. */
export interface Queued<Item> {
  readonly item: Item
  readonly weight: number
  readonly addedMs: number
  readonly generation: Generation
  readonly outcome: EventOutcome
}

/** Items that are sent together. */
export interface Batch<Item> {
  readonly queued: readonly Queued<Item>[]
  readonly weight: number
  attempts: number
  /** The attempts whose outcome had a `maxAttempts`. */
  limitedAttempts: number
  /** The end of its retry budget. */
  deadlineMs: number
  /** When its next attempt is due. */
  dueMs: number
  /** When its next attempt is due while a caller flushes. */
  flushingDueMs: number
  failure: Failure | undefined
}

export function newBatch<Item>(queued: readonly Queued<Item>[], dueMs: number): Batch<Item> {
  return {
    queued,
    weight: queued.reduce((sum, { weight }) => sum + weight, 0),
    attempts: 0,
    limitedAttempts: 0,
    deadlineMs: Number.POSITIVE_INFINITY,
    dueMs,
    flushingDueMs: dueMs,
    failure: undefined,
  }
}

/**
 * Returns the error of items that have failed.
 * @param type the type of the transport.
 * @param budgetIsSpent whether the retry budget of the batch has ended.
 */
export function failureError(
  type: string,
  { reason, cause, details }: Failure,
  events: number,
  attempts: number,
  budgetIsSpent = false,
): KitTelemetryError {
  const often = budgetIsSpent
    ? `, ${counted(attempts, 'time')} until retryBudgetMs was spent`
    : attempts > 1
      ? ` in the last of ${attempts} attempts`
      : ''
  const lost = `${counted(events, 'event')} ${events === 1 ? 'is' : 'are'} lost`
  return new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport ${JSON.stringify(type)}: ${reason}${often}; ${lost}`,
    {
      ...(cause === undefined ? {} : { cause }),
      details: { events, ...(attempts === 0 ? {} : { attempts }), ...details },
    },
  )
}
