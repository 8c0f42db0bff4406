import type { SafeFetchSettings } from '../../../http/safe-fetch.ts'
import type {
  EventStore,
  StoredSubscription,
  SubscriptionRecord,
  TakenDelivery,
  WebhookError,
} from '../store.ts'

/** The decision about a delivery. `unavailable` postpones it. */
export type DeliveryVerdict = 'permitted' | 'denied' | 'unavailable'

/** The end of an attempt, for telemetry and for the ledger. */
export interface DeliveryReport {
  readonly outcome: 'delivered' | 'failed' | 'abandoned'
  readonly kind: TakenDelivery['kind']
  readonly subscription: StoredSubscription
  /** Absent for control messages. */
  readonly eventId?: string
  /** The number of attempts with this one. */
  readonly attempts: number
  readonly durationMs: number
  readonly error?: WebhookError
  /** The status of the response, if there was one. */
  readonly status?: number
}

/** The part of the core that the sender of webhooks uses. */
export interface WebhookHost {
  readonly store: EventStore
  /**
   * Decides whether the subscription still may have events: scopes, policy, and `authorize` of the event type. The sender asks
   * before each attempt of an event. If it is `denied`, the core ends the subscription with `terminated`, and the sender does
   * nothing more about the delivery. Never rejects.
   */
  judge(delivery: TakenDelivery): Promise<DeliveryVerdict>
  /** Returns the cursor for a position, as it is sent to clients. Rejects if the store is unavailable. */
  cursorAt(position: number): Promise<string>
  /** Counts and reports an attempt. Must not throw. */
  report(report: DeliveryReport): void
}

/** The settings of webhooks. */
export interface WebhookSettings {
  /**
   * The value of `webhook-id` for events: the id of the event, which receivers of today compare with `eventId` of the body, or
   * an id of the message, `msg_event_…`, which stays the same in all attempts. Control messages always have the latter.
   */
  readonly webhookId: 'event' | 'message'
  /** Sends `gap` and `terminated`. If `false`, a `gap` counts as abandoned without an attempt, and there is no `terminated`. */
  readonly controlMessages: boolean
  /** The access to the network. Tests replace it. */
  readonly network?: SafeFetchSettings
}

/** Sends the messages of webhooks. It takes deliveries from the store as long as it is open. */
export interface Webhooks {
  /** Returns a problem with `delivery.url` for the client, such as `must be an https URL`. Returns undefined if there is none. */
  problemWithUrl(url: unknown): string | undefined
  /** Returns a problem with `delivery.secret` for the client. The text does not contain the secret. */
  problemWithSecret(secret: unknown): string | undefined
  /**
   * Sends the challenge to the target of a subscription that is about to be made. Never rejects.
   * @returns the error, or undefined if the receiver has proven that it wants the messages
   */
  verify(record: SubscriptionRecord): Promise<WebhookError | undefined>
  /** Starts to take deliveries. The core calls it once, with the first request or event. Never throws. */
  start(): void
  /** Takes no more deliveries, and waits for the running attempts, at most `timeoutMs`. Never rejects. */
  close(options?: { readonly timeoutMs?: number }): Promise<void>
}

/** Creates the sender of a node. `src/mcp/events/webhooks/webhooks.ts` exports it. */
export type CreateWebhooks = (host: WebhookHost, settings: WebhookSettings) => Webhooks
