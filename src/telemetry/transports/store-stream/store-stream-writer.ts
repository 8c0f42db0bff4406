import { setLongTimeout } from '../../../timers.ts'
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

  /** Never rejects, unless the state of the client cannot be read. */
  async write(batch: readonly TelemetryEnvelope[], { flushing }: Attempt): Promise<Outcome> {
    const state = this.#stateOfClient()
    if (state === 'closed' && flushing) {
      const reason = 'the application has closed the client'
      return { result: 'stop', forGood: false, failure: { reason } }
    }
    if (state !== 'ready') return unavailable('Redis is unavailable')
    if (this.#unsure !== undefined && this.#unsure === batch[0]) {
      const found = await this.#findOut(batch)
      if (found !== undefined) return found
    }
    this.#unsure = undefined
    if (batch.length > this.maxItems)
      return { result: 'split', failure: { reason: 'Redis no longer allows transactions' } }
    return await this.#send(batch)
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
    if (wasLost() && ids.length === batch.length) await this.#removeCopy(batch, ids)
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
   * @throws {Error} if there is none after 10 s in which the client was connected.
   */
  #reply<Reply>(reply: Promise<Reply>): Promise<Reply> {
    return new Promise((resolve, reject) => {
      let waitedMs = 0
      const check = () => {
        waitedMs = this.#stateOfClient() === 'away' ? 0 : waitedMs + CHECK_MS
        if (waitedMs < MAX_REPLY_MS) timer = setLongTimeout(check, CHECK_MS)
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

  /** Looks for the batch in the stream. @returns `undefined` if it must be sent again. */
  async #findOut(batch: readonly TelemetryEnvelope[]): Promise<Outcome | undefined> {
    try {
      const id = await this.#find(batch)
      if (id === undefined) return undefined
      this.#unsure = undefined
      this.#lastId = id
      return { result: 'delivered' }
    } catch (error) {
      const { kind } = readStreamFailure(error)
      // If the client may not read, adding the batch twice is better than losing it.
      return kind === 'lost' || kind === 'busy' ? unavailable('Redis is unavailable') : undefined
    }
  }

  /**
   * Removes a second copy. ioredis sends pending commands again after a connection loss (`autoResendUnfulfilledCommands`),
   * even if the first command succeeded.
   */
  async #removeCopy(batch: readonly TelemetryEnvelope[], ids: readonly string[]): Promise<void> {
    try {
      const original = await this.#find(batch, ids[0])
      if (original !== undefined) await this.#reply(Promise.resolve(this.#client.remove?.(ids)))
    } catch {
      // The copy stays.
    }
  }

  /**
   * Returns the id of the last entry of `batch` if it is in the stream, after the latest known entry and before `before`.
   * Its other entries are then in the stream too, unless Redis has trimmed them.
   */
  async #find(batch: readonly TelemetryEnvelope[], before = '+'): Promise<string | undefined> {
    const { newest } = this.#client
    if (newest === undefined) return undefined
    const last = JSON.stringify(batch.at(-1))
    const after = this.#lastId
    let end = before
    for (let left = batch.length + LOOK_BACK; left > 0; left -= PAGE) {
      // Both ends are part of the page.
      const page = await this.#reply(newest(end, after ?? '-', PAGE + 1))
      const found = page.find(({ id, event }) => event === last && id !== end && id !== after)
      if (found !== undefined || page.length <= PAGE) return found?.id
      end = page.at(-1)?.id ?? end
    }
    return undefined
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
