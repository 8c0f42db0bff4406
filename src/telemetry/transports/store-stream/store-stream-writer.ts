import { setLongTimeout } from '../../../base/timers.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import type { Attempt, Failure, Outcome } from '../queue/batch-queue-options.ts'
import { readStreamFailure, type StreamClient, type StreamFailure } from './store-stream-client.ts'

/** The maximum number of entries in a transaction. */
const MAX_BATCH = 200

/** The maximum number of attempts for entries that fail for an unknown reason. */
const MAX_UNKNOWN_FAILURES = 4

/** The number of later entries of other writers among which a batch is still found. */
const LOOK_BACK = 1_000

/** The number of entries that are read at a time, because each of them may be large. */
const PAGE = 20

/** The time that a connected client may take for a reply, and the time between two checks, in milliseconds. */
const MAX_REPLY_MS = 10_000
const CHECK_MS = 500

/** The time that events wait for Redis after the transport was shut down, in milliseconds. */
const CLOSING_MS = 30_000

/**
 * Writes batches of entries to the stream, for an ordered queue that sends one batch at a time.
 *
 * A batch is a transaction, so the stream contains all of its entries or none. If the connection is lost during a batch, or if
 * the client never settles its command, the next attempt reads the end of the stream first, to find out whether the batch is
 * in it.
 */
export class StreamWriter {
  readonly #client: StreamClient
  /** The latest entry that is known to be in the stream. */
  #lastId: string | undefined
  /** The first entry of the batch that may be in the stream. */
  #unsure: TelemetryEnvelope | undefined
  /** When waiting events fail, because the transport was shut down. */
  #closedAtMs = Number.POSITIVE_INFINITY
  /** The state of transactions for this client. The first entry is sent on its own to find out. */
  #transactions: 'untried' | 'yes' | 'no'

  constructor(client: StreamClient) {
    this.#client = client
    this.#transactions = client.addAll === undefined ? 'no' : 'untried'
  }

  /** The maximum number of entries that can be written together. */
  get maxItems(): number {
    return this.#transactions === 'yes' ? MAX_BATCH : 1
  }

  /** Fails the events that are not written in time. */
  close(): void {
    this.#closedAtMs = Math.min(this.#closedAtMs, performance.now() + CLOSING_MS)
  }

  /** Never rejects, unless the state of the client cannot be read. */
  async write(batch: readonly TelemetryEnvelope[], { flushing }: Attempt): Promise<Outcome> {
    if (this.#isClosed) {
      const reason = 'Redis stayed unavailable after the transport was shut down'
      return { result: 'stop', forGood: false, failure: { reason } }
    }
    const state = this.#stateOfClient()
    if (state === 'closed' && flushing) {
      const reason = 'the application has closed the client'
      return { result: 'stop', forGood: false, failure: { reason } }
    }
    if (state !== 'ready') return unavailable('Redis is unavailable')
    if (this.#unsure === batch[0]) {
      const found = await this.#findOut(batch)
      if (found !== undefined) return found
    }
    this.#unsure = undefined
    if (batch.length > this.maxItems)
      return { result: 'split', failure: { reason: 'Redis no longer allows transactions' } }
    return await this.#send(batch)
  }

  get #isClosed(): boolean {
    return performance.now() >= this.#closedAtMs
  }

  #stateOfClient(): ReturnType<StreamClient['state']> {
    try {
      return this.#client.state()
    } catch {
      return 'away'
    }
  }

  async #send(batch: readonly TelemetryEnvelope[]): Promise<Outcome> {
    const wasLost = this.#client.watch()
    let replies: readonly unknown[]
    try {
      replies = await this.#add(batch)
    } catch (error) {
      wasLost()
      return this.#outcomeOf(readStreamFailure(error), batch)
    }
    if (this.#transactions === 'untried') this.#transactions = 'yes'
    const ids = replies.filter((reply) => typeof reply === 'string')
    if (wasLost() && ids.length === batch.length) {
      const outcome = await this.#findOut(batch)
      if (outcome !== undefined) return outcome
    }
    this.#lastId = ids.at(-1) ?? this.#lastId
    const rejected = new Map<number, Failure>()
    for (const [index, reply] of replies.entries())
      if (reply instanceof Error) rejected.set(index, describe(readStreamFailure(reply)))
    return { result: 'delivered', rejected }
  }

  async #add(batch: readonly TelemetryEnvelope[]): Promise<readonly unknown[]> {
    const { addAll } = this.#client
    const added =
      addAll !== undefined && this.#transactions !== 'no'
        ? addAll(batch)
        : Promise.all(batch.map(async (envelope) => await this.#client.add(envelope)))
    return await this.#reply(added)
  }

  /**
   * Waits for the reply to a command. Some clients never settle a command if the connection was lost.
   * @throws {Error} if there is none after 10 s in which the client was connected, or when waiting events fail.
   */
  #reply<Reply>(reply: Promise<Reply>): Promise<Reply> {
    return new Promise((resolve, reject) => {
      let waitedMs = 0
      const check = () => {
        waitedMs = this.#stateOfClient() === 'away' ? 0 : waitedMs + CHECK_MS
        if (waitedMs < MAX_REPLY_MS && !this.#isClosed) timer = setLongTimeout(check, CHECK_MS)
        else reject(new Error('The command has timed out'))
      }
      let timer = setLongTimeout(check, CHECK_MS)
      reply.then(resolve, reject).finally(() => timer.clear())
    })
  }

  #outcomeOf(failure: StreamFailure, batch: readonly TelemetryEnvelope[]): Outcome {
    const { kind } = failure
    if (kind === 'refused') return { result: 'failed', failure: describe(failure) }
    if (kind === 'no-transactions') this.#transactions = 'no'
    // If only MULTI was rejected, Redis has added the entries after it.
    if (kind !== 'busy') this.#unsure = batch[0]
    if (kind === 'unknown')
      return { result: 'retry', failure: describe(failure), maxAttempts: MAX_UNKNOWN_FAILURES }
    return kind === 'no-transactions'
      ? { result: 'retry', failure: describe(failure), waitMs: 0 }
      : unavailable(
          kind === 'lost'
            ? 'the connection to Redis was lost'
            : 'Redis does not accept entries at the moment',
        )
  }

  /**
   * Looks for the batch in the stream, and removes all copies of it but one. ioredis sends pending commands again after each
   * connection loss (`autoResendUnfulfilledCommands`), even if the earlier ones succeeded.
   * @returns `undefined` if the stream does not contain the batch.
   */
  async #findOut(batch: readonly TelemetryEnvelope[]): Promise<Outcome | undefined> {
    try {
      const copies = await this.#copiesOf(batch)
      // Redis may have trimmed the beginning of the oldest copy.
      const kept = copies.findLast(({ length }) => length === batch.length) ?? copies.at(-1)
      if (kept === undefined) return undefined
      const others = copies.filter((copy) => copy !== kept).flat()
      if (others.length > 0) await this.#reply(Promise.resolve(this.#client.remove?.(others)))
      this.#unsure = undefined
      this.#lastId = kept[0]
      return { result: 'delivered' }
    } catch (error) {
      const { kind } = readStreamFailure(error)
      // If the client may not read or remove, adding the batch twice is better than losing it.
      if (kind !== 'lost' && kind !== 'busy') return undefined
      this.#unsure = batch[0]
      return unavailable('Redis is unavailable')
    }
  }

  /** Returns the ids of each copy of `batch` after the latest known entry, the latest first. */
  async #copiesOf(batch: readonly TelemetryEnvelope[]): Promise<string[][]> {
    const { newest } = this.#client
    const copies: string[][] = []
    if (newest === undefined) return copies
    const events = batch.map((envelope) => JSON.stringify(envelope)).reverse()
    const after = this.#lastId
    let copy: string[] = []
    let end = '+'
    let left = batch.length + LOOK_BACK
    for (; left > 0; left -= PAGE) {
      // Both ends are part of the page.
      const page = await this.#reply(newest(end, after ?? '-', PAGE + 1))
      for (const { id, event } of page) {
        if (id === end || id === after) continue
        if (event !== events[copy.length]) copy = []
        if (event !== events[copy.length]) continue
        copy.push(id)
        if (copy.length < batch.length) continue
        copies.push(copy)
        copy = []
        left += batch.length
      }
      if (page.length <= PAGE) break
      end = page.at(-1)?.id ?? end
    }
    return copy.length > 0 ? [...copies, copy] : copies
  }
}

/** Returns the outcome if nothing can be written at the moment. */
function unavailable(reason: string): Outcome {
  return { result: 'retry', targetDown: true, failure: { reason } }
}

/** Returns the failure without the error of the client, because that of ioredis contains the command with the event. */
function describe({ kind, code }: StreamFailure): Failure {
  return kind === 'unknown'
    ? { reason: 'adding to the stream failed with an unknown error' }
    : {
        reason: `Redis responded with ${code}${adviceFor(code)}`,
        ...(code !== undefined && { details: { code } }),
      }
}

function adviceFor(code: string | undefined): string {
  if (code === 'WRONGTYPE') return ' (the key in the option stream does not contain a stream)'
  if (code === 'NOPERM') return ' (the user of the client may not use XADD on this stream)'
  if (code === 'NOAUTH' || code === 'WRONGPASS') return ' (check the credentials of the store)'
  return ''
}
