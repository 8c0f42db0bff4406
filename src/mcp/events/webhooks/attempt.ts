import { randomBytes } from 'node:crypto'
import { FetchFailure, FetchRefusal, ResponseRefusal } from '../../../base/http/bounded-fetch.ts'
import type { SafeFetch } from '../../../base/http/safe-fetch.ts'
import { isRecord } from '../../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'
import type { WebhookError } from '../store.ts'
import { signatureOf } from './signature.ts'

/** One message to a callback URL. */
export interface WebhookMessage {
  readonly url: string
  /** The id that the response of `events/subscribe` contains. */
  readonly subscriptionId: string
  /** The value of `webhook-id`, which is the same in each attempt. */
  readonly messageId: string
  /** The body, as JSON. */
  readonly body: string
  /** The current secret and, in the time of a rotation, the previous one. */
  readonly secrets: readonly string[]
}

/** The outcome of one attempt. */
export interface Attempt {
  /** Absent if the host has sent none, or an invalid one. */
  readonly response?: Response
  /** Absent if the endpoint has accepted the message. */
  readonly error?: WebhookError
  /** `true` if the host has sent a response. */
  readonly isReached: boolean
}

/**
 * Sends one message once. Signs it with the current time, so that a later attempt is not rejected as old. Never rejects.
 * @param responseBytes the maximum size of the response body, in bytes. With 0, the status decides, and the body is not read.
 */
export async function attempt(
  safeFetch: SafeFetch,
  { url, subscriptionId, messageId: id, body, secrets }: WebhookMessage,
  { responseBytes = 0, signal }: { readonly responseBytes?: number; readonly signal?: AbortSignal } = {},
): Promise<Attempt> {
  const timestamp = Math.floor(Date.now() / 1_000)
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatureOf({ id, timestamp, body }, secrets),
    'x-mcp-subscription-id': subscriptionId,
  }
  try {
    const response = await safeFetch(url, {
      headers,
      body,
      maxBytes: responseBytes,
      ...(signal !== undefined && { signal }),
    })
    if (response.ok) return { response, isReached: true }
    // A redirect is not followed. It is a mistake of the endpoint, like other statuses below 500.
    return { response, isReached: true, error: response.status >= 500 ? 'http_5xx' : 'http_4xx' }
  } catch (error) {
    return { isReached: error instanceof ResponseRefusal, error: categoryOf(error) }
  }
}

/** Returns the category of an error of the network. An address that is not public does not differ from one that is closed. */
function categoryOf(error: unknown): WebhookError {
  if (error instanceof ResponseRefusal) return 'http_5xx'
  if (error instanceof FetchRefusal) return 'connection_refused'
  if (!(error instanceof FetchFailure)) return 'timeout'
  return error.codes.some(isTlsCode) ? 'tls_error' : 'connection_refused'
}

/** Recognizes the codes of TLS and of certificates, such as `ERR_TLS_CERT_ALTNAME_INVALID` and `CERT_HAS_EXPIRED`. */
function isTlsCode(code: string): boolean {
  return /CERT|SSL|TLS|EPROTO|ISSUER|CRL|SIGNATURE/.test(code)
}

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
  const { response, error } = await attempt(
    safeFetch,
    {
      ...endpoint,
      messageId: `msg_verification_${randomBytes(16).toString('base64url')}`,
      body: JSON.stringify({ type: 'verification', challenge }),
    },
    { responseBytes: MAX_ANSWER_BYTES },
  )
  if (error !== undefined) return error
  return isAnswer((await response?.text()) ?? '', challenge) ? undefined : 'challenge_failed'
}

/** Returns `true` for the challenge in an object. A server that reflects each body does not want messages, and sends `type` too. */
function isAnswer(answer: string, challenge: string): boolean {
  const value: unknown = tryOrUndefined(() => JSON.parse(answer))
  return isRecord(value) && !('type' in value) && value.challenge === challenge
}
