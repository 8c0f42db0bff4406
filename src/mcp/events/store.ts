import type { Actor } from '../../oauth/actor.ts'

/**
 * A position in the log of an event type: one more for each event. A new log begins with the time in microseconds since 1970, so a
 * position of a log that was lost is not one of the log after it.
 */
export type Position = number

/** The reason why a webhook did not accept a message. The same words are sent to the client (`lastError`, `data.reason`). */
export type WebhookError =
  | 'connection_refused'
  | 'timeout'
  | 'tls_error'
  | 'http_4xx'
  | 'http_5xx'
  | 'challenge_failed'

/** A secret that signs messages. */
export interface WebhookSecret {
  /** `whsec_` and Base64, as the client has sent it. */
  readonly secret: string
  /** The time from which it no longer signs, in milliseconds since 1970. Absent for the current secret. */
  readonly untilMs?: number
}

/** The receiver of a subscription. */
export interface WebhookTarget {
  /** A valid callback URL, as `new URL(…).href` writes it. */
  readonly url: string
  /** One or two secrets, the newest first. */
  readonly secrets: readonly WebhookSecret[]
  /** The time of its last challenge, in milliseconds since 1970. */
  readonly verifiedAtMs: number
}

/** The members of a verified token that are kept for the decisions at each delivery. The token itself is not kept. */
export interface StoredAuth {
  readonly clientId: string
  readonly scopes: readonly string[]
  readonly issuer?: string
  readonly resource?: string
  readonly user?: unknown
  readonly act?: Actor
  readonly extra?: Readonly<Record<string, unknown>>
}

/** The part of a subscription that the client and its token determine. It is JSON. */
export interface SubscriptionRecord {
  /** `sub_` and a hash of owner, URL, name, and arguments. */
  readonly id: string
  /** The hash of the owner. At most 64 characters, without spaces. */
  readonly owner: string
  /** The name of the event type. */
  readonly name: string
  /** The validated arguments as JSON. The hash of `id` is that of the arguments as the client has sent them. */
  readonly args: string
  /** Absent for a caller without a token. Always present with `webhook`. */
  readonly auth?: StoredAuth
  /** Absent for a subscription by `events/poll` or `events/stream`. */
  readonly webhook?: WebhookTarget
}

/** The deliveries to a webhook so far. Times are in milliseconds since 1970. */
export interface DeliveryStatus {
  readonly lastDeliveryAtMs?: number
  /** Absent after a success. */
  readonly lastError?: WebhookError
  /** The time of the first failure since the last success. */
  readonly failedSinceMs?: number
}

/** A subscription as a store returns it. */
export interface StoredSubscription extends SubscriptionRecord {
  /** The newest position of the log when the subscription was made. */
  readonly since: Position
  /** The time at which it ends unless it is renewed, in milliseconds since 1970. */
  readonly expiresAtMs: number
  readonly status: DeliveryStatus
  /** The lowest position of its events that wait. Everything before it was delivered or abandoned. Absent if none waits. */
  readonly firstPending?: Position
}

/** The part of a subscription that `emit` needs. */
export interface Subscriber extends Pick<SubscriptionRecord, 'id' | 'owner'> {
  readonly since: Position
  /** Present if it was asked for. */
  readonly args?: string
}

/** An event of the log. */
export interface LoggedEvent {
  readonly position: Position
  /** Its readers: `''` for all, owners, or ids of subscriptions. */
  readonly channels: readonly string[]
  /** The body of a delivery without its cursor, as JSON: `eventId`, `name`, `timestamp`, and `data`. */
  readonly body: string
  /** The time at which it was appended, in milliseconds since 1970. */
  readonly atMs: number
}

/** The events of a log after a position. */
export interface LogPage {
  /** In the order of their positions. */
  readonly events: readonly LoggedEvent[]
  /** The newest position of the log. */
  readonly head: Position
  /** The position before the oldest event that the log still has. */
  readonly droppedUpTo: Position
}

/** A message to a webhook that a node attempts. */
export interface Delivery {
  /** Identifies it in all its attempts. */
  readonly id: string
  readonly kind: 'event' | 'gap'
  /** The subscription now. */
  readonly subscription: StoredSubscription & { readonly webhook: WebhookTarget }
  /** The newest position of the log. */
  readonly head: Position
  /** The position of the event. 0 for a `gap`. */
  readonly position: Position
  /** The body of the event, as JSON. Empty for a `gap`. */
  readonly body: string
  /** The number of attempts before this one, without those that were postponed. */
  readonly attempts: number
  /** The time at which it was added, in milliseconds since 1970. */
  readonly addedAtMs: number
}

/** The result of an attempt. */
export type DeliveryOutcome = {
  /** The status of the subscription now. Absent if it has not changed. */
  readonly status?: DeliveryStatus | undefined
} & (
  | { readonly outcome: 'delivered' }
  /** The attempt is repeated after `delayMs`. */
  | { readonly outcome: 'failed'; readonly delayMs: number }
  /** The attempt was not made, because the host is busy. */
  | { readonly outcome: 'postponed'; readonly delayMs: number }
  /** The delivery is given up. An event that is given up gets a `gap` message instead, if none waits. */
  | { readonly outcome: 'abandoned' }
)

/**
 * A store of subscriptions, of a log of each event type, and of the messages that wait for webhooks, which the nodes of a server
 * share. Every method may reject if the store is unavailable. All state is bounded and expires.
 *
 * An owner has at most 1,000 events and `maxBytesPerOwner` that wait. Beyond that, the oldest one is dropped, and its
 * subscription gets a `gap` message. The work of each method does not depend on what waits.
 */
export interface EventStore {
  /**
   * Adds a subscription, or renews the one with the same `id`, which is always possible. The store counts the subscriptions of an
   * owner with a webhook, and those without, apart.
   * @param options `ttlMs` is the time until it ends. `max` is the maximum number of the owner: one more with a webhook is refused,
   * and one more without ends the one of the owner that was renewed the longest ago. At the bound of all owners, the oldest one
   * without a webhook of the owner with the most ends.
   * @returns undefined if it was refused
   */
  subscribe(
    record: SubscriptionRecord,
    options: { readonly ttlMs: number; readonly max: number },
  ): Promise<
    | { readonly isNew: boolean; readonly subscription: StoredSubscription; readonly head: Position }
    | undefined
  >

  /** Returns a subscription, unless it has ended. */
  get(id: string): Promise<StoredSubscription | undefined>

  /**
   * Returns the subscriptions of an event type in pages: those that exist all the time are in one of them or in several.
   * @param options only those of `owners`, by default of all; only those with a webhook, or without; with `args` if `needsArgs`
   */
  subscribers(
    name: string,
    options: {
      readonly owners?: readonly string[] | undefined
      readonly hasWebhook: boolean
      readonly needsArgs: boolean
    },
  ): AsyncIterable<readonly Subscriber[]>

  /** Ends a subscription. What waits for it is dropped. Returns `true` if it existed. */
  end(id: string): Promise<boolean>

  /** Appends an event to the log, and returns its position. */
  append(name: string, event: Pick<LoggedEvent, 'body' | 'channels'>): Promise<Position>

  /** Reads at most `max` events after a position. */
  read(name: string, after: Position, max: number): Promise<LogPage>

  /**
   * Adds the delivery of an event to subscriptions with a webhook. When the promise resolves, none is lost, whatever happens to the
   * node. A subscription that has ended, or that has the event already, is left out.
   * @returns the ids of the subscriptions of which an event was dropped, once for each event
   */
  deliver(
    event: Pick<LoggedEvent, 'position' | 'body'>,
    subscribers: readonly Subscriber[],
  ): Promise<readonly string[]>

  /**
   * Calls `attempt` for each message that is due, at most `max` at the same time, until it is closed. The owner with fewer messages
   * that wait comes first. A message whose node ends during an attempt is due again.
   * @returns a function that ends it, and waits for the running attempts
   */
  work(attempt: (delivery: Delivery) => Promise<DeliveryOutcome>, max: number): () => Promise<void>

  /**
   * Calls `listener` after an event was appended, on this node or another, with the name of the event type, and with undefined if a
   * message of another node may be lost. It must not throw. Missed calls only delay.
   * @returns a function that removes the listener
   */
  watch(listener: (name: string | undefined) => void): () => void
}

/** The limits of a store of events. */
export interface EventStoreLimits {
  /**
   * The maximum size of the log of one event type, in bytes. The oldest events are dropped, and a client that has not read them gets
   * `truncated`. Defaults to 8 388 608 (8 MiB).
   */
  readonly maxLogBytes?: number | undefined
  /**
   * The time for which the log keeps an event, in milliseconds. `memoryEventStore` accepts at most 2 073 600 000 ms (24 days). Defaults
   * to 3 600 000 ms (one hour).
   */
  readonly maxLogAgeMs?: number | undefined
  /**
   * The maximum size of the events that wait for the webhooks of one owner, in bytes. There are at most 1,000 of them. Beyond it,
   * the oldest one is dropped, and its webhook gets a `gap` message. In memory, the subscriptions of an owner have the same bound.
   * Defaults to 8 388 608 (8 MiB).
   */
  readonly maxBytesPerOwner?: number | undefined
}
