import type { ProtocolError } from '@modelcontextprotocol/server'
import type { SafeFetchSettings } from '../../http/safe-fetch.ts'
import type { Gate } from '../../oauth/gate.ts'
import { StoreGuard } from '../../oauth/store-guard.ts'
import type { EventName } from '../instrumentation/request-events.ts'
import type { Policy } from '../operations/policy.ts'
import type { EventEntry } from '../router/event.ts'
import type { RouterTable } from '../router/router-table.ts'
import type { Exchange } from '../wire/exchange.ts'
import { EventAccess } from './event-access.ts'
import { forbidden, storeUnavailable } from './event-errors.ts'
import { type EventLedger, newLedger } from './event-ledger.ts'
import type { ResolvedEventOptions } from './event-options.ts'
import type { NamedSubscription } from './event-params.ts'
import type { EventStore, LoggedEvent, Position, SubscriptionRecord } from './store.ts'

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

/** The time in which the store must respond. */
const STORE_TIMEOUT_MS = 5_000

/** The options, the store, and the decisions that the parts of events share. */
export class EventCore {
  readonly props: EventsProps
  readonly access: EventAccess
  readonly ledger: EventLedger = newLedger()
  readonly #guard = new StoreGuard(STORE_TIMEOUT_MS)
  #epoch: Promise<string> | undefined

  constructor(props: EventsProps) {
    const { table, gate, policy, authorizeTimeoutMs } = props
    this.props = props
    this.access = new EventAccess(table, gate, policy, authorizeTimeoutMs)
  }

  /** Sends a command to the store. @throws the error of the store, or a `TimeoutError` */
  ask<T>(command: (store: EventStore) => Promise<T>, bytes: number = 0): Promise<T> {
    return this.#guard.ask(() => command(this.props.options.store), bytes)
  }

  /** Like `ask`, for a request of a client. @throws {ProtocolError} -32603 if the store is unavailable. */
  async serve<T>(command: (store: EventStore) => Promise<T>, bytes: number = 0): Promise<T> {
    try {
      return await this.ask(command, bytes)
    } catch {
      throw storeUnavailable()
    }
  }

  /** Returns the id of the log, which cursors contain. @throws {ProtocolError} -32603 if the store is unavailable. */
  async epoch(): Promise<string> {
    this.#epoch ??= this.serve((store) => store.epoch())
    try {
      return await this.#epoch
    } catch (error) {
      this.#epoch = undefined
      throw error
    }
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
   * Decides about the delivery of an event to a subscription.
   * @returns undefined if it is permitted, the error with which the subscription ends, or `unavailable` if the policy has failed
   */
  async refusal(
    exchange: Exchange,
    entry: EventEntry,
    args: unknown,
    { body }: Pick<LoggedEvent, 'body'>,
  ): Promise<ProtocolError | 'unavailable' | undefined> {
    const { data } = JSON.parse(body) as { readonly data: unknown }
    const denied = await this.access.denial(exchange, entry, 'deliver', { args, data })
    if (denied === undefined) return undefined
    return denied.failure === undefined ? forbidden(denied.text ?? 'Access revoked') : 'unavailable'
  }

  record(event: EventTelemetry, name: string, attributes: Readonly<Record<string, unknown>> = {}): void {
    this.props.record(event, { 'kit.mcp.event.name': name, ...attributes })
  }
}

/** The events after a position that a subscription may read. */
export interface EventPage {
  readonly events: readonly LoggedEvent[]
  /** The position after the page. */
  readonly position: Position
  /** `true` if events after the given position may be missing. */
  readonly truncated: boolean
  readonly hasMore: boolean
}

/** The maximum size of the events in one page, in bytes. */
const MAX_PAGE_BYTES = 1_048_576

/**
 * Reads the events of a subscription after a position.
 * @param after -1 reads whatever the log has, and counts as truncated
 * @throws {ProtocolError} -32603 if the store is unavailable.
 */
export async function readPage(
  core: EventCore,
  { id, owner, name }: Pick<SubscriptionRecord, 'id' | 'owner' | 'name'>,
  after: Position,
  { maxEvents, maxAgeMs }: { readonly maxEvents: number; readonly maxAgeMs?: number | undefined },
): Promise<EventPage> {
  const from = Math.max(after, 0)
  const { events, hasMore, head, droppedUpTo } = await core.serve((store) =>
    store.read(name, ['', owner, id], { after: from, maxEvents, maxBytes: MAX_PAGE_BYTES }),
  )
  const oldestMs = maxAgeMs === undefined ? 0 : Date.now() - maxAgeMs
  const young = events.filter(({ atMs }) => atMs >= oldestMs)
  return {
    events: young,
    position: hasMore ? (events.at(-1)?.position ?? head) : head,
    truncated: after < droppedUpTo || after === -1 || young.length < events.length,
    hasMore,
  }
}
