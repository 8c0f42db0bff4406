import type { ServerContext } from '@modelcontextprotocol/server'
import { utf8Length } from '../../base/runtime.ts'
import { callerKey } from '../operations/limits/call-counters.ts'
import type { Exchange } from '../wire/exchange.ts'
import { cursorOf, cursorText, type EventCore, type EventPage, type Receiver } from './event-core.ts'
import {
  exhausted,
  invalidParams,
  namedSubscription,
  type Params,
  subscriptionId,
  wholeNumberOf,
} from './event-params.ts'
import type { Position, SubscriptionRecord } from './store.ts'

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
interface Reading extends Receiver {
  readonly exchange: Exchange
  readonly maxAgeMs: number | undefined
  /** The position after which events are read. */
  readonly from: Position
  /** `true` if the client has named a position. */
  readonly resumes: boolean
  /** `true` if events may have been sent that the subscription did not get, because it was not known. */
  readonly isLate: boolean
}

/** Serves `events/poll` and `events/stream`. */
export class EventReaders {
  readonly #core: EventCore
  readonly #heartbeatMs: number
  /** The streams that wait for an event, by its name. */
  readonly #waking = new Map<string, Set<() => void>>()
  #unwatch: (() => void) | undefined
  #isClosed = false

  constructor(core: EventCore, heartbeatMs: number) {
    this.#core = core
    this.#heartbeatMs = heartbeatMs
  }

  /** Serves `events/poll`. */
  async poll(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    const maxEvents = Math.min(wholeNumberOf(params, 'maxEvents', 1) ?? DEFAULT_EVENTS, MAX_EVENTS)
    const reading = await this.#begin(exchange, params, sdk, 'poll')
    let page = await this.#firstPage(reading, maxEvents)
    for (const event of page.events) {
      const refusal = await this.#core.refusal(reading, event)
      if (refusal === undefined) continue
      if (refusal !== 'unavailable') throw refusal
      const events = page.events.slice(0, page.events.indexOf(event))
      page = { ...page, events, position: event.position - 1, hasMore: false }
      break
    }
    this.#core.ledger.delivered.poll += page.events.length
    return {
      events: page.events.map(({ body }) => JSON.parse(body)),
      cursor: cursorText(page.position),
      truncated: page.truncated,
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
    this.#unwatch ??= this.#core.props.options.store.watch((name) => this.#wake(name))
    const waking = this.#waking.get(reading.record.name) ?? new Set()
    this.#waking.set(reading.record.name, waking)
    try {
      await this.#send(reading, sdk, waking)
    } catch (error) {
      // Nothing can be sent to a client that has left.
      if (!signalOf(exchange, sdk).aborted) throw error
    } finally {
      ledger.streams--
      if (ledger.streams === 0) this.#release()
    }
    return { _meta: { [SUBSCRIPTION_ID]: sdk.mcpReq.id } }
  }

  /** Ends all streams. */
  close(): void {
    this.#isClosed = true
    this.#wake(undefined)
    this.#release()
  }

  async #begin(
    exchange: Exchange,
    params: Params,
    sdk: ServerContext,
    way: 'poll' | 'stream',
  ): Promise<Reading> {
    const maxAgeMs = wholeNumberOf(params, 'maxAgeMs', 0)
    const named = await namedSubscription(this.#core.props.table, params, way)
    await this.#core.permit(exchange, named, params, sdk)
    const { name, given, args } = named
    const owner = callerKey(exchange, 'user').key
    const id = subscriptionId(owner, '', name, given)
    const record = { id, owner, name, args: JSON.stringify(args) }
    const cursor = cursorOf(params.cursor)
    const { isNew, head } = await this.#renew(record)
    const isLate = cursor !== undefined && isNew && cursor < head
    const from = cursor ?? head
    return { exchange, entry: named.entry, record, maxAgeMs, from, resumes: cursor !== undefined, isLate }
  }

  async #renew(record: SubscriptionRecord): Promise<{ readonly isNew: boolean; readonly head: Position }> {
    const max = this.#core.props.options.maxPerOwner
    const result = await this.#core.serve((store) => store.subscribe(record, { ttlMs: LEASE_MS, max }))
    if (result === undefined) throw exhausted('subscriptions', max)
    return result
  }

  async #firstPage(reading: Reading, maxEvents: number): Promise<EventPage> {
    const { record, from, resumes, isLate, maxAgeMs } = reading
    if (!resumes) return { position: from, events: [], truncated: false, hasMore: false }
    const page = await this.#core.page(record, from, maxEvents, maxAgeMs)
    return { ...page, truncated: page.truncated || isLate }
  }

  async #send(reading: Reading, sdk: ServerContext, waking: Set<() => void>): Promise<void> {
    const { mcpReq } = sdk
    const { exchange, record } = reading
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
    const { expiresAt } = exchange.auth ?? {}
    const expiresAtMs = expiresAt === undefined ? Number.POSITIVE_INFINITY : expiresAt * 1000
    while (!signal.aborted && !this.#isClosed && Date.now() < expiresAtMs) {
      // Begins to wait before it reads, so that no event comes in between.
      const event = nextEvent(waking)
      try {
        const page = await (isActive
          ? this.#core.page(record, at, DEFAULT_EVENTS)
          : this.#firstPage(reading, DEFAULT_EVENTS))
        if (!isActive || page.truncated) {
          at = (page.events[0]?.position ?? page.position + 1) - 1
          await notify('active', { cursor: cursorText(at), truncated: page.truncated })
          isActive = true
          sentAt = performance.now()
        }
        let isDone = true
        for (const { position, body } of page.events) {
          if (signal.aborted) return
          const refusal = await this.#core.refusal(reading, { body })
          isDone = refusal === undefined
          if (refusal === 'unavailable') break
          if (refusal !== undefined)
            return await notify('terminated', { error: this.#core.errorBody(refusal) })
          at = position
          await notify('event', { ...JSON.parse(body), cursor: cursorText(position) })
          this.#core.ledger.delivered.stream++
          sentAt = performance.now()
        }
        if (isDone) at = page.position
        if (isDone && page.hasMore) continue
        const quietMs = this.#heartbeatMs - (performance.now() - sentAt)
        await event.within(Math.min(quietMs, expiresAtMs - Date.now()), signal)
        if (performance.now() - sentAt < this.#heartbeatMs) continue
        await notify('heartbeat', { cursor: cursorText(at) })
        sentAt = performance.now()
        if (sentAt - renewedAt < LEASE_MS / 10) continue
        await this.#renew(record)
        renewedAt = sentAt
      } finally {
        event.forget()
      }
    }
  }

  #release(): void {
    this.#unwatch?.()
    this.#unwatch = undefined
    this.#waking.clear()
  }

  #wake(name: string | undefined): void {
    const all = name === undefined ? [...this.#waking.values()] : [this.#waking.get(name) ?? new Set()]
    for (const waking of all) for (const wake of [...waking]) wake()
  }
}

/** Waits for the next call of a function that it adds to a set. */
function nextEvent(waking: Set<() => void>) {
  let wake = (): void => undefined
  const woken = new Promise<void>((resolve) => {
    wake = resolve
  })
  waking.add(wake)
  return {
    /** Resolves after the call, after `ms`, or when `signal` aborts. */
    async within(ms: number, signal: AbortSignal): Promise<void> {
      const timer = setTimeout(wake, Math.max(ms, 0))
      signal.addEventListener('abort', wake)
      if (signal.aborted) wake()
      await woken
      clearTimeout(timer)
      signal.removeEventListener('abort', wake)
    },
    forget: () => waking.delete(wake),
  }
}

/** Returns the signal that aborts when the client has left, or has canceled the request. */
function signalOf({ left }: Exchange, { mcpReq }: ServerContext): AbortSignal {
  return left === undefined ? mcpReq.signal : AbortSignal.any([mcpReq.signal, left])
}
