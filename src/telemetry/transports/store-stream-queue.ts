import { AsyncResource } from 'node:async_hooks'
import { KitTelemetryError } from '../errors.ts'
import {
  readStreamFailure,
  type StreamClient,
  type StreamFailure,
  type StreamFields,
} from './store-stream-client.ts'

const MAX_BATCH = 200
/** A batch is closed by the entry that makes it larger than this, in UTF-16 units of JSON. */
const MAX_BATCH_LENGTH = 1_000_000
const AWAY_PAUSE_MS = 50
const FIRST_BACKOFF_MS = 50
const MAX_BACKOFF_MS = 1_000
/** How often entries are tried that failed for a reason nobody knows. */
const MAX_UNKNOWN_FAILURES = 4
/** How long after `close` a store that is away may still come back. */
const CLOSING_MS = 30_000
/** How many entries of others may have come after a batch before it is no longer found. */
const LOOK_BACK = 1_000

interface Entry {
  readonly fields: StreamFields
  readonly settled: Promise<void>
  readonly delivered: () => void
  readonly failed: (error: KitTelemetryError) => void
}

/**
 * Brings entries into the stream in their order, one batch under way at a time, and keeps them while the store is away.
 *
 * A batch is a transaction: it is in the stream whole or not at all. When the connection breaks while it is under way,
 * the end of the stream is read to find out which, before it is sent again.
 */
export class StreamQueue {
  readonly #client: StreamClient
  readonly #start: () => void
  #entries: Entry[] = []
  #running = false
  #waiting = 0
  #wake: (() => void) | undefined
  #failuresInARow = 0
  #unknownFailures = 0
  /** Of the latest entry that is known to be in the stream. */
  #lastId: string | undefined
  /** The batch that may be in the stream or not. */
  #unsure: readonly Entry[] | undefined
  /** Whether Redis lets this client use transactions; found out with one entry. */
  #transactions: 'untried' | 'yes' | 'no'

  constructor(client: StreamClient) {
    this.#client = client
    this.#transactions = client.addAll === undefined ? 'no' : 'untried'
    // What it sends belongs to no request, even if a request's event was the first.
    this.#start = AsyncResource.bind(() => void this.#run())
  }

  /** Resolves when the stream has the entry; rejects when it never will. */
  add(fields: StreamFields): Promise<void> {
    let delivered = () => {}
    let failed: Entry['failed'] = () => {}
    const settled = new Promise<void>((resolve, reject) => {
      delivered = resolve
      failed = reject
    })
    this.#entries.push({ fields, settled, delivered, failed })
    if (!this.#running) {
      this.#running = true
      this.#start()
    }
    return settled
  }

  /** Resolves when everything added so far is in the stream or has failed. */
  async flush(): Promise<void> {
    const last = this.#entries.at(-1)
    if (last === undefined) return
    this.#waiting++
    this.#wake?.()
    await last.settled.then(undefined, () => {})
    this.#waiting--
  }

  /** As `flush`; what a store that stays away has not taken after 30 s has failed. Nothing may be added afterwards. */
  async close(): Promise<void> {
    const timer = setTimeout(() => {
      this.#failAll('Redis stayed away after the transport was shut down')
      this.#wake?.()
    }, CLOSING_MS).unref()
    await this.flush()
    clearTimeout(timer)
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    // What is emitted in the same tick goes together.
    await undefined
    while (this.#entries.length > 0) {
      try {
        await this.#step()
      } catch {
        // Not even its state can be read.
        await this.#backOff()
      }
    }
    this.#running = false
  }

  async #step(): Promise<void> {
    const state = this.#client.state()
    if (state === 'closed' && this.#waiting > 0) {
      this.#failAll('the application has closed the client, so that nothing can be sent any more')
    } else if (state !== 'ready') {
      await this.#pause(AWAY_PAUSE_MS)
    } else if (this.#unsure !== undefined) {
      await this.#findOut(this.#unsure)
    } else {
      await this.#send(this.#nextBatch())
    }
  }

  #nextBatch(): readonly Entry[] {
    if (this.#transactions !== 'yes') return this.#entries.slice(0, 1)
    let length = 0
    const end = this.#entries.findIndex(({ fields }, index) => {
      if (index === MAX_BATCH || length > MAX_BATCH_LENGTH) return true
      length += fields.event.length
      return false
    })
    return this.#entries.slice(0, end === -1 ? this.#entries.length : end)
  }

  async #send(batch: readonly Entry[]): Promise<void> {
    const wasLost = this.#client.watch()
    let replies: readonly unknown[]
    try {
      replies = await this.#write(batch)
    } catch (error) {
      wasLost()
      await this.#sendingFailed(batch, readStreamFailure(error))
      return
    }
    if (this.#transactions === 'untried') this.#transactions = 'yes'
    this.#failuresInARow = 0
    this.#unknownFailures = 0
    const ids = replies.filter((reply) => typeof reply === 'string')
    if (wasLost() && ids.length === batch.length) await this.#removeCopy(batch, ids)
    this.#lastId = ids.at(-1) ?? this.#lastId
    for (const [index, entry] of batch.entries()) {
      const reply = replies[index]
      if (reply instanceof Error) entry.failed(describe(readStreamFailure(reply)))
      else entry.delivered()
    }
    this.#forget(batch)
  }

  async #write(batch: readonly Entry[]): Promise<readonly unknown[]> {
    const { addAll } = this.#client
    if (addAll !== undefined && this.#transactions !== 'no')
      return await addAll(batch.map(({ fields }) => fields))
    return await Promise.all(batch.map(async ({ fields }) => await this.#client.add(fields)))
  }

  async #sendingFailed(batch: readonly Entry[], failure: StreamFailure): Promise<void> {
    const { kind } = failure
    if (kind === 'refused' || (kind === 'unknown' && ++this.#unknownFailures >= MAX_UNKNOWN_FAILURES)) {
      this.#unknownFailures = 0
      this.#fail(batch, describe(failure))
      return
    }
    if (kind === 'no-transactions') this.#transactions = 'no'
    // Where MULTI alone was refused, the entries behind it were taken.
    if (kind !== 'busy') this.#unsure = batch
    if (kind === 'busy' || kind === 'unknown' || this.#failuresInARow > 0) await this.#backOff()
    else this.#failuresInARow++
  }

  /** Settles a batch that is in the stream after all; leaves another one to be sent again. */
  async #findOut(batch: readonly Entry[]): Promise<void> {
    let id: string | undefined
    try {
      id = await this.#find(batch)
    } catch (error) {
      const { kind } = readStreamFailure(error)
      if (kind === 'lost' || kind === 'busy') {
        await this.#backOff()
        return
      }
      // It may not read. Twice is better than never.
    }
    this.#unsure = undefined
    if (id === undefined) return
    this.#lastId = id
    for (const { delivered } of batch) delivered()
    this.#forget(batch)
  }

  /**
   * ioredis by itself sends again what was under way when the connection broke (`autoResendUnfulfilledCommands`). If the
   * first time had succeeded, what the second time added is taken out.
   */
  async #removeCopy(batch: readonly Entry[], ids: readonly string[]): Promise<void> {
    try {
      const original = await this.#find(batch, ids[0])
      if (original !== undefined) await this.#client.remove?.(ids)
    } catch {
      // The copy stays.
    }
  }

  /**
   * The id of the last entry of `batch`, if it is in the stream, after what is known and before `before`. Where it is, all
   * of them are or were: the first of them may have been trimmed again.
   */
  async #find(batch: readonly Entry[], before?: string): Promise<string | undefined> {
    const last = batch.at(-1)?.fields.event
    const stored = await this.#client.newest?.(batch.length + LOOK_BACK)
    return stored?.find(
      ({ id, event }) =>
        event === last &&
        (this.#lastId === undefined || compareIds(id, this.#lastId) > 0) &&
        (before === undefined || compareIds(id, before) < 0),
    )?.id
  }

  #failAll(reason: string): void {
    this.#unsure = undefined
    this.#fail(this.#entries, failed(reason))
  }

  #fail(batch: readonly Entry[], error: KitTelemetryError): void {
    for (const entry of batch) entry.failed(error)
    this.#forget(batch)
  }

  /** Takes the first entries away, unless `failAll` has done so meanwhile. */
  #forget(batch: readonly Entry[]): void {
    if (this.#entries[0] === batch[0]) this.#entries = this.#entries.slice(batch.length)
  }

  #backOff(): Promise<void> {
    return this.#pause(Math.min(FIRST_BACKOFF_MS * 2 ** this.#failuresInARow++, MAX_BACKOFF_MS))
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer)
        this.#wake = undefined
        resolve()
      }
      const timer = setTimeout(wake, delayMs).unref()
      this.#wake = wake
    })
  }
}

/** Ids are `<milliseconds>-<sequence>`. */
function compareIds(a: string, b: string): number {
  const [aTime = '', aSequence = ''] = a.split('-')
  const [bTime = '', bSequence = ''] = b.split('-')
  return aTime === bTime ? Number(aSequence) - Number(bSequence) : Number(aTime) - Number(bTime)
}

/** The client's own error is not kept: that of ioredis holds the command, and so the event. */
function describe({ kind, code }: StreamFailure): KitTelemetryError {
  return kind === 'unknown'
    ? failed('adding to the stream failed again and again, with an error that is none of Redis')
    : failed(`Redis refused it with ${code}${adviceFor(code)}`, code)
}

function adviceFor(code: string | undefined): string {
  if (code === 'WRONGTYPE') return ' (the key given as stream holds something else than a stream)'
  if (code === 'NOPERM') return ' (the user of the store may not XADD to this stream)'
  if (code === 'NOAUTH' || code === 'WRONGPASS') return ' (check the credentials of the store)'
  return ''
}

function failed(reason: string, code?: string): KitTelemetryError {
  return new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport "store-stream": ${reason}; the event is lost`,
    code === undefined ? {} : { details: { code } },
  )
}
