/** The numbers of a node since its start. They count what this node has done, whichever node has received or emitted it. */
export interface EventStats {
  /** Events that `emit` has stored. */
  readonly emitted: number
  /** Streams that are open now. */
  readonly streams: number
  /** Subscriptions with a webhook that were made, renewed, and ended by their clients. */
  readonly subscribed: number
  readonly renewed: number
  readonly unsubscribed: number
  /** Subscriptions that have ended because their owner may no longer receive the events. */
  readonly terminated: number
  /** Deliveries: attempts that a webhook has accepted, and events in the responses to `events/poll` and on streams. */
  readonly delivered: { readonly webhook: number; readonly poll: number; readonly stream: number }
  /** Attempts to reach a webhook that have failed and are repeated. */
  readonly failed: number
  /** Deliveries to webhooks that were given up. */
  readonly abandoned: number
  /** Deliveries to webhooks for which their owner had no room. */
  readonly dropped: number
}

/** Counts what a node does with events. */
export type EventLedger = ReturnType<typeof newLedger>

export function newLedger() {
  const delivered = { webhook: 0, poll: 0, stream: 0 }
  const subscriptions = { subscribed: 0, renewed: 0, unsubscribed: 0, terminated: 0 }
  return { emitted: 0, streams: 0, ...subscriptions, delivered, failed: 0, abandoned: 0, dropped: 0 }
}
