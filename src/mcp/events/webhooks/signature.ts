import { createHmac } from 'node:crypto'

/** The prefix of a symmetric secret (Standard Webhooks 1.0, section "Symmetric"). */
const PREFIX = 'whsec_'

/** The minimum and maximum size of a secret, in bytes. */
const MIN_BYTES = 24
const MAX_BYTES = 64

/** Base64 with its padding. */
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** The length of the longest secret as text. */
const MAX_LENGTH = PREFIX.length + 4 * Math.ceil(MAX_BYTES / 3)

/** The values that are signed, next to the secret. */
export interface SignedParts {
  /** The value of `webhook-id`. */
  readonly id: string
  /** The value of `webhook-timestamp`, in seconds since 1970. */
  readonly timestamp: number
  readonly body: string
}

/**
 * Returns the key of a secret, or `undefined` unless the secret is `whsec_` followed by the base64 of 24 to 64 bytes.
 * @param secret the member `delivery.secret` of a request.
 */
export function signingKeyOf(secret: unknown): Buffer | undefined {
  if (typeof secret !== 'string' || secret.length > MAX_LENGTH || !secret.startsWith(PREFIX)) return undefined
  const encoded = secret.slice(PREFIX.length)
  if (!BASE64.test(encoded)) return undefined
  const key = Buffer.from(encoded, 'base64')
  return key.length >= MIN_BYTES && key.length <= MAX_BYTES ? key : undefined
}

/**
 * Returns the value of `webhook-signature`: one HMAC-SHA256 for each secret, so that a receiver that rotates its secret accepts
 * the message with the old one and with the new one.
 * @param secrets one or two secrets that {@link signingKeyOf} accepts. Others are left out.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function signatureOf({ id, timestamp, body }: SignedParts, secrets: readonly string[]): string {
  return secrets
    .map(signingKeyOf)
    .filter((key) => key !== undefined)
    .map((key) => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`)
    .join(' ')
}
