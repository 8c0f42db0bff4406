import { setLongTimeout } from '../../../base/timers.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import type { Attempt, Failure, Outcome } from '../queue/batch-queue-options.ts'
import { readStreamFailure, type StreamClient, type StreamFailure } from './store-stream-client.ts'

/** The maximum number of entries in a transaction. */
const MAX_BATCH = 200

/** The maximum number of attempts for entries that fail for an unknown reason. */
const MAX_UNKNOWN_FAILURES = 4

/** The time that a connected client may take for a reply, and the time between two checks, in milliseconds. */
const MAX_REPLY_MS = 10_000
const CHECK_MS = 500

/** The time that events wait for Redis after the transport was shut down, in milliseconds. */
const CLOSING_MS = 30_000

/**
 * Writes batches of entries to the stream, for an ordered queue that sends one batch at a time. A batch is a transaction, so the
 * stream contains all of its entries or none. If the connection is lost during a batch, or if the client never settles its
 * command, the batch is written again, although it may be in the stream.
 */
export class StreamWriter {
  readonly #client: StreamClient
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
    let replies: readonly unknown[]
    try {
      replies = await this.#add(batch)
    } catch (error) {
      return this.#outcomeOf(readStreamFailure(error))
    }
    if (this.#transactions === 'untried') this.#transactions = 'yes'
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

  #outcomeOf(failure: StreamFailure): Outcome {
    const { kind } = failure
    if (kind === 'refused') return { result: 'failed', failure: describe(failure) }
    // If only MULTI was rejected, Redis has added the entry after it, which is written again.
    if (kind === 'no-transactions') this.#transactions = 'no'
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
