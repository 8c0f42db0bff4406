import { randomBytes, timingSafeEqual } from 'node:crypto'
import type { SafeFetch } from '../../../http/safe-fetch.ts'
import { isRecord } from '../../../options/value-kinds.ts'
import { tryOrUndefined } from '../../../try-or-undefined.ts'
import type { WebhookError } from '../store.ts'
import { attempt, type WebhookMessage } from './attempt.ts'

/** The maximum size of the answer to a challenge, in bytes. */
const MAX_ANSWER_BYTES = 4_096

/**
 * Asks an endpoint whether it wants messages: sends it a random challenge once, signed like any message, and expects the challenge
 * in the response. Never rejects.
 * @returns `undefined` if the endpoint has answered, otherwise the category of the failure.
 * @see SEP-3415, "Endpoint verification"
 */
export async function challengeEndpoint(
  safeFetch: SafeFetch,
  endpoint: Pick<WebhookMessage, 'url' | 'subscriptionId' | 'secrets'>,
): Promise<WebhookError | undefined> {
  const challenge = randomBytes(32).toString('base64url')
  const outcome = await attempt(
    safeFetch,
    {
      ...endpoint,
      messageId: `msg_verification_${randomBytes(16).toString('base64url')}`,
      body: JSON.stringify({ type: 'verification', challenge }),
    },
    { responseBytes: MAX_ANSWER_BYTES },
  )
  if (outcome.kind !== 'accepted') return outcome.error
  const answer = await outcome.text()
  return isAnswer(answer, challenge) ? undefined : 'challenge_failed'
}

/** Returns `true` for the challenge in an object. A server that reflects each body does not want messages, and sends `type` too. */
function isAnswer(answer: string, challenge: string): boolean {
  const value: unknown = tryOrUndefined(() => JSON.parse(answer))
  if (!isRecord(value) || 'type' in value || typeof value.challenge !== 'string') return false
  const [given, expected] = [Buffer.from(value.challenge), Buffer.from(challenge)]
  return given.length === expected.length && timingSafeEqual(given, expected)
}
