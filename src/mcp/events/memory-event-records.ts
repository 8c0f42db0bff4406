import type {
  DeliveryStatus,
  Position,
  StoredSubscription,
  SubscriptionRecord,
  TakenDelivery,
  WebhookTarget,
} from './store.ts'

export interface Kept {
  record: SubscriptionRecord
  bytes: number
  expiresAtMs: number
  status: DeliveryStatus
  readonly since: Position
  readonly owner: Owner
  /** The pending deliveries of events, by position and in its order. */
  readonly pending: Map<Position, Delivery>
  hasGap: boolean
}

/** The state of an owner. It is forgotten when it is empty. */
export interface Owner {
  readonly name: string
  /** By id, the one that was renewed the longest ago first. */
  readonly webhooks: Map<string, Kept>
  readonly others: Map<string, Kept>
  readonly deliveries: Map<string, Delivery>
  /** By URL, the time until which it counts as verified. */
  readonly verified: Map<string, number>
  bytes: number
}

export interface Delivery extends Omit<TakenDelivery, 'subscription' | 'lease' | 'attempts'> {
  readonly kept: Kept
  readonly bytes: number
  attempts: number
  /** The time of the next attempt or, during one, the end of its lease. */
  dueAtMs: number
  lease: string | undefined
}

/** The memory of a record in addition to its text. */
const ENTRY_BYTES = 512
/** In place of a subscription that has no room. */
export const NO_ROOM = { bytes: 0 } as Kept

export function groupOf({ webhooks, others }: Owner, { webhook }: SubscriptionRecord): Map<string, Kept> {
  return webhook === undefined ? others : webhooks
}

export function shown({ record, since, expiresAtMs, status, pending }: Kept): StoredSubscription {
  const firstPending = pending.size === 0 ? undefined : Math.min(...pending.keys())
  return { ...record, since, expiresAtMs, status, ...(firstPending !== undefined && { firstPending }) }
}

export function takenOf(delivery: Delivery, lease: string): TakenDelivery {
  const { id, kind, position, body, attempts, addedAtMs, kept } = delivery
  const subscription = shown(kept) as StoredSubscription & { readonly webhook: WebhookTarget }
  return { id, lease, kind, position, body, attempts, addedAtMs, subscription }
}

/** Strings take at most two bytes per character. */
export function bytesOf(text: string): number {
  return 2 * text.length + ENTRY_BYTES
}

/** Returns the host of the webhook of a subscription, with its port. */
export function hostOf({ record: { webhook } }: Kept): string {
  return webhook === undefined ? '' : new URL(webhook.url).host
}
