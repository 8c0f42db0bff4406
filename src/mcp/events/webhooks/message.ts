import { createHash } from 'node:crypto'
import { isRecord } from '../../../options/value-kinds.ts'
import { tryOrUndefined } from '../../../try-or-undefined.ts'
import type { TakenDelivery } from '../store.ts'
import { isHeaderId, type WebhookMessage } from './attempt.ts'
import type { WebhookHost, WebhookSettings } from './webhook-sender.ts'

/** A message, and the id of its event. Control messages have none. */
export interface DeliveryMessage {
  readonly message: WebhookMessage
  readonly eventId: string | undefined
}

/**
 * Returns the message of a delivery: its body with the cursor that the client may keep, its id, and the secrets that sign it now.
 * Rejects if the store is unavailable.
 * @see SEP-3415, "Webhook Event Delivery" and "Non-event webhook bodies"
 */
export async function messageOf(
  delivery: TakenDelivery,
  { cursorAt }: Pick<WebhookHost, 'cursorAt'>,
  { webhookId }: Pick<WebhookSettings, 'webhookId'>,
): Promise<DeliveryMessage> {
  const { id, kind, subscription } = delivery
  const { url, secrets } = subscription.webhook
  const nowMs = Date.now()
  const eventId = kind === 'event' ? eventIdOf(delivery.body) : undefined
  const ownId = `msg_${kind}_${createHash('sha256').update(id).digest('base64url').slice(0, 22)}`
  return {
    eventId,
    message: {
      url,
      subscriptionId: subscription.id,
      messageId: webhookId === 'event' && eventId !== undefined && isHeaderId(eventId) ? eventId : ownId,
      body: await bodyOf(delivery, cursorAt),
      secrets: secrets
        .filter(({ untilMs }) => untilMs === undefined || untilMs > nowMs)
        .slice(0, 2)
        .map(({ secret }) => secret),
    },
  }
}

async function bodyOf(
  { kind, body, position, subscription }: TakenDelivery,
  cursorAt: WebhookHost['cursorAt'],
): Promise<string> {
  if (kind === 'terminated') return body
  const { firstPending } = subscription
  // Everything before the first pending event is settled. This event itself is settled if the client keeps the cursor.
  const isFirst = firstPending === undefined || firstPending >= position
  const cursor = await cursorAt(isFirst ? position : firstPending - 1)
  return kind === 'gap'
    ? JSON.stringify({ type: 'gap', cursor })
    : `${body.slice(0, -1)},"cursor":${JSON.stringify(cursor)}}`
}

function eventIdOf(body: string): string | undefined {
  const event: unknown = tryOrUndefined(() => JSON.parse(body))
  return isRecord(event) && typeof event.eventId === 'string' ? event.eventId : undefined
}
