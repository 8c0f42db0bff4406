import type { ServerContext } from '@modelcontextprotocol/server'
import { utf8Length } from '../../base/runtime.ts'
import type { Exchange } from '../wire/exchange.ts'
import { cursorText, type EventCore, type Requested } from './event-core.ts'
import { invalidParams, type Params, wholeNumberOf } from './event-params.ts'
import type { Position } from './store.ts'

/** The interval of heartbeats on a stream (SEP-3415: at least every 30 s). */
const HEARTBEAT_MS = 15_000
/**
 * The time for which a subscription without a webhook is known after it was last polled or its stream has sent a heartbeat. An event
 * that is for some arguments only reaches the subscriptions that are known.
 */
const LEASE_MS = 3_600_000
const NEXT_POLL_MS = 5_000
const MAX_EVENTS = 500
const DEFAULT_EVENTS = 100

/** The maximum size of the id of a stream as JSON, in bytes. `emit` leaves room for it in the 256 KiB of a delivery. */
const MAX_ID_BYTES = 512
const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId'

/** A subscription that is being read. */
interface Reading extends Requested {
  /** The position after which events are read. */
  readonly from: Position
  /** `true` if events may have been sent that the subscription did not get, because it was not known. */
  readonly isLate: boolean
}

/** Serves `events/poll` and `events/stream`. */
export class EventReaders {
  readonly #core: EventCore
  /** Functions that wake the streams. */
  readonly #waking = new Set<() => void>()
  #isClosed = false

  constructor(core: EventCore) {
    this.#core = core
  }

  /** Serves `events/poll`. */
  async poll(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    const maxEvents = Math.min(wholeNumberOf(params, 'maxEvents', 1) ?? DEFAULT_EVENTS, MAX_EVENTS)
    const reading = await this.#begin(exchange, params, sdk, 'poll')
    let page = await this.#core.page(reading.record, reading.from, maxEvents, reading.maxAgeMs)
    for (const event of page.events) {
      const refusal = await this.#core.refusal(reading, event)
      if (refusal === undefined) continue
      if (refusal !== 'unavailable') throw await this.#core.terminated(reading.record, refusal)
      const events = page.events.slice(0, page.events.indexOf(event))
      page = { ...page, events, position: event.position - 1, hasMore: false }
      break
    }
    this.#core.ledger.delivered.poll += page.events.length
    return {
      events: page.events.map(({ body }) => JSON.parse(body)),
      cursor: cursorText(page.position),
      truncated: page.truncated || reading.isLate,
      hasMore: page.hasMore,
      nextPollMs: NEXT_POLL_MS,
    }
  }

  /**
   * Serves `events/stream`, until the client leaves, the token expires or no longer permits the events, or the adapter is
   * closed.
   */
  async stream(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    if (utf8Length(JSON.stringify(sdk.mcpReq.id)) > MAX_ID_BYTES)
      throw invalidParams(`the id of a stream must have at most ${MAX_ID_BYTES} bytes as JSON`)
    const reading = await this.#begin(exchange, params, sdk, 'stream')
    const { ledger } = this.#core
    ledger.streams++
    try {
      await this.#send(reading, sdk)
    } catch (error) {
      // Nothing can be sent to a client that has left.
      if (!signalOf(exchange, sdk).aborted) throw error
    } finally {
      ledger.streams--
    }
    return { _meta: { [SUBSCRIPTION_ID]: sdk.mcpReq.id } }
  }

  /** Ends all streams. */
  close(): void {
    this.#isClosed = true
    for (const wake of this.#waking) wake()
  }

  async #begin(
    exchange: Exchange,
    params: Params,
    sdk: ServerContext,
    way: 'poll' | 'stream',
  ): Promise<Reading> {
    const requested = await this.#core.requested(exchange, params, sdk, way)
    const { record, cursor } = requested
    const { isNew, head } = await this.#core.subscribe(record, LEASE_MS)
    const from = cursor ?? head
    return { ...requested, from, isLate: isNew && from < head }
  }

  async #send(reading: Reading, sdk: ServerContext): Promise<void> {
    const { mcpReq } = sdk
    const { exchange, record, maxAgeMs } = reading
    const signal = signalOf(exchange, sdk)
    const notify = (kind: string, params: object): Promise<void> =>
      mcpReq.notify({
        method: `notifications/events/${kind}`,
        params: { ...params, _meta: { [SUBSCRIPTION_ID]: mcpReq.id } },
      })
    let at = reading.from
    let isActive = false
    let sentAt = performance.now()
    let renewedAt = sentAt
    let isWoken = false
    let resume = (): void => undefined
    const wake = (): void => {
      isWoken = true
      resume()
    }
    this.#waking.add(wake)
    const unwatch = this.#core.options.store.watch((name = record.name) => {
      if (name === record.name) wake()
    })
    signal.addEventListener('abort', wake)
    const { expiresAt } = exchange.auth ?? {}
    const expiresAtMs = expiresAt === undefined ? Number.POSITIVE_INFINITY : expiresAt * 1000
    try {
      while (!signal.aborted && !this.#isClosed && Date.now() < expiresAtMs) {
        // What comes while this reads is read next.
        isWoken = false
        const page = await this.#core.page(record, at, DEFAULT_EVENTS, isActive ? undefined : maxAgeMs)
        if (!isActive || page.truncated) {
          at = (page.events[0]?.position ?? page.position + 1) - 1
          const truncated = page.truncated || (!isActive && reading.isLate)
          await notify('active', { cursor: cursorText(at), truncated })
          isActive = true
          sentAt = performance.now()
        }
        let isDone = true
        for (const { position, body } of page.events) {
          if (signal.aborted) return
          const refusal = await this.#core.refusal(reading, { body })
          isDone = refusal === undefined
          if (refusal === 'unavailable') break
          if (refusal !== undefined) {
            const error = await this.#core.terminated(record, refusal)
            return await notify('terminated', { error: this.#core.errorBody(error) })
          }
          at = position
          await notify('event', { ...JSON.parse(body), cursor: cursorText(position) })
          this.#core.ledger.delivered.stream++
          sentAt = performance.now()
        }
        if (isDone) at = page.position
        if (isDone && page.hasMore) continue
        const quietMs = Math.min(HEARTBEAT_MS - (performance.now() - sentAt), expiresAtMs - Date.now())
        const timer = setTimeout(() => resume(), Math.max(quietMs, 0))
        if (!isWoken)
          await new Promise<void>((resolve) => {
            resume = resolve
          })
        clearTimeout(timer)
        if (performance.now() - sentAt < HEARTBEAT_MS) continue
        await notify('heartbeat', { cursor: cursorText(at) })
        sentAt = performance.now()
        if (sentAt - renewedAt < LEASE_MS / 10) continue
        await this.#core.subscribe(record, LEASE_MS)
        renewedAt = sentAt
      }
    } finally {
      this.#waking.delete(wake)
      unwatch()
      signal.removeEventListener('abort', wake)
    }
  }
}

/** Returns the signal that aborts when the client has left, or has canceled the request. */
function signalOf({ left }: Exchange, { mcpReq }: ServerContext): AbortSignal {
  return left === undefined ? mcpReq.signal : AbortSignal.any([mcpReq.signal, left])
}
