import type { ProtocolError, ServerContext } from '@modelcontextprotocol/server'
import type { SafeFetchSettings } from '../../base/http/safe-fetch.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { AuthInfo, tokenIssuer } from '../../oauth/auth-info.ts'
import type { Gate } from '../../oauth/gate.ts'
import { LazyRequest, RequestContext } from '../../oauth/inputs.ts'
import { StoreGuard } from '../../oauth/store-guard.ts'
import { traitsOf } from '../../oauth/verifiers/verifier-traits.ts'
import type { EventName } from '../instrumentation/request-events.ts'
import { callerKey } from '../operations/limits/caller-key.ts'
import { type Denied, Policy, recordDenial } from '../operations/policy.ts'
import type { EventDelivery, EventEntry } from '../router/event.ts'
import { permitsScopes } from '../router/named-operations.ts'
import type { RouterTable } from '../router/router-table.ts'
import type { Caller, Exchange } from '../wire/exchange.ts'
import { type EventLedger, newLedger } from './event-ledger.ts'
import { type ResolvedEventOptions, resolveEventOptions } from './event-options.ts'
import {
  exhausted,
  forbidden,
  invalidParams,
  namedEvent,
  type Params,
  storeUnavailable,
  subscriptionId,
  wholeNumberOf,
  withProposedCode,
} from './event-params.ts'
import type {
  EventStore,
  LoggedEvent,
  LogPage,
  Position,
  StoredAuth,
  StoredSubscription,
  SubscriptionRecord,
} from './store.ts'

/** The names of the telemetry events about events. */
export type EventTelemetry = Extract<EventName, `event.${string}`>

export interface EventsProps {
  readonly table: RouterTable
  /** Undefined if the option is not set. */
  readonly options: ResolvedEventOptions | undefined
  readonly gate: Gate | undefined
  readonly policy: Policy | undefined
  readonly authorizeTimeoutMs: number
  /** The access to the network of webhooks. Tests replace it. */
  readonly network?: SafeFetchSettings | undefined
  /** Emits a telemetry event that belongs to no request. It must not throw. */
  readonly record: (event: EventTelemetry, attributes: Readonly<Record<string, unknown>>) => void
}

/** The subscription that a delivery is for. */
export interface Receiver {
  /** The request of its owner, or a substitute for it. */
  readonly exchange: Caller
  readonly entry: EventEntry
  readonly record: SubscriptionRecord
}

/** A request for a subscription. */
export interface Requested extends Receiver {
  readonly exchange: Exchange
  /** The position that the client names. */
  readonly cursor: Position | undefined
  readonly maxAgeMs: number | undefined
}

/** The events after a cursor that a subscription may read. */
export interface EventPage {
  readonly events: readonly LoggedEvent[]
  /** The position up to which the log was read. */
  readonly position: Position
  /** `true` if there may be more after it. */
  readonly hasMore: boolean
  /** `true` if events after the given cursor may be missing. */
  readonly truncated: boolean
}

/** The time in which the store must respond. */
const STORE_TIMEOUT_MS = 5_000

/** The maximum size of the events in one page, in characters, and the maximum number of events that a page is chosen from. */
const MAX_PAGE_LENGTH = 1_048_576
const MAX_SCANNED = 1_000

/**
 * The options, the store, and the decisions that the parts of events share: who may receive events is decided by scopes, by the
 * adapter's `authorize`, and by that of the event type, in this order.
 */
export class EventCore {
  readonly props: EventsProps
  readonly options: ResolvedEventOptions
  /** The counts of `stats`. */
  readonly ledger: EventLedger = newLedger()
  readonly #guard = new StoreGuard(STORE_TIMEOUT_MS)

  constructor(props: EventsProps) {
    this.props = props
    this.options = props.options ?? resolveEventOptions({})
  }

  /** Sends a command to the store. @throws the error of the store, or a `TimeoutError` */
  ask<T>(command: (store: EventStore) => Promise<T>, bytes: number = 0): Promise<T> {
    return this.#guard.ask(() => command(this.options.store), bytes)
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
    cursor: Position,
    maxEvents: number,
    maxAgeMs: number = Number.POSITIVE_INFINITY,
  ): Promise<EventPage> {
    const read = (after: Position): Promise<LogPage> =>
      this.serve((store) => store.read(name, after, MAX_SCANNED))
    const first = await read(Math.max(cursor, 0))
    const { events: all, head, droppedUpTo } = cursor > first.head ? await read(0) : first
    let truncated = cursor < droppedUpTo || cursor > head
    const events: LoggedEvent[] = []
    let length = 0
    for (const event of all) {
      const last = events.at(-1)
      if (!['', owner, id].some((channel) => event.channels.includes(channel))) continue
      if (event.atMs < Date.now() - maxAgeMs) {
        truncated = true
        continue
      }
      length += event.body.length
      if (last !== undefined && (events.length >= maxEvents || length > MAX_PAGE_LENGTH))
        return { events, position: last.position, hasMore: true, truncated }
      events.push(event)
    }
    const hasMore = all.length === MAX_SCANNED
    return { events, position: hasMore ? (all.at(-1)?.position ?? head) : head, hasMore, truncated }
  }

  /**
   * Reads a request for a subscription, and checks that its owner may receive the events. A policy that fails denies.
   * @param url the receiver of a webhook
   * @throws {ProtocolError} if the request is invalid, or -32012 if it is not permitted.
   */
  async requested(
    exchange: Exchange,
    params: Params,
    { mcpReq: { method, id: requestId } }: ServerContext,
    way: EventDelivery,
    url: string = '',
  ): Promise<Requested> {
    const maxAgeMs = wholeNumberOf(params, 'maxAgeMs', 0)
    const cursor = cursorOf(params.cursor)
    const { entry, args } = await namedEvent(this.props.table, params, way)
    const denied = await this.#denial(exchange, entry, 'subscribe', { args })
    if (denied !== undefined) {
      recordDenial(exchange, { method, id: requestId, params }, denied)
      throw forbidden(denied.text)
    }
    const owner = callerKey(exchange, 'user').key
    const id = subscriptionId(owner, url, params)
    const record = { id, owner, name: entry.definition.name, args: JSON.stringify(args) }
    return { exchange, entry, record, cursor, maxAgeMs }
  }

  /** Makes or renews a subscription. @throws {ProtocolError} -32013 if its owner has too many. */
  async subscribe(record: SubscriptionRecord, ttlMs: number) {
    const max = this.options.maxPerOwner
    const result = await this.serve((store) => store.subscribe(record, { ttlMs, max }))
    if (result === undefined) throw exhausted('subscriptions', max)
    return result
  }

  /**
   * Decides about the delivery of an event to a subscription.
   * @returns undefined if it is permitted, the error with which the subscription must end, or `unavailable` if the policy has failed
   */
  async refusal(
    { exchange, entry, record: { args } }: Receiver,
    { body }: Pick<LoggedEvent, 'body'>,
  ): Promise<ProtocolError | 'unavailable' | undefined> {
    const use = { args: JSON.parse(args), data: JSON.parse(body).data }
    const denied = await this.#denial(exchange, entry, 'deliver', use)
    if (denied === undefined) return undefined
    return denied.failure === undefined ? forbidden(denied.text ?? 'Access revoked') : 'unavailable'
  }

  /**
   * Ends a subscription whose owner may no longer receive its events, and returns the error of the refusal.
   * @throws {ProtocolError} -32603 if the store is unavailable.
   */
  async terminated<T>({ id, name }: SubscriptionRecord, refusal: T): Promise<T> {
    if (await this.serve((store) => store.end(id))) {
      this.ledger.terminated++
      this.record('event.terminated', name, { 'kit.mcp.event.subscription': id })
    }
    return refusal
  }

  /** Returns undefined if the token of a request may receive an event. Never rejects. */
  async #denial(
    exchange: Caller,
    entry: EventEntry,
    purpose: 'subscribe' | 'deliver',
    use: { readonly args: unknown; readonly data?: unknown },
  ): Promise<Denied | undefined> {
    if (!permitsScopes(exchange, entry.scopes) || (purpose === 'deliver' && !(await this.#isLive(exchange))))
      return { text: undefined, scopes: entry.scopes, failure: undefined }
    const { policy, authorizeTimeoutMs } = this.props
    const own = new Policy(entry.authorize as never, authorizeTimeoutMs)
    const subject = { kind: 'event', name: entry.definition.name, args: use.args } as const
    return (
      (await policy?.denial(exchange, { ...subject, purpose: 'call' } as never)) ??
      (await own.denial(exchange, { ...subject, ...use, purpose } as never))
    )
  }

  /** Returns `false` if the grant of the token has ended, as the user or the authorization server can end it at any time. */
  async #isLive({ auth }: Caller): Promise<boolean> {
    const { gate } = this.props
    const isLive = auth && gate && traitsOf(gate.options.verifyToken).isLive
    return isLive === undefined || (await isLive(auth?.user))
  }

  /**
   * Returns what a request of the owner of a subscription would be, for decisions about its deliveries. It has no
   * headers.
   * @throws what the router's `.context()` throws
   */
  async exchangeOf({ auth }: SubscriptionRecord, { authorize }: EventEntry): Promise<Caller> {
    const source = { request: new Request('event:delivery') }
    const { gate, policy, table } = this.props
    const needsContext = policy !== undefined || authorize !== undefined
    const made = needsContext ? await table.makeContext?.(new LazyRequest(source)) : {}
    return { gate, auth: auth && restoredAuth(auth), context: new RequestContext(source, made ?? {}) }
  }

  /** Returns an error with the code that the options choose. */
  coded(error: unknown): unknown {
    return this.options.errorCodes === 'proposed' ? withProposedCode(error) : error
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

/** Returns the members of a token that decisions need, without the token. Claims that are not JSON are left out. */
export function storedAuth(auth: AuthInfo): StoredAuth {
  const { clientId, scopes, resource, user, act, extra } = auth
  const known = { clientId, scopes, issuer: tokenIssuer(auth), resource, act }
  return JSON.parse(tryOrUndefined(() => JSON.stringify({ ...known, user, extra })) ?? JSON.stringify(known))
}

function restoredAuth({ issuer, resource, user, ...stored }: StoredAuth): AuthInfo {
  const url = resource === undefined ? undefined : new URL(resource)
  const members = { extra: {}, ...stored, scopes: [...stored.scopes], resource: url, user }
  return AuthInfo.of('', members, issuer)
}

const CURSOR = /^[0-9a-z]{1,10}$/

/** Returns the text of a cursor. Clients must not interpret it. */
export function cursorText(position: Position): string {
  return position.toString(36)
}

/**
 * Reads the cursor that a client sends. Returns undefined for `null`, which means the current position, and -1 for a text that this
 * server has not sent.
 * @throws {ProtocolError} -32602 if it is not a string.
 */
function cursorOf(cursor: unknown): Position | undefined {
  if (cursor === undefined || cursor === null) return undefined
  if (typeof cursor !== 'string') throw invalidParams('cursor must be a string or null')
  return CURSOR.test(cursor) ? Number.parseInt(cursor, 36) : -1
}

/** Returns the position before which everything was delivered or abandoned. */
export function watermark({ firstPending }: StoredSubscription, head: Position): Position {
  return firstPending === undefined ? head : firstPending - 1
}
