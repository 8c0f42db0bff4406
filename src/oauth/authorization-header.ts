/** The maximum length of a token. A longer one is malformed. */
const MAX_TOKEN_LENGTH = 16_384

/** Credentials of RFC 6750 §2.1. The scheme is case-insensitive (RFC 9110 §11.1), and one or more spaces follow it. */
const CREDENTIALS = /^bearer +[A-Za-z0-9\-._~+/]+=*$/i
const BEARER_SCHEME = /^bearer(?:[\s,]|$)/i

/** Credentials of the DPoP scheme (RFC 9449 §7.1). */
const DPOP_CREDENTIALS = /^dpop +([A-Za-z0-9\-._~+/]+=*)$/i
const DPOP_SCHEME = /^dpop(?:[\s,]|$)/i

/**
 * The content of the `Authorization` header: a token, nothing of the Bearer scheme (`missing`), or credentials of that
 * scheme that RFC 6750 §2.1 does not allow (`malformed`).
 */
export type BearerCredentials =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'malformed' }

const MISSING: BearerCredentials = { kind: 'missing' }
const MALFORMED: BearerCredentials = { kind: 'malformed' }

/**
 * Reads the token from the received `Authorization` values of a request (RFC 6750 §2.1), without verifying it. Two values,
 * a comma-separated list, an empty token, and a token of more than 16 384 characters are malformed. Tokens in the query or
 * the body are never read.
 */
export function readBearerToken(values: string | readonly string[] | undefined): BearerCredentials {
  if (values === undefined) return MISSING
  if (typeof values === 'string') return readValue(values)
  if (values.length === 1) return readValue(values[0] as string)
  return values.some((value) => BEARER_SCHEME.test(value)) ? MALFORMED : MISSING
}

/** A token of the DPoP scheme, which is accepted only with its proof. */
export interface DpopCredentials {
  readonly kind: 'dpop'
  readonly token: string
}

/** Like `readBearerToken`, but also reads tokens of the DPoP scheme (RFC 9449 §7.1). */
export function readAccessToken(
  values: string | readonly string[] | undefined,
): BearerCredentials | DpopCredentials {
  const list = values === undefined || typeof values === 'string' ? [values ?? ''] : values
  if (!list.some((value) => DPOP_SCHEME.test(value))) return readBearerToken(values)
  const token = list.length === 1 ? DPOP_CREDENTIALS.exec(list[0] as string)?.[1] : undefined
  return token !== undefined && token.length <= MAX_TOKEN_LENGTH ? { kind: 'dpop', token } : MALFORMED
}

function readValue(value: string): BearerCredentials {
  if (CREDENTIALS.test(value)) {
    const token = value.slice(value.lastIndexOf(' ') + 1)
    if (token.length <= MAX_TOKEN_LENGTH) return { kind: 'token', token }
  }
  return BEARER_SCHEME.test(value) ? MALFORMED : MISSING
}
