/** Longest token that is read. Longer ones are no token. */
const MAX_TOKEN_LENGTH = 16_384

/** RFC 6750 §2.1 with the scheme in any case (RFC 9110 §11.1) and one or more spaces. */
const CREDENTIALS = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i
const BEARER_SCHEME = /^bearer(?:[\s,]|$)/i

/** The same for the scheme of RFC 9449 §7.1. */
const DPOP_CREDENTIALS = /^dpop +([A-Za-z0-9\-._~+/]+=*)$/i
const DPOP_SCHEME = /^dpop(?:[\s,]|$)/i

/**
 * What the `Authorization` header holds: a token; nothing of the Bearer scheme (`missing`); or
 * something of that scheme which RFC 6750 §2.1 does not allow (`malformed`).
 */
export type BearerCredentials =
  | { readonly kind: 'token'; readonly token: string }
  | { readonly kind: 'missing' }
  | { readonly kind: 'malformed' }

const MISSING: BearerCredentials = { kind: 'missing' }
const MALFORMED: BearerCredentials = { kind: 'malformed' }

/**
 * Reads the token from the `Authorization` values of a request, as they came (RFC 6750 §2.1).
 * Two values, a comma list, an empty token and one over 16 384 characters are no token.
 * Does not verify it. Tokens in the query or the body are never read.
 */
export function readBearerToken(values: string | readonly string[] | undefined): BearerCredentials {
  if (values === undefined) return MISSING
  if (typeof values === 'string') return readValue(values)
  if (values.length === 1) return readValue(values[0] as string)
  return values.some((value) => BEARER_SCHEME.test(value)) ? MALFORMED : MISSING
}

/** A token of the DPoP scheme, which is worth nothing without its proof. */
export interface DpopCredentials {
  readonly kind: 'dpop'
  readonly token: string
}

/** Reads as `readBearerToken` does, where a token may also come by the DPoP scheme (RFC 9449 §7.1). */
export function readAccessToken(
  values: string | readonly string[] | undefined,
): BearerCredentials | DpopCredentials {
  const list = values === undefined || typeof values === 'string' ? [values ?? ''] : values
  if (!list.some((value) => DPOP_SCHEME.test(value))) return readBearerToken(values)
  const token = list.length === 1 ? DPOP_CREDENTIALS.exec(list[0] as string)?.[1] : undefined
  return token !== undefined && token.length <= MAX_TOKEN_LENGTH ? { kind: 'dpop', token } : MALFORMED
}

function readValue(value: string): BearerCredentials {
  const token = CREDENTIALS.exec(value)?.[1]
  if (token !== undefined && token.length <= MAX_TOKEN_LENGTH) return { kind: 'token', token }
  return BEARER_SCHEME.test(value) ? MALFORMED : MISSING
}
