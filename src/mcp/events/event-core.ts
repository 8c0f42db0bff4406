import type { ProtocolError } from '@modelcontextprotocol/server'
import type { SafeFetchSettings } from '../../http/safe-fetch.ts'
import type { Gate } from '../../oauth/gate.ts'
import { StoreGuard } from '../../oauth/store-guard.ts'
import type { EventName } from '../instrumentation/request-events.ts'
import type { Policy } from '../operations/policy.ts'
import type { EventEntry } from '../router/event.ts'
import type { RouterTable } from '../router/router-table.ts'
import type { Exchange } from '../wire/exchange.ts'
import { type Cursor, isOf } from './cursors.ts'
import { EventAccess } from './event-access.ts'
import { forbidden, storeUnavailable, withProposedCode } from './event-errors.ts'
import { newLedger } from './event-ledger.ts'
import type { ResolvedEventOptions } from './event-options.ts'
import type { NamedSubscription } from './event-params.ts'
import type { EventStore, LoggedEvent, LogPage, Position, SubscriptionRecord } from './store.ts'

/** The names of the telemetry events about events. */
export type EventTelemetry = Extract<EventName, `event.${string}`>

export interface EventsProps {
  readonly table: RouterTable
  readonly options: ResolvedEventOptions
  readonly gate: Gate | undefined
  readonly policy: Policy | undefined
  readonly authorizeTimeoutMs: number
  /** The access to the network of webhooks. Tests replace it. */
  readonly network?: SafeFetchSettings | undefined
  /** Emits a telemetry event that belongs to no request. It must not throw. */
  readonly record: (event: EventTelemetry, attributes: Readonly<Record<string, unknown>>) => void
}

/** A request that names an event type. */
export interface EventRequest {
  readonly method: string
  readonly id: string | number
  readonly params: Readonly<Record<string, unknown>>
}

/** The events after a cursor that a subscription may read. */
export interface EventPage extends Pick<LogPage, 'epoch' | 'events' | 'position' | 'hasMore'> {
  /** `true` if events after the given cursor may be missing. */
  readonly truncated: boolean
}

/** The time in which the store must respond. */
const STORE_TIMEOUT_MS = 5_000

/** The maximum size of the events in one page, in bytes. */
const MAX_PAGE_BYTES = 1_048_576

/** The options, the store, and the decisions that the parts of events share. */
export class EventCore {
  readonly props: EventsProps
  readonly access: EventAccess
  readonly ledger = newLedger()
  readonly #guard = new StoreGuard(STORE_TIMEOUT_MS)

  constructor(props: EventsProps) {
    this.props = props
    this.access = new EventAccess(props)
  }

  /** Sends a command to the store. @throws the error of the store, or a `TimeoutError` */
  ask<T>(command: (store: EventStore) => Promise<T>, bytes: number = 0): Promise<T> {
    return this.#guard.ask(() => command(this.props.options.store), bytes)
  }

  /** Like `ask`, for a request of a client. @throws {ProtocolError} -32603 if the store is unavailable. */
  async serve<T>(command: (store: EventStore) => Promise<T>): Promise<T> {
    try {
      return await this.ask(command)
    } catch {
      throw storeUnavailable()
    }
  }

  /**
   * Reads the events of a subscription after a cursor. A cursor of another log reads whatever the log has, and counts as truncated.
   * @throws {ProtocolError} -32603 if the store is unavailable.
   */
  async page(
    { id, owner, name }: Pick<SubscriptionRecord, 'id' | 'owner' | 'name'>,
    cursor: Cursor,
    maxEvents: number,
    maxAgeMs: number = Number.POSITIVE_INFINITY,
  ): Promise<EventPage> {
    const options = { maxEvents, maxBytes: MAX_PAGE_BYTES }
    const read = (after: Position): Promise<LogPage> =>
      this.serve((store) => store.read(name, ['', owner, id], { ...options, after }))
    const first = await read(Math.max(cursor.position, 0))
    const isKnown = isOf(cursor, first)
    const page = isKnown || cursor.position <= 0 ? first : await read(0)
    const young = page.events.filter(({ atMs }) => atMs >= Date.now() - maxAgeMs)
    const isCut = cursor.position < page.droppedUpTo || young.length < page.events.length
    return { ...page, events: young, truncated: !isKnown || isCut }
  }

  /**
   * Checks that a request may receive events. A policy that fails denies.
   * @throws {ProtocolError} -32012 if it may not.
   */
  async permit(exchange: Exchange, { entry, args }: NamedSubscription, request: EventRequest): Promise<void> {
    const denied = await this.access.denial(exchange, entry, 'subscribe', { args })
    if (denied === undefined) return
    const { failure, text } = denied
    exchange.telemetry.record('policy.denied', request, { purpose: 'call', failure, reason: text })
    throw forbidden(text)
  }

  /**
   * Decides about the delivery of an event to a subscription. A denial ends it.
   * @param terminated returns the last message to its webhook, if there is one
   * @returns undefined if it is permitted, the error with which the subscription ends, or `unavailable` if the policy has failed
   */
  async refusal(
    exchange: Exchange,
    { id, name, args }: SubscriptionRecord,
    entry: EventEntry,
    { body }: Pick<LoggedEvent, 'body'>,
    terminated: (error: ProtocolError) => string | undefined = () => undefined,
  ): Promise<ProtocolError | 'unavailable' | undefined> {
    const use = { args: JSON.parse(args), data: JSON.parse(body).data }
    const denied = await this.access.denial(exchange, entry, 'deliver', use)
    if (denied === undefined) return undefined
    if (denied.failure !== undefined) return 'unavailable'
    const error = forbidden(denied.text ?? 'Access revoked')
    await this.serve((store) => store.end(id, terminated(error)))
    this.ledger.terminated++
    this.record('event.terminated', name, { 'kit.mcp.event.subscription': id })
    return error
  }

  /** Returns an error with the code that the options choose. */
  coded(error: unknown): unknown {
    return this.props.options.errorCodes === 'proposed' ? withProposedCode(error) : error
  }

  /** Returns the form in which notifications and webhooks contain an error. */
  errorBody(error: ProtocolError): object {
    const { code, message, data } = this.coded(error) as ProtocolError
    return { code, message, ...(data !== undefined && { data }) }
  }

  record(event: EventTelemetry, name: string, attributes: Readonly<Record<string, unknown>> = {}): void {
    this.props.record(event, { 'kit.mcp.event.name': name, ...attributes })
  }
}
