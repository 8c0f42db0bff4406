import type { InvalidCause, RefusalReason } from '../../../src/oauth/decision.ts'
import { REFUSAL_DESCRIPTIONS } from '../../../src/oauth/refusal-responses.ts'
import { attributeText, lookUp } from './console-event.ts'

/** The explanation of a refusal, and the suggested fix. */
export interface RefusalText {
  readonly says: string
  readonly hint: string
}

const HINTS: Readonly<Record<RefusalReason, string>> = {
  missing:
    'This is normal for the first request of a client. The 401 contains the URL where it can sign in. If the client does not sign in, run npx mcp-gatekit doctor.',
  malformed:
    'Send one header, Authorization: Bearer <token>, without quotes and without anything after the token.',
  invalid:
    'Compare iss and aud of the token with issuer and audience of the verifier. If you restarted mcp-gatekit dev, sign in again: its authorization server has new keys.',
  expired: 'Refresh the token or sign in again. If the token is new, compare the clocks of both machines.',
  wrong_resource:
    'The client must request a token with resource=<URL of this server> (RFC 8707). The aud claim of the token must be identical to the resource of the server.',
  insufficient_scope:
    'The 403 names the required scopes. The client must sign in again and request them, and the authorization server must grant them.',
  rate_limited:
    'The client must wait as long as Retry-After says. During development, you can remove rateLimit.',
  origin:
    'A web page of another origin has sent the request. If it is yours, add its origin to allowedOrigins.',
  host: 'The request was sent to another host name. If it is one of yours, add it to allowedHosts.',
}

const SAYS: Readonly<Record<RefusalReason, string>> = {
  ...REFUSAL_DESCRIPTIONS,
  origin: 'The Origin is not allowed',
  host: 'The Host is not allowed',
}

/** The explanations of the reason `invalid`, by cause. */
const CAUSES: Readonly<Record<InvalidCause, RefusalText>> = {
  signature: {
    says: 'the signature does not match a key of the issuer',
    hint: 'If you restarted mcp-gatekit dev, sign in again: its authorization server has new keys. Otherwise compare jwksUri with the issuer.',
  },
  issuer: {
    says: 'the token is of another issuer',
    hint: 'The iss claim must be identical to the issuer of the verifier, including a slash at the end.',
  },
  algorithm: {
    says: 'the token is signed with an algorithm that is not allowed',
    hint: 'Compare alg in the header of the token with algorithms of the verifier.',
  },
  type: {
    says: 'it is not an access token of the expected kind',
    hint: 'Send the access token, not an ID token or a refresh token. Opaque tokens need introspectionVerifier.',
  },
  key_bound: {
    says: 'it is bound to a key that the request does not prove',
    hint: 'The client must send a DPoP proof, or request a bearer token.',
  },
  not_active: {
    says: 'it is not active',
    hint: 'It was revoked, is unknown to the authorization server, or is not valid yet. Sign in again, and compare the clocks.',
  },
  verifier: {
    says: 'verifyToken rejected it',
    hint: 'verifyToken threw, or returned a result without valid: true. Look for error.type in the event.',
  },
}

/** Returns the explanation for a request whose `Origin` or, if `origin` is `undefined`, `Host` is not allowed. */
export function forbiddenText(origin: unknown, host: unknown): RefusalText {
  return origin === undefined
    ? {
        says: `Host ${attributeText(host)} is not allowed`,
        hint: `Add the host name of ${attributeText(host)} to allowedHosts, or send the request to localhost.`,
      }
    : {
        says: `Origin ${attributeText(origin)} is not allowed`,
        hint: `Add '${attributeText(origin)}' to allowedOrigins. A loopback server permits only loopback origins by default.`,
      }
}

/** Returns the explanation of a reason, or `undefined` if the reason is unknown. @param cause the cause of `invalid` */
export function refusalText(reason: unknown, cause?: unknown): RefusalText | undefined {
  const caused = reason === 'invalid' ? lookUp(CAUSES, cause) : undefined
  const hint = lookUp(HINTS, reason)
  if (caused !== undefined || hint === undefined) return caused
  const says = SAYS[reason as RefusalReason]
  return { says: says.charAt(0).toLowerCase() + says.slice(1), hint }
}
