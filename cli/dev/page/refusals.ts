import type { RefusalReason } from '../../../src/oauth/decision.ts'

/** Why the gate refused, and what to do about it. */
export interface RefusalText {
  /** In the words of `error_description`. */
  readonly says: string
  readonly hint: string
}

const REFUSALS: Readonly<Record<RefusalReason, RefusalText>> = {
  missing: {
    says: 'an access token is required',
    hint: 'The first request of every client looks like this: the 401 tells it where to sign in. If it never comes back, let npx mcp-gatekit doctor look at the server.',
  },
  malformed: {
    says: 'the Authorization header must contain exactly one bearer token',
    hint: 'Send one header, Authorization: Bearer <token>, without quotes and with nothing behind the token.',
  },
  invalid: {
    says: 'the access token is invalid',
    hint: 'Compare iss and aud of the token with issuer and audience of the verifier. After a restart of mcp-gatekit dev its authorization server has new keys: sign in again.',
  },
  expired: {
    says: 'the access token has expired',
    hint: 'Let the client refresh it or sign in again. If it is new, compare the clocks of the two machines.',
  },
  wrong_resource: {
    says: 'the access token was issued for another resource',
    hint: 'The client must ask for a token with resource=<URL of this server> (RFC 8707). Compare aud of the token with resource of the server, to the letter.',
  },
  insufficient_scope: {
    says: 'the access token does not have the required scope',
    hint: 'The 403 names the scopes: the client has to sign in again and ask for them, and the authorization server to grant them.',
  },
  rate_limited: {
    says: 'too many failed requests from this address',
    hint: 'The client must wait as Retry-After says. While developing, leave rateLimit out.',
  },
}

/** What there is to say about a reason; undefined for one that this page does not know. */
export function refusalText(reason: unknown): RefusalText | undefined {
  return Object.hasOwn(REFUSALS, String(reason)) ? REFUSALS[reason as RefusalReason] : undefined
}
