import type { ServerContext } from '@modelcontextprotocol/server'
import { callerKey } from '../operations/limits/caller-key.ts'
import type { Exchange } from '../wire/exchange.ts'
import { cursorAt, positionOf } from './cursors.ts'
import { type EventCore, type EventPage, type EventRequest, readPage } from './event-core.ts'
import { errorBody, exhausted, invalidParams } from './event-errors.ts'
import {
  type NamedSubscription,
  namedSubscription,
  type Params,
  subscriptionId,
  wholeNumberOf,
} from './event-params.ts'
import { EventWaits } from './event-waits.ts'
import type { LoggedEvent, Position, SubscriptionRecord } from './store.ts'

/**
 * The time for which a subscription without a webhook is known after it was last polled or its stream has sent a heartbeat. An event
 * that is for some arguments only reaches the subscriptions that are known.
 */
const LEASE_MS = 3_600_000
const NEXT_POLL_MS = 5_000
const MAX_EVENTS = 500
const DEFAULT_EVENTS = 100

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId'

/** A subscription that is being read. */
interface Reading {
  readonly exchange: Exchange
  readonly named: NamedSubscription
  readonly record: SubscriptionRecord
  readonly epoch: string
  readonly maxAgeMs: number | undefined
  /** The position after which events are read. -1 if it is not known. */
  readonly from: Position
  /** `true` if the client has named a position. */
  readonly resumes: boolean
  /** `true` if events may have been sent that the subscription did not get, because it was not known. */
  readonly isLate: boolean
}

/** Serves `events/poll` and `events/stream`. */
export class EventReaders {
  readonly #core: EventCore
  readonly #waits: EventWaits
  readonly #heartbeatMs: number
  #isClosed = false

  constructor(core: EventCore, heartbeatMs: number) {
    this.#core = core
    this.#waits = new EventWaits(core.props.options.store)
    this.#heartbeatMs = heartbeatMs
  }

  /** Serves `events/poll`. */
  async poll(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    const maxEvents = Math.min(wholeNumberOf(params, 'maxEvents', 1) ?? DEFAULT_EVENTS, MAX_EVENTS)
    const reading = await this.#begin(exchange, params, requestOf(sdk, params), 'poll')
    const { epoch, from, resumes, isLate, maxAgeMs, record } = reading
    const page = resumes
      ? await readPage(this.#core, record, from, { maxEvents, maxAgeMs })
      : { events: [], position: from, truncated: false, hasMore: false }
    for (const event of page.events) {
      const refusal = await this.#refusal(reading, event)
      if (refusal === 'unavailable') return this.#polled(epoch, pageBefore(page, event), isLate)
      if (refusal !== undefined) throw refusal
    }
    return this.#polled(epoch, page, isLate)
  }

  #polled(epoch: string, page: EventPage, isLate: boolean): Record<string, unknown> {
    this.#core.ledger.delivered.poll += page.events.length
    return {
      events: page.events.map(({ body }) => JSON.parse(body)),
      cursor: cursorAt(epoch, page.position),
      truncated: page.truncated || isLate,
      hasMore: page.hasMore,
      nextPollMs: NEXT_POLL_MS,
    }
  }

  /**
   * Serves `events/stream`, until the client leaves, the token expires or no longer permits the events, or the adapter is
   * closed.
   */
  async stream(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    const reading = await this.#begin(exchange, params, requestOf(sdk, params), 'stream')
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
    return { _meta: {} }
  }

  /** Ends all streams. */
  close(): void {
    this.#isClosed = true
    this.#waits.close()
  }

  async #begin(
    exchange: Exchange,
    params: Params,
    request: EventRequest,
    way: 'poll' | 'stream',
  ): Promise<Reading> {
    const maxAgeMs = wholeNumberOf(params, 'maxAgeMs', 0)
    const named = await namedSubscription(this.#core.props.table, params, way)
    await this.#core.permit(exchange, named, request)
    const { name, given, args } = named
    const owner = callerKey(exchange, 'user').key
    const id = subscriptionId(owner, '', name, given)
    const record = { id, owner, name, args: JSON.stringify(args) }
    const known = await this.#renew(record)
    const epoch = await this.#core.epoch()
    const position = positionOf(epoch, known.head, params.cursor)
    // A subscription that has just been made has taken a position itself.
    const isLate = position !== undefined && position >= 0 && known.isNew && position < known.head - 1
    const resumes = position !== undefined
    return { exchange, named, record, epoch, maxAgeMs, from: position ?? known.head, resumes, isLate }
  }

  async #renew(record: SubscriptionRecord): Promise<{ readonly isNew: boolean; readonly head: Position }> {
    const max = this.#core.props.options.maxPerOwner
    const result = await this.#core.serve((store) => store.subscribe(record, { ttlMs: LEASE_MS, max }))
    if (result.outcome === 'owner-full') throw exhausted('subscriptions', max)
    return { isNew: result.outcome === 'added', head: result.head }
  }

  async #send(reading: Reading, sdk: ServerContext): Promise<void> {
    const { mcpReq } = sdk
    const { exchange, epoch, record, resumes, isLate, maxAgeMs } = reading
    const signal = signalOf(exchange, sdk)
    const notify = (kind: string, params: object): Promise<void> =>
      mcpReq.notify({
        method: `notifications/events/${kind}`,
        params: { ...params, _meta: { [SUBSCRIPTION_ID]: mcpReq.id } },
      })
    let position = reading.from
    let isActive = false
    let sentAt = performance.now()
    let renewedAt = sentAt
    const { expiresAt } = exchange.auth ?? {}
    const expiresAtMs = expiresAt === undefined ? Number.POSITIVE_INFINITY : expiresAt * 1000
    while (!signal.aborted && !this.#isClosed && Date.now() < expiresAtMs) {
      // Begins to wait before it reads, so that no event comes in between.
      const waiting = this.#waits.begin(record.name)
      try {
        const page =
          isActive || resumes
            ? await readPage(this.#core, record, position, {
                maxEvents: DEFAULT_EVENTS,
                maxAgeMs: isActive ? undefined : maxAgeMs,
              })
            : { events: [], position, truncated: false, hasMore: false }
        if (!isActive || page.truncated) {
          const [first] = page.events
          const before = first === undefined ? page.position : first.position - 1
          const truncated = page.truncated || (!isActive && isLate)
          await notify('active', { cursor: cursorAt(epoch, before), truncated })
          isActive = true
          sentAt = performance.now()
        }
        for (const event of page.events) {
          if (signal.aborted) return
          const refusal = await this.#refusal(reading, event)
          if (refusal === 'unavailable') break
          if (refusal !== undefined) return await notify('terminated', { error: errorBody(refusal) })
          position = event.position
          await notify('event', { ...JSON.parse(event.body), cursor: cursorAt(epoch, position) })
          this.#core.ledger.delivered.stream++
          sentAt = performance.now()
        }
        const isDone = position >= (page.events.at(-1)?.position ?? 0)
        if (isDone) position = Math.max(position, page.position)
        if (isDone && page.hasMore) continue
        const quietMs = this.#heartbeatMs - (performance.now() - sentAt)
        await waiting.until(Math.min(quietMs, expiresAtMs - Date.now()), signal)
        if (performance.now() - sentAt < this.#heartbeatMs) continue
        await notify('heartbeat', { cursor: cursorAt(epoch, position) })
        sentAt = performance.now()
        if (sentAt - renewedAt < LEASE_MS / 10) continue
        await this.#renew(record)
        renewedAt = sentAt
      } finally {
        waiting.end()
      }
    }
  }

  /** Decides about one event. A denial ends the subscription. */
  async #refusal({ exchange, named, record }: Reading, event: LoggedEvent) {
    const refusal = await this.#core.refusal(exchange, named.entry, named.args, event)
    if (refusal === undefined || refusal === 'unavailable') return refusal
    this.#core.ledger.terminated++
    this.#core.record('event.terminated', named.name, { 'kit.mcp.event.subscription': record.id })
    await this.#core.serve((store) => store.end(record.id))
    return refusal
  }
}

/** Returns the signal that aborts when the client has left, or has canceled the request. */
function signalOf({ left }: Exchange, { mcpReq }: ServerContext): AbortSignal {
  return left === undefined ? mcpReq.signal : AbortSignal.any([mcpReq.signal, left])
}

/** Returns the part of a page before an event. */
function pageBefore({ events, truncated }: EventPage, event: LoggedEvent): EventPage {
  const index = events.indexOf(event)
  return { events: events.slice(0, index), position: event.position - 1, truncated, hasMore: false }
}

export function requestOf({ mcpReq }: ServerContext, params: Params): EventRequest {
  return { method: mcpReq.method, id: mcpReq.id, params }
}

export function checkCursor(cursor: unknown): void {
  if (cursor !== undefined && cursor !== null) throw invalidParams('cursor is not one of this server')
}
