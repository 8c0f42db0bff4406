import type { Actor } from '../../oauth/actor.ts'

/**
 * A position in a store: a whole number from 1 up. Each event and each new subscription takes the next one, so all of them are in
 * one order. A position is never used again.
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
  /** A URL that `Webhooks.problemWith` has found valid, as `new URL(…).href` writes it. */
  readonly url: string
  /** One or two secrets, the newest first. */
  readonly secrets: readonly WebhookSecret[]
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
  /** The hash of the owner. At most 64 characters. */
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
  /** The position at which the subscription was made. It gets the events after it. */
  readonly since: Position
  /** The time at which it ends unless it is renewed, in milliseconds since 1970. */
  readonly expiresAtMs: number
  readonly status: DeliveryStatus
  /**
   * The lowest position of its pending event deliveries. Absent if none is pending. Everything before it was delivered or abandoned,
   * so the position before it is the cursor that a client may keep.
   */
  readonly firstPending?: Position
}

/** An event to append. */
export interface NewEvent {
  readonly eventId: string
  readonly name: string
  /** The body of a delivery without its cursor, as JSON: `eventId`, `name`, `timestamp`, and `data`. At most 256 KiB. */
  readonly body: string
  /**
   * The readers of the event in the log: `''` for every subscription of the event type, or owners, or ids of subscriptions. The
   * store adds the event to each of these channels.
   */
  readonly channels: readonly string[]
  /** The ids of the subscriptions with a webhook that get a delivery. */
  readonly deliveries: readonly string[]
}

/** An event of the log. */
export interface LoggedEvent {
  readonly position: Position
  /** `NewEvent.body`. */
  readonly body: string
  /** The time at which it was appended, in milliseconds since 1970. */
  readonly atMs: number
}

/** The events of a log after a position. */
export interface LogPage {
  /** In the order of their positions. */
  readonly events: readonly LoggedEvent[]
  /** `true` if the page is full, and later events exist. */
  readonly hasMore: boolean
  /** The newest position of the store. */
  readonly head: Position
  /** The highest position that was dropped from the log of this event type, for its size or its age. 0 if there is none. */
  readonly droppedUpTo: Position
}

/** A message that is not an event. */
export type ControlKind = 'gap' | 'terminated'

/** A delivery that a node has taken. No other node takes it until its lease has ended. */
export interface TakenDelivery {
  /** Identifies the delivery in all its attempts. */
  readonly id: string
  /** Identifies this attempt. `settle` needs it. */
  readonly lease: string
  readonly kind: 'event' | ControlKind
  /** The subscription, also one that has ended with `terminated`, whose target is kept until that message is settled. */
  readonly subscription: StoredSubscription & { readonly webhook: WebhookTarget }
  /** The position of the event. Of a `gap`: the newest position of the store. Of `terminated`: 0. */
  readonly position: Position
  /** The body of the event, or of `terminated`, as JSON. Empty for a `gap`, whose body the sender makes. */
  readonly body: string
  /** The number of attempts before this one. */
  readonly attempts: number
  /** The time at which the delivery was added, in milliseconds since 1970. */
  readonly addedAtMs: number
}

/** The result of an attempt. */
export type DeliveryOutcome =
  | { readonly outcome: 'delivered' }
  /** The attempt is repeated after `delayMs`. */
  | { readonly outcome: 'failed'; readonly error: WebhookError; readonly delayMs: number }
  /** The attempt was not made, as while the circuit of the host is open. It is not counted. */
  | { readonly outcome: 'postponed'; readonly delayMs: number }
  /** The delivery is given up. An event that is given up gets a `gap` message instead, if none is pending. */
  | { readonly outcome: 'abandoned'; readonly error?: WebhookError }

/**
 * A store of subscriptions, of a log of events, and of pending deliveries, which the nodes of a server share. Every method is one
 * atomic step. Durations are relative, and the store measures them with its own clock.
 *
 * All state is bounded: the log of an event type in bytes, in events, and in age; the subscriptions of an owner in number and in
 * bytes; the pending deliveries of an owner in bytes, where each delivery counts with the whole body of its event. Every method
 * may reject if the store is unavailable.
 */
export interface EventStore {
  /**
   * Adds a subscription, or replaces the record of the one with the same `id` and renews it. A renewal keeps `since`, the status,
   * and the pending deliveries, and makes failed deliveries due at once. The store counts the subscriptions of an owner with a webhook, and those
   * without, apart.
   * @param options `ttlMs` is the time until it ends. `max` is the maximum number of the owner: one more with a webhook is refused
   * (`owner-full`), and one more without ends the one of the owner that was renewed the longest ago.
   */
  subscribe(
    record: SubscriptionRecord,
    options: { readonly ttlMs: number; readonly max: number },
  ): Promise<
    | {
        readonly outcome: 'added' | 'renewed'
        readonly subscription: StoredSubscription
        readonly head: Position
      }
    | { readonly outcome: 'owner-full' }
  >

  /** Returns a subscription, unless it has ended. */
  get(id: string): Promise<StoredSubscription | undefined>

  /**
   * Returns the subscriptions of an event type, and the newest position. They have no `status` that can be relied on.
   * @param owners only those of these owners. Defaults to all.
   * @param after only those made after this position. Defaults to 0.
   */
  list(
    name: string,
    options?: { readonly owners?: readonly string[]; readonly after?: Position },
  ): Promise<{ readonly subscriptions: readonly StoredSubscription[]; readonly head: Position }>

  /**
   * Ends a subscription and drops its pending deliveries.
   * @param terminated the body of the last message to its webhook, as JSON. By default, none is sent.
   * @returns `true` if it existed
   */
  end(id: string, terminated?: string): Promise<boolean>

  /**
   * Appends an event to the log and adds its deliveries. When the promise resolves, neither is lost, whatever happens to the node.
   * A subscription that has ended gets no delivery. A delivery for which its owner has no room is dropped, and its subscription
   * gets one `gap` message instead, if none is pending.
   * @returns the position of the event, and the ids of the subscriptions whose delivery was dropped
   */
  append(event: NewEvent): Promise<{ readonly position: Position; readonly dropped: readonly string[] }>

  /**
   * Adds appended events to further channels, and adds deliveries of them, as `append` does. It replaces none: a channel or a
   * delivery that an event has already has no effect, and neither has a position that the log has dropped. It serves for the
   * subscriptions that were made while an event was being appended, and for the replay after a subscription has lapsed.
   */
  extend(
    name: string,
    positions: readonly Position[],
    added: Pick<NewEvent, 'channels' | 'deliveries'>,
  ): Promise<{ readonly dropped: readonly string[] }>

  /** Reads the events of an event type after a position, of any of some channels. At least one event is returned if there is one. */
  read(
    name: string,
    channels: readonly string[],
    options: { readonly after: Position; readonly maxEvents: number; readonly maxBytes: number },
  ): Promise<LogPage>

  /** A random id of the log. Positions of another log mean nothing in this one. */
  epoch(): Promise<string>

  /**
   * Takes deliveries that are due: those that are new, whose delay is over, or whose lease has ended without `settle`. The deliveries
   * of one owner do not keep those of others waiting.
   * @param options `leaseMs` is the time in which no other node takes them. `max` is their maximum number. The deliveries to the
   * hosts of `busy`, with their ports, and those of its owners are left for later.
   * @returns the deliveries, and the time until the next one is due, in milliseconds. `Infinity` if none is pending.
   */
  take(options: {
    readonly leaseMs: number
    readonly max: number
    readonly busy?: { readonly hosts: readonly string[]; readonly owners: readonly string[] }
  }): Promise<{
    readonly deliveries: readonly TakenDelivery[]
    readonly nextInMs: number
  }>

  /**
   * Ends an attempt, and updates the status of the subscription.
   * @returns `false` if the lease has ended and another node has taken the delivery, or if its subscription has ended. The
   * outcome then has no effect.
   */
  settle(taken: Pick<TakenDelivery, 'id' | 'lease'>, outcome: DeliveryOutcome): Promise<boolean>

  /** Remembers for `ttlMs` that an owner has proven that a URL wants its messages. */
  setVerified(owner: string, url: string, ttlMs: number): Promise<void>

  /** Returns `true` if `setVerified` was called in time. */
  isVerified(owner: string, url: string): Promise<boolean>

  /**
   * Calls `listener` after events were appended or deliveries were added, on this node or another, with the name of the event type, and
   * with undefined if a message of another node may be lost. It must not throw. Missed calls only delay.
   * @returns a function that removes the listener
   */
  watch(listener: (name: string | undefined) => void): () => void
}
