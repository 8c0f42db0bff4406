import { createResolverLookup } from '../../../http/resolver-lookup.ts'
import { createSafeFetch, type SafeFetch } from '../../../http/safe-fetch.ts'
import { WindowCounter } from '../../../oauth/window-counter.ts'
import type { DeliveryOutcome, SubscriptionRecord, TakenDelivery, WebhookError } from '../store.ts'
import { type AttemptOutcome, attempt, type WebhookMessage } from './attempt.ts'
import { problemWithUrl } from './callback-url.ts'
import { challengeEndpoint } from './challenge.ts'
import { DeliveryLoop } from './delivery-loop.ts'
import { HostLimits } from './host-limits.ts'
import { messageOf } from './message.ts'
import { retryDelayMs } from './retry-delay.ts'
import { signingKeyOf } from './signature.ts'
import type { CreateWebhooks, WebhookHost, WebhookSettings, Webhooks } from './webhook-sender.ts'

/** The maximum time for one attempt, including the connection. */
const ATTEMPT_MS = 10_000

/** The time in which no other node takes a delivery. An attempt that would not end in this time is not begun. */
const LEASE_MS = 30_000

/** The age from which a delivery is given up, however few attempts there were. */
const MAX_AGE_MS = 86_400_000

/** The wait after a decision that could not be made. */
const UNAVAILABLE_MS = 30_000

/** The wait before an outcome is sent again to a store that does not answer, and how often it is sent. */
const SETTLE_AGAIN_MS = 1_000
const MAX_SETTLES = 5

/** The maximum number of challenges in one minute, to one host and for one owner. */
const CHALLENGE_PERIOD_MS = 60_000
const MAX_CHALLENGES_PER_HOST = 60
const MAX_CHALLENGES_PER_OWNER = 20
const MAX_COUNTED = 10_000

/** The default time that `close` waits for running attempts. */
const CLOSE_MS = 5_000

/** Creates the sender of the webhooks of one node. */
export const createWebhooks: CreateWebhooks = (host, settings) => new WebhookSender(host, settings)

class WebhookSender implements Webhooks {
  readonly #host: WebhookHost
  readonly #settings: WebhookSettings
  readonly #safeFetch: SafeFetch
  readonly #limits = new HostLimits()
  readonly #challenges = new WindowCounter(MAX_COUNTED)
  readonly #loop: DeliveryLoop
  /** The attempts that run. */
  readonly #attempts = new Set<AbortController>()
  /** `true` when the attempts were ended by `close`. */
  #isAborted = false

  constructor(host: WebhookHost, settings: WebhookSettings) {
    this.#host = host
    this.#settings = settings
    this.#safeFetch = createSafeFetch({
      timeoutMs: ATTEMPT_MS,
      lookup: createResolverLookup(),
      ...settings.network,
    })
    this.#loop = new DeliveryLoop({
      store: host.store,
      leaseMs: LEASE_MS,
      limits: this.#limits,
      deliver: (delivery) => this.#deliver(delivery),
    })
  }

  problemWithUrl(url: unknown): string | undefined {
    return problemWithUrl(url, this.#settings.network?.isAllowed)
  }

  problemWithSecret(secret: unknown): string | undefined {
    return signingKeyOf(secret) === undefined ? 'must be whsec_ and the base64 of 24 to 64 bytes' : undefined
  }

  async verify({ id, owner, webhook }: SubscriptionRecord): Promise<WebhookError | undefined> {
    if (webhook === undefined) return 'challenge_failed'
    const { url, secrets } = webhook
    const { host } = new URL(url)
    if (!this.#mayChallenge(host, owner)) return 'challenge_failed'
    if ((await this.#limits.enter(host, owner)) > 0) return 'timeout'
    const endpoint = { url, subscriptionId: id, secrets: secrets.slice(0, 1).map(({ secret }) => secret) }
    try {
      return await challengeEndpoint(this.#safeFetch, endpoint)
    } finally {
      // Anyone may name a host here, so a failure must not stop the deliveries to it.
      this.#limits.leave(host, owner, undefined)
    }
  }

  start(): void {
    this.#loop.start()
  }

  async close({ timeoutMs = CLOSE_MS }: { readonly timeoutMs?: number } = {}): Promise<void> {
    await this.#loop.stop(timeoutMs, () => {
      this.#isAborted = true
      for (const running of this.#attempts) running.abort()
    })
  }

  #mayChallenge(host: string, owner: string): boolean {
    const ofOwner = this.#challenges.add(`owner ${owner}`, CHALLENGE_PERIOD_MS).points
    if (ofOwner > MAX_CHALLENGES_PER_OWNER) return false
    return this.#challenges.add(`host ${host}`, CHALLENGE_PERIOD_MS).points <= MAX_CHALLENGES_PER_HOST
  }

  /** Makes one attempt, or postpones it if too many run. Never rejects. */
  async #deliver(delivery: TakenDelivery): Promise<void> {
    const takenMs = performance.now()
    const { owner, webhook } = delivery.subscription
    const { host } = new URL(webhook.url)
    if (delivery.kind !== 'event' && !this.#settings.controlMessages) return await this.#giveUp(delivery)
    const busyMs = await this.#limits.enter(host, owner)
    if (busyMs > 0) {
      // Jitter, so that the deliveries that wait for one host do not come back together.
      const delayMs = Math.round(busyMs * (1 + Math.random()))
      await this.#settle(delivery, { outcome: 'postponed', delayMs })
      return
    }
    let isReached: boolean | undefined
    try {
      if (this.#isAborted) {
        await this.#settle(delivery, { outcome: 'postponed', delayMs: 0 })
        return
      }
      const verdict = delivery.kind === 'event' ? await this.#host.judge(delivery) : 'permitted'
      if (verdict === 'denied') return
      const made =
        verdict === 'permitted'
          ? await messageOf(delivery, this.#host, this.#settings).catch(() => undefined)
          : undefined
      if (made === undefined) {
        if (isTooOld(delivery)) return await this.#giveUp(delivery)
        await this.#settle(delivery, { outcome: 'postponed', delayMs: UNAVAILABLE_MS })
        return
      }
      // The process may have been paused. Another node has the delivery by now, or gets it soon.
      if (performance.now() - takenMs > LEASE_MS - ATTEMPT_MS) return
      const startedMs = performance.now()
      const outcome = await this.#attempt(made.message)
      isReached = outcome.kind !== 'failed' || outcome.isReached
      await this.#conclude(delivery, made.eventId, outcome, performance.now() - startedMs)
    } finally {
      this.#limits.leave(host, owner, isReached)
    }
  }

  /** Ends a delivery without an attempt. */
  async #giveUp(delivery: TakenDelivery): Promise<void> {
    const { kind, subscription, attempts } = delivery
    await this.#settle(delivery, { outcome: 'abandoned' })
    this.#host.report({ outcome: 'abandoned', kind, subscription, attempts, durationMs: 0 })
  }

  async #attempt(message: WebhookMessage): Promise<AttemptOutcome> {
    const running = new AbortController()
    this.#attempts.add(running)
    try {
      return await attempt(this.#safeFetch, message, { signal: running.signal })
    } finally {
      this.#attempts.delete(running)
    }
  }

  async #conclude(
    delivery: TakenDelivery,
    eventId: string | undefined,
    outcome: AttemptOutcome,
    durationMs: number,
  ): Promise<void> {
    const { kind, subscription } = delivery
    const attempts = delivery.attempts + 1
    const settled = this.#outcomeOf(delivery, outcome)
    // An endpoint that is gone gets no further message, and its subscriber can subscribe again.
    if (outcome.kind === 'gone') await this.#persist(() => this.#host.store.end(subscription.id))
    if (outcome.kind !== 'gone' || kind === 'terminated') await this.#settle(delivery, settled)
    if (settled.outcome === 'postponed') return
    this.#host.report({
      outcome: settled.outcome,
      kind,
      subscription,
      ...(eventId !== undefined && { eventId }),
      attempts,
      durationMs,
      ...(outcome.kind !== 'accepted' && { error: outcome.error }),
      ...(outcome.status !== undefined && { status: outcome.status }),
    })
  }

  #outcomeOf(delivery: TakenDelivery, outcome: AttemptOutcome): DeliveryOutcome {
    if (outcome.kind === 'accepted') return { outcome: 'delivered' }
    const { error } = outcome
    if (outcome.kind !== 'failed') return { outcome: 'abandoned', error }
    // The attempt was ended by this node.
    if (this.#isAborted && !outcome.isReached) return { outcome: 'postponed', delayMs: 0 }
    const delayMs = retryDelayMs(delivery.attempts + 1, outcome.retryAfterMs)
    return delayMs === undefined || isTooOld(delivery)
      ? { outcome: 'abandoned', error }
      : { outcome: 'failed', error, delayMs }
  }

  async #settle(delivery: TakenDelivery, outcome: DeliveryOutcome): Promise<void> {
    await this.#persist(() => this.#host.store.settle(delivery, outcome))
    // The store has added a gap.
    if (outcome.outcome === 'abandoned') this.#loop.wake()
  }

  /** Sends a change to the store until it answers. If it never does, the delivery is sent again after its lease. */
  async #persist(change: () => Promise<unknown>): Promise<void> {
    for (let tries = 1; tries <= MAX_SETTLES; tries++) {
      try {
        await change()
        return
      } catch {
        if (this.#isAborted) return
        await new Promise((resolve) => setTimeout(resolve, SETTLE_AGAIN_MS).unref())
      }
    }
  }
}

function isTooOld({ addedAtMs }: TakenDelivery): boolean {
  return Date.now() - addedAtMs > MAX_AGE_MS
}
