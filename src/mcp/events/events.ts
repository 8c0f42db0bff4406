import type { ServerContext } from '@modelcontextprotocol/server'
import type { OptionChecks } from '../../base/options/option-checks.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { isWorkerd } from '../../base/runtime.ts'
import { callerKey } from '../operations/limits/caller-key.ts'
import type { Serving } from '../operations/operation.ts'
import { permittedEntries } from '../operations/policy.ts'
import { permitsScopes } from '../router/named-operations.ts'
import { type Exchange, isAnonymous } from '../wire/exchange.ts'
import { cursorText, EventCore, type EventsProps, storedAuth, watermark } from './event-core.ts'
import { type EmitOptions, emit } from './event-emitter.ts'
import type { EventStats } from './event-ledger.ts'
import {
  exhausted,
  forbidden,
  invalidParams,
  notFound,
  type Params,
  subscriptionId,
  unsupportedDelivery,
  wholeNumberOf,
} from './event-params.ts'
import { EventReaders } from './event-readers.ts'
import type { Position, StoredSubscription, WebhookSecret, WebhookTarget } from './store.ts'
import { problemWithUrl } from './webhooks/callback-url.ts'
import { signingKeyOf } from './webhooks/signature.ts'
import { Webhooks } from './webhooks/webhooks.ts'

/** The minimum time that a client can ask for, so that clients do not renew a subscription all the time. */
const MIN_TTL_MS = 60_000
/** The time for which the previous secret still signs. */
const ROTATION_MS = 600_000
/** The maximum number of events that a new subscription receives from the log. */
const MAX_REPLAY = 500
/** The maximum length of a record, in characters. The claims of a user are the part that has no other limit. */
const MAX_RECORD = 65_536

/** The methods that {@link Events} serves. */
export type EventMethod = `events/${'list' | 'poll' | 'stream' | 'subscribe' | 'unsubscribe'}`

/** Sends events, and serves `events/*`, for a router with event types (SEP-3415). */
export class Events {
  readonly #core: EventCore
  readonly #readers: EventReaders
  readonly #webhooks: Webhooks

  constructor(props: EventsProps) {
    this.#core = new EventCore(props)
    this.#readers = new EventReaders(this.#core)
    this.#webhooks = new Webhooks(this.#core)
  }

  emit(name: string, data: unknown, options?: EmitOptions): Promise<{ readonly eventId: string }> {
    return emit(this.#core, name, data, options)
  }

  stats(): EventStats {
    return structuredClone(this.#core.ledger)
  }

  /** Takes the deliveries that other nodes have left. */
  start(): void {
    this.#webhooks.start()
  }

  async close({ timeoutMs = 0 }: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    this.#readers.close()
    await this.#webhooks.close(timeoutMs)
  }

  /** Serves a request. @throws {ProtocolError} with a code of the chosen kind. */
  async serve(
    method: EventMethod,
    serving: Pick<Serving, 'exchange' | 'listOnlyPermitted'>,
    params: Params,
    sdk: ServerContext,
  ): Promise<Record<string, unknown>> {
    const { exchange } = serving
    const serve = {
      'events/list': () => this.#list(serving, params, sdk),
      'events/poll': () => this.#readers.poll(exchange, params, sdk),
      'events/stream': () => this.#readers.stream(exchange, params, sdk),
      'events/subscribe': () => this.#subscribe(exchange, params, sdk),
      'events/unsubscribe': () => this.#unsubscribe(exchange, params),
    }
    try {
      return await serve[method]()
    } catch (error) {
      throw this.#core.coded(error)
    }
  }

  /**
   * Returns the event types that the owner may subscribe to. Without a token they are all listed, so that clients find out what
   * needs a sign-in, or none with `listOnlyPermitted`, since none is public.
   */
  async #list(
    { exchange, listOnlyPermitted }: Pick<Serving, 'exchange' | 'listOnlyPermitted'>,
    { cursor }: Params,
    { mcpReq }: ServerContext,
  ): Promise<Record<string, unknown>> {
    if (cursor !== undefined && cursor !== null) throw invalidParams('cursor is not one of this server')
    const { gate, table, policy } = this.#core.props
    const permitted = [...table.events.values()].filter(({ scopes }) =>
      isAnonymous(exchange) ? !listOnlyPermitted : permitsScopes(exchange, scopes),
    )
    // Webhooks need OAuth.
    const isOffered = (way: string): boolean => gate !== undefined || way !== 'webhook'
    const all = permitted.map(({ definition }) => ({
      ...definition,
      delivery: definition.delivery.filter(isOffered),
    }))
    if (policy === undefined) return { events: all }
    const listed = all.map((entry) => ({ entry, kind: 'event', name: entry.name }) as const)
    return { events: await permittedEntries(policy, exchange, mcpReq, listed) }
  }

  /** Serves `events/subscribe`: makes a subscription, or renews the one with the same owner, URL, name, and arguments. */
  async #subscribe(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    const { options } = this.#core
    const { auth } = exchange
    // Without an owner, anyone could end the subscription (SEP-3415, "Authentication required").
    if (auth === undefined) throw withoutToken()
    const ttlMs = wholeNumberOf(params, 'ttlMs', 1) ?? options.ttlMs
    const { url, secret } = this.#target(params)
    const requested = await this.#core.requested(exchange, params, sdk, 'webhook', url)
    const { id, name } = requested.record
    const existing = await this.#core.serve((store) => store.get(id))
    const target = { url, secrets: secretsOf(existing?.webhook, secret) }
    const given = { ...requested.record, auth: storedAuth(auth) }
    if (JSON.stringify([given, target]).length > MAX_RECORD) throw exhausted('bytes', MAX_RECORD)
    const verifiedAtMs = await this.#webhooks.verify(given, url, secret, existing?.webhook?.verifiedAtMs)
    const record = { ...given, webhook: { ...target, verifiedAtMs } }
    const grantedMs = Math.min(Math.max(MIN_TTL_MS, ttlMs), options.ttlMs)
    const { isNew, subscription, head } = await this.#core.subscribe(record, grantedMs)
    this.#webhooks.start()
    this.#core.ledger[isNew ? 'subscribed' : 'renewed']++
    this.#core.record(isNew ? 'event.subscribed' : 'event.renewed', name, {
      'kit.mcp.event.subscription': id,
      'kit.mcp.event.host': new URL(url).host,
    })
    const { cursor = head, maxAgeMs } = requested
    const start =
      isNew && requested.cursor !== undefined
        ? await this.#replay(subscription, cursor, maxAgeMs)
        : { position: watermark(subscription, head), truncated: cursor < 0 || cursor > head }
    return {
      id,
      refreshBefore: new Date(subscription.expiresAtMs).toISOString(),
      cursor: cursorText(start.position),
      truncated: start.truncated,
      ...(!isNew && { deliveryStatus: statusOf(subscription) }),
    }
  }

  /** Serves `events/unsubscribe`. @throws {ProtocolError} -32011 if the owner has no such subscription. */
  async #unsubscribe(exchange: Exchange, params: Params): Promise<Record<string, unknown>> {
    if (exchange.auth === undefined) throw withoutToken()
    const { name, delivery } = params
    const url = isRecord(delivery) ? delivery.url : undefined
    if (typeof name !== 'string' || typeof url !== 'string')
      throw invalidParams('name and delivery.url must be strings')
    const href = URL.parse(url)?.href ?? url
    const id = subscriptionId(callerKey(exchange, 'user').key, href, params)
    if (!(await this.#core.serve((store) => store.end(id)))) throw notFound('subscription')
    this.#core.ledger.unsubscribed++
    this.#core.record('event.unsubscribed', name, { 'kit.mcp.event.subscription': id })
    return {}
  }

  #target({ delivery }: Params): { readonly url: string; readonly secret: string } {
    if (!isRecord(delivery)) throw invalidParams('delivery must be an object')
    const { mode = 'webhook', url, secret } = delivery
    if (typeof mode !== 'string') throw invalidParams('delivery.mode must be a string')
    if (mode !== 'webhook') throw unsupportedDelivery(mode.slice(0, 64))
    const { props, options } = this.#core
    const problem = problemWithUrl(url, props.network?.isAllowed, options.webhooks.allowLoopback)
    if (problem !== undefined) throw invalidParams(`delivery.url ${problem}`)
    if (signingKeyOf(secret) === undefined)
      throw invalidParams('delivery.secret must be whsec_ and the base64 of 24 to 64 bytes')
    return { url: new URL(url as string).href, secret: secret as string }
  }

  /** Adds the events after a cursor to a subscription that has lapsed. */
  async #replay(subscription: StoredSubscription, cursor: Position, maxAgeMs: number | undefined) {
    const page = await this.#core.page(subscription, cursor, MAX_REPLAY, maxAgeMs)
    const added = page.events.map((event) =>
      this.#core.serve((store) => store.deliver(event, [subscription])),
    )
    const dropped = (await Promise.all(added)).flat()
    const position = (page.events[0]?.position ?? page.position + 1) - 1
    return { ...page, position, truncated: page.truncated || page.hasMore || dropped.length > 0 }
  }
}

function withoutToken(): Error {
  return forbidden('Webhooks need a request with an access token.')
}

/** Returns the secrets after a renewal: the new one and, for a while, the one before. */
function secretsOf(known: WebhookTarget | undefined, secret: string): readonly WebhookSecret[] {
  const nowMs = Date.now()
  const [current, previous] = known?.secrets ?? []
  const older =
    current === undefined || current.secret === secret
      ? previous
      : { secret: current.secret, untilMs: nowMs + ROTATION_MS }
  return [{ secret }, ...(older?.untilMs !== undefined && older.untilMs > nowMs ? [older] : [])]
}

function statusOf({ status }: StoredSubscription): object {
  const { lastDeliveryAtMs, lastError = null, failedSinceMs } = status
  const time = (ms: number | undefined) => (ms === undefined ? null : new Date(ms).toISOString())
  const failedSince = failedSinceMs !== undefined && { failedSince: time(failedSinceMs) }
  return { active: true, lastDeliveryAt: time(lastDeliveryAtMs), lastError, ...failedSince }
}

/**
 * Returns the events of a server, or undefined if the router declares no event type.
 * @throws {KitMcpConfigError} if an event type can only be delivered to webhooks, which need OAuth.
 */
export function makeEvents(props: EventsProps, { unusableOption }: OptionChecks): Events | undefined {
  const { table, gate } = props
  if (table.events.size === 0) return undefined
  for (const [name, { delivery }] of table.events)
    if (gate === undefined && delivery.size === 1 && delivery.has('webhook'))
      throw unusableOption(
        `delivery of event '${name}'`,
        `must not be only 'webhook' without OAuth, because a webhook belongs to a user`,
        `Set oauth, or add 'poll' or 'stream'.`,
      )
  const events = new Events(props)
  const hasWebhooks = [...table.events.values()].some(({ delivery }) => delivery.has('webhook'))
  // Another node may have left deliveries in a store that is shared.
  if (gate !== undefined && hasWebhooks && !isWorkerd()) events.start()
  return events
}
