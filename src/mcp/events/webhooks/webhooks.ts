import { createHash, hash } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProtocolError } from '@modelcontextprotocol/server'
import { LRUCache } from 'lru-cache'
import { createResolverLookup } from '../../../base/http/resolver-lookup.ts'
import { retryAfterMs } from '../../../base/http/retry-after.ts'
import { createSafeFetch, isPublicAddress, type SafeFetch } from '../../../base/http/safe-fetch.ts'
import { within } from '../../../base/within.ts'
import { cursorText, type EventCore, watermark } from '../event-core.ts'
import { callbackError, exhausted } from '../event-params.ts'
import type { Delivery, DeliveryOutcome, SubscriptionRecord } from '../store.ts'
import { type Attempt, attempt, challengeEndpoint, type WebhookMessage } from './attempt.ts'
import { isLoopback } from './callback-url.ts'
import { PLACES, Places, QUARTER } from './places.ts'

/** The maximum time for one attempt, including the connection. */
const ATTEMPT_MS = 10_000

/** The waits between the attempts, and the longest one that an endpoint can ask for. They take at most 15 minutes in all. */
const RETRY_MS = [10_000, 30_000, 90_000, 270_000]
const LONGEST_ASKED_MS = 180_000
const MAX_TRY_MS = 900_000

/** The wait after a decision that could not be made, and the age from which a delivery is given up then. */
const UNAVAILABLE_MS = 30_000
const MAX_AGE_MS = 86_400_000

/** The wait of a challenge for a place. */
const NO_PLACE_MS = 100

/** The time for which a verified URL need not be verified again. */
const VERIFIED_MS = 86_400_000

/** The maximum number of challenges in one minute that fail, of one owner and to one host. */
const CHALLENGE_PERIOD_MS = 60_000
const MAX_FAILURES_PER_OWNER = 20
const MAX_FAILURES_PER_HOST = 60
const MAX_COUNTED = 10_000

/** The time that deliveries may take to end after they were aborted. */
const ABORT_MS = 1_000

/** The kinds of messages. `terminated` takes the place of an event that is refused. */
type Kind = Delivery['kind'] | 'terminated'

/** Sends the messages of webhooks. */
export class Webhooks {
  readonly #core: EventCore
  readonly #safeFetch: SafeFetch
  readonly #places = new Places()
  readonly #challengePlaces = new Places()
  /** The times at which receivers have answered a challenge of this node. */
  readonly #verified = new LRUCache<string, number>({ max: MAX_COUNTED, ttl: VERIFIED_MS })
  /** The challenges that have failed since the first one of a period. */
  readonly #failures = new LRUCache<string, number>({
    max: MAX_COUNTED,
    ttl: CHALLENGE_PERIOD_MS,
    noUpdateTTL: true,
  })
  readonly #aborted = new AbortController()
  #stop: (() => Promise<void>) | undefined
  #isClosed = false

  constructor(core: EventCore) {
    this.#core = core
    // One for each message that is sent.
    setMaxListeners(0, this.#aborted.signal)
    const local = core.options.webhooks.allowLoopback && {
      protocols: ['http:', 'https:'],
      isAllowed: (address: string) => isLoopback(address) || isPublicAddress(address),
    }
    const own = { timeoutMs: ATTEMPT_MS, lookup: createResolverLookup() }
    this.#safeFetch = createSafeFetch({ ...own, ...local, ...core.props.network })
  }

  /**
   * Lets a receiver prove that it wants the messages of an owner, once a day for each URL. Returns the time of the proof.
   * @param verifiedAtMs the last time, if the subscription exists
   * @throws {ProtocolError} if it does not, or too many challenges fail.
   */
  async verify(
    { id, owner, name }: Pick<SubscriptionRecord, 'id' | 'owner' | 'name'>,
    url: string,
    secret: string,
    verifiedAtMs = 0,
  ): Promise<number> {
    const key = hash('sha256', `${owner} ${url}`, 'base64url')
    const knownMs = Math.max(verifiedAtMs, this.#verified.get(key) ?? 0)
    if (knownMs > Date.now() - VERIFIED_MS) return knownMs
    const error = await this.#challenge(owner, { url, subscriptionId: id, secrets: [secret] })
    if (error !== undefined) {
      const { reason = 'rate_limited' } = error.data as { readonly reason?: string }
      this.#core.record('event.refused', name, { 'error.type': reason })
      throw error
    }
    this.#verified.set(key, Date.now())
    return Date.now()
  }

  async #challenge(
    owner: string,
    endpoint: Parameters<typeof challengeEndpoint>[1],
  ): Promise<ProtocolError | undefined> {
    const { host, hostname } = new URL(endpoint.url)
    const places = this.#challengePlaces
    const keys = [`owner ${owner}`, `host ${hostname}`] as const
    for (const startedMs = performance.now(); ; await sleep(NO_PLACE_MS)) {
      const [ofOwner, ofHost] = keys.map((key) => this.#failures.get(key) ?? 0) as [number, number]
      // Challenges that run may fail, too. An owner whose challenges succeed is not refused.
      if (ofOwner > 0 && ofOwner + places.of(owner) >= MAX_FAILURES_PER_OWNER)
        return exhausted('challenges', MAX_FAILURES_PER_OWNER)
      if (ofOwner > 0 && ofHost >= MAX_FAILURES_PER_HOST)
        return exhausted('challenges', MAX_FAILURES_PER_HOST)
      if (places.enter(host, owner) === 0) break
      if (performance.now() - startedMs > ATTEMPT_MS) return exhausted('challenges', QUARTER)
    }
    const enteredMs = performance.now()
    try {
      const error = await challengeEndpoint(this.#safeFetch, endpoint)
      if (error === undefined) return undefined
      for (const key of keys) this.#failures.set(key, (this.#failures.get(key) ?? 0) + 1)
      return callbackError(error)
    } finally {
      // Anyone may name a host here, so a failure gives it no pause.
      places.leave(host, owner, performance.now() - enteredMs)
    }
  }

  /** Starts to take what waits in the store. */
  start(): void {
    if (this.#isClosed) return
    this.#stop ??= this.#core.options.store.work((delivery) => this.#deliver(delivery), 2 * PLACES)
  }

  /** Takes nothing more, and waits for the running attempts, at most `timeoutMs`. Never rejects. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosed = true
    const ended = Promise.resolve(this.#stop?.())
    // A store that is away may never answer.
    const waited = (ms: number): Promise<void> => within(ended, ms, () => new Error()).catch(() => undefined)
    await waited(timeoutMs)
    this.#aborted.abort()
    await waited(ABORT_MS)
  }

  /** Makes one attempt, or postpones it. */
  async #deliver(delivery: Delivery): Promise<DeliveryOutcome> {
    const { kind, subscription } = delivery
    const { owner, webhook } = subscription
    const { host } = new URL(webhook.url)
    const { controlMessages } = this.#core.options.webhooks
    if (kind === 'gap' && !controlMessages) return this.#giveUp(delivery)
    const waitMs = this.#places.enter(host, owner)
    if (waitMs > 0) {
      const pauseMs = this.#places.pauseMs(host)
      if (pauseMs > 0 && ageOf(delivery) > MAX_TRY_MS) return this.#giveUp(delivery)
      // What waits longer for a host that is away tries less often, with jitter, so that it does not come back together. A gap does
      // not: there is one for each subscription.
      const longerMs = Math.min(MAX_TRY_MS, Math.max(pauseMs, ageOf(delivery)) * (1 + Math.random()))
      const awayMs = kind === 'gap' ? pauseMs : longerMs
      return { outcome: 'postponed', delayMs: Math.ceil(pauseMs > 0 ? awayMs : waitMs) }
    }
    const enteredMs = performance.now()
    let isReached: boolean | undefined
    try {
      const refusal = kind === 'event' ? await this.#refusal(delivery) : undefined
      if (refusal === 'unavailable') {
        if (ageOf(delivery) > MAX_AGE_MS) return this.#giveUp(delivery)
        return { outcome: 'postponed', delayMs: UNAVAILABLE_MS }
      }
      if (refusal !== undefined && !controlMessages) {
        await this.#core.terminated(subscription, refusal)
        return { outcome: 'abandoned' }
      }
      const { eventId, ...message } = this.#messageOf(delivery, refusal)
      const made = await attempt(this.#safeFetch, message, { signal: this.#aborted.signal })
      isReached = made.isReached
      // This node has ended the attempt.
      if (this.#aborted.signal.aborted && !isReached) return { outcome: 'postponed', delayMs: 0 }
      const result = outcomeOf(delivery, made)
      // The last message of a subscription takes the place of the event that is refused.
      if (refusal !== undefined && result.outcome !== 'failed')
        await this.#core.terminated(subscription, refusal)
      return this.#report({ kind: message.kind, subscription }, result, {
        ...(eventId !== undefined && { 'kit.mcp.event.id': eventId }),
        'kit.mcp.event.attempts': delivery.attempts + 1,
        ...(made.error !== undefined && { 'error.type': made.error }),
        ...(made.response !== undefined && { 'http.response.status_code': made.response.status }),
        duration_ms: performance.now() - enteredMs,
      })
    } finally {
      this.#places.leave(host, owner, performance.now() - enteredMs, isReached)
    }
  }

  /** Decides about an event. See `EventCore.refusal`. */
  async #refusal({ subscription, body }: Delivery): Promise<ProtocolError | 'unavailable' | undefined> {
    const entry = this.#core.props.table.events.get(subscription.name)
    // Another version of the server may know the event type.
    if (entry === undefined) return 'unavailable'
    try {
      const exchange = await this.#core.exchangeOf(subscription, entry)
      return await this.#core.refusal({ exchange, entry, record: subscription }, { body })
    } catch {
      return 'unavailable'
    }
  }

  /** Returns the message of a delivery, with the cursor that the client may keep, and the secrets that sign it now. */
  #messageOf(
    { id, kind: given, subscription, head, position, body }: Delivery,
    refusal: ProtocolError | undefined,
  ): WebhookMessage & { readonly kind: Kind; readonly eventId: string | undefined } {
    const kind = refusal === undefined ? given : 'terminated'
    const eventId: string | undefined = kind === 'event' ? JSON.parse(body).eventId : undefined
    // The last message of a subscription is the same for each of its events.
    const key = kind === 'terminated' ? `${subscription.id}.${subscription.since}` : id
    const ownId = `msg_${kind}_${createHash('sha256').update(key).digest('base64url').slice(0, 22)}`
    // Everything before the first event that waits is settled. This event is settled if the client keeps the cursor.
    const settled = watermark(subscription, head)
    const isFirst = (subscription.firstPending ?? position) >= position
    const cursor = cursorText(kind === 'event' && isFirst ? position : settled)
    const bodies = {
      event: () => `${body.slice(0, -1)},"cursor":${JSON.stringify(cursor)}}`,
      gap: () => JSON.stringify({ type: 'gap', cursor }),
      terminated: () =>
        JSON.stringify({ type: 'terminated', error: refusal && this.#core.errorBody(refusal) }),
    }
    const { webhookId } = this.#core.options.webhooks
    const { url, secrets } = subscription.webhook
    return {
      kind,
      eventId,
      url,
      subscriptionId: subscription.id,
      messageId: (webhookId === 'event' ? eventId : undefined) ?? ownId,
      body: bodies[kind](),
      secrets: secrets
        .filter(({ untilMs = Number.POSITIVE_INFINITY }) => untilMs > Date.now())
        .slice(0, 2)
        .map(({ secret }) => secret),
    }
  }

  /** Ends a delivery without an attempt. */
  #giveUp(delivery: Delivery): DeliveryOutcome {
    const attributes = { 'kit.mcp.event.attempts': delivery.attempts, duration_ms: 0 }
    return this.#report(delivery, { outcome: 'abandoned' }, attributes)
  }

  /** Counts an outcome, and returns it. */
  #report(
    { kind, subscription: { id, name } }: Pick<Delivery, 'subscription'> & { readonly kind: Kind },
    result: DeliveryOutcome,
    attributes: Readonly<Record<string, unknown>>,
  ): DeliveryOutcome {
    const { ledger } = this.#core
    const { outcome } = result
    if (outcome === 'postponed') return result
    if (outcome !== 'delivered') ledger[outcome]++
    else if (kind === 'event') ledger.delivered.webhook++
    const own = { 'kit.mcp.event.subscription': id, 'kit.mcp.event.kind': kind }
    this.#core.record(`event.${outcome}`, name, { ...own, ...attributes })
    return result
  }
}

function outcomeOf(delivery: Delivery, { response, error }: Attempt): DeliveryOutcome {
  const nowMs = Date.now()
  if (error === undefined) return { outcome: 'delivered', status: { lastDeliveryAtMs: nowMs } }
  const status = { failedSinceMs: nowMs, ...delivery.subscription.status, lastError: error }
  const waitMs = RETRY_MS[delivery.attempts]
  const isUnwanted = response?.status === 410 || response?.status === 413
  if (isUnwanted || waitMs === undefined || ageOf(delivery) > MAX_TRY_MS)
    return { outcome: 'abandoned', status }
  const { headers } = response ?? {}
  const askedMs = retryAfterMs({ retryAfter: headers?.get('retry-after'), date: headers?.get('date') })
  // With jitter, so that the messages of an outage do not arrive together.
  const jitteredMs = waitMs * (0.5 + Math.random() / 2)
  const delayMs = Math.round(Math.max(jitteredMs, Math.min(askedMs ?? 0, LONGEST_ASKED_MS)))
  return { outcome: 'failed', status, delayMs }
}

function ageOf({ addedAtMs }: Delivery): number {
  return Date.now() - addedAtMs
}
