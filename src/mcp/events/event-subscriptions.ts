import type { ServerContext } from '@modelcontextprotocol/server'
import { isRecord } from '../../options/value-kinds.ts'
import { callerKey } from '../operations/limits/caller-key.ts'
import type { Exchange } from '../wire/exchange.ts'
import { checkCursorType, cursorAt, positionOf } from './cursors.ts'
import { storedAuth } from './event-access.ts'
import { type EventCore, readPage } from './event-core.ts'
import {
  callbackError,
  exhausted,
  forbidden,
  invalidParams,
  notFound,
  unsupportedDelivery,
} from './event-errors.ts'
import {
  givenArguments,
  namedSubscription,
  type Params,
  subscriptionId,
  wholeNumberOf,
} from './event-params.ts'
import { requestOf } from './event-readers.ts'
import type {
  Position,
  StoredSubscription,
  SubscriptionRecord,
  WebhookSecret,
  WebhookTarget,
} from './store.ts'
import type { Webhooks } from './webhooks/webhook-sender.ts'

/** The minimum time that a client can ask for, so that clients do not renew a subscription all the time. */
const MIN_TTL_MS = 60_000
/** The time for which the previous secret still signs. */
const ROTATION_MS = 600_000
/** The time for which a verified URL need not be verified again. */
const VERIFIED_MS = 86_400_000
/** The maximum number of events that a new subscription receives from the log. */
const MAX_REPLAY = 500
/** The maximum length of a record, in characters. The claims of a user are the part that has no other limit. */
const MAX_RECORD = 131_072

/** Serves `events/subscribe` and `events/unsubscribe`, which are about webhooks. */
export class EventSubscriptions {
  readonly #core: EventCore
  readonly #webhooks: Webhooks

  constructor(core: EventCore, webhooks: Webhooks) {
    this.#core = core
    this.#webhooks = webhooks
  }

  /** Serves `events/subscribe`: makes a subscription, or renews the one with the same owner, URL, name, and arguments. */
  async subscribe(exchange: Exchange, params: Params, sdk: ServerContext): Promise<Record<string, unknown>> {
    const { table, options } = this.#core.props
    const { auth } = exchange
    // Without an owner, anyone could end the subscription (SEP-3415, "Authentication required").
    if (auth === undefined) throw forbidden('Webhooks need a request with an access token.')
    const ttlMs = wholeNumberOf(params, 'ttlMs', 1) ?? options.ttlMs
    const maxAgeMs = wholeNumberOf(params, 'maxAgeMs', 0)
    checkCursorType(params.cursor)
    const { url, secret } = this.#target(params)
    const named = await namedSubscription(table, params, 'webhook')
    await this.#core.permit(exchange, named, requestOf(sdk, params))
    const owner = callerKey(exchange, 'user').key
    const { name, given, args } = named
    const id = subscriptionId(owner, url, name, given)
    const existing = await this.#core.serve((store) => store.get(id))
    const webhook: WebhookTarget = { url, secrets: secretsOf(existing?.webhook, secret) }
    const record = { id, owner, name, args: JSON.stringify(args), auth: storedAuth(auth), webhook }
    if (JSON.stringify(record).length > MAX_RECORD) throw exhausted('bytes', MAX_RECORD)
    await this.#verify(record)
    const grantedMs = Math.min(Math.max(MIN_TTL_MS, ttlMs), options.ttlMs)
    const result = await this.#core.serve((store) =>
      store.subscribe(record, { ttlMs: grantedMs, max: options.maxPerOwner }),
    )
    if (result.outcome === 'owner-full') throw exhausted('subscriptions', options.maxPerOwner)
    this.#webhooks.start()
    const { outcome, subscription, head } = result
    const isNew = outcome === 'added'
    this.#core.ledger[isNew ? 'subscribed' : 'renewed']++
    this.#core.record(isNew ? 'event.subscribed' : 'event.renewed', name, {
      'kit.mcp.event.subscription': id,
      'kit.mcp.event.host': new URL(url).host,
    })
    const epoch = await this.#core.epoch()
    const after = positionOf(epoch, head, params.cursor)
    const replayed =
      after === undefined || !isNew
        ? { position: watermark(subscription, head), truncated: after === -1 }
        : await this.#replay(record, after, maxAgeMs)
    return {
      id,
      refreshBefore: new Date(subscription.expiresAtMs).toISOString(),
      cursor: cursorAt(epoch, replayed.position),
      truncated: replayed.truncated,
      ...(!isNew && { deliveryStatus: statusOf(subscription) }),
    }
  }

  /** Serves `events/unsubscribe`. @throws {ProtocolError} -32011 if the owner has no such subscription. */
  async unsubscribe(exchange: Exchange, params: Params): Promise<Record<string, unknown>> {
    if (exchange.auth === undefined) throw forbidden('Webhooks need a request with an access token.')
    const { name, delivery } = params
    const url = isRecord(delivery) ? delivery.url : undefined
    if (typeof name !== 'string' || typeof url !== 'string')
      throw invalidParams('name and delivery.url must be strings')
    const href = URL.parse(url)?.href ?? url
    const id = subscriptionId(callerKey(exchange, 'user').key, href, name, givenArguments(params))
    if (!(await this.#core.serve((store) => store.end(id)))) throw notFound('subscription')
    this.#core.ledger.unsubscribed++
    this.#core.record('event.unsubscribed', name, { 'kit.mcp.event.subscription': id })
    return {}
  }

  #target({ delivery }: Params): { readonly url: string; readonly secret: string } {
    if (!isRecord(delivery)) throw invalidParams('delivery must be an object')
    const { mode, url, secret } = delivery
    if (mode !== undefined && mode !== 'webhook') throw unsupportedDelivery(String(mode).slice(0, 64))
    const problem = this.#webhooks.problemWithUrl(url)
    if (problem !== undefined) throw invalidParams(`delivery.url ${problem}`)
    const weak = this.#webhooks.problemWithSecret(secret)
    if (weak !== undefined) throw invalidParams(`delivery.secret ${weak}`)
    return { url: new URL(url as string).href, secret: secret as string }
  }

  /** Lets the receiver prove that it wants the messages, once for each owner and URL. */
  async #verify(record: SubscriptionRecord & { readonly webhook: WebhookTarget }): Promise<void> {
    const { owner, webhook } = record
    if (await this.#core.serve((store) => store.isVerified(owner, webhook.url))) return
    const error = await this.#webhooks.verify(record)
    if (error !== undefined) {
      this.#core.record('event.refused', record.name, { 'error.type': error })
      throw callbackError(error)
    }
    await this.#core.serve((store) => store.setVerified(owner, webhook.url, VERIFIED_MS))
  }

  /** Adds the events after a position to a subscription that has lapsed. */
  async #replay(
    record: SubscriptionRecord,
    after: Position,
    maxAgeMs: number | undefined,
  ): Promise<{ readonly position: Position; readonly truncated: boolean }> {
    const page = await readPage(this.#core, record, after, { maxEvents: MAX_REPLAY, maxAgeMs })
    const positions = page.events.map(({ position }) => position)
    const [first] = positions
    if (first === undefined) return page
    const added = { channels: [], deliveries: [record.id] }
    const { dropped } = await this.#core.serve((store) => store.extend(record.name, positions, added))
    return { position: first - 1, truncated: page.truncated || page.hasMore || dropped.length > 0 }
  }
}

/** Returns the position before which everything was delivered or abandoned. */
export function watermark({ firstPending }: StoredSubscription, head: Position): Position {
  return firstPending === undefined ? head : firstPending - 1
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
  const { lastDeliveryAtMs, lastError, failedSinceMs } = status
  const time = (ms: number): string => new Date(ms).toISOString()
  return {
    // A renewal makes failed deliveries due.
    active: true,
    lastDeliveryAt: lastDeliveryAtMs === undefined ? null : time(lastDeliveryAtMs),
    lastError: lastError ?? null,
    ...(failedSinceMs !== undefined && { failedSince: time(failedSinceMs) }),
  }
}
