import type { InvalidCause, RefusalReason } from '../../../src/oauth/decision.ts'
import { REFUSAL_DESCRIPTIONS } from '../../../src/oauth/refusal-responses.ts'
import { attributeText, lookUp } from './event.ts'

/** The explanation of a refusal, and the suggested fix. */
export type RefusalText = ReturnType<typeof forbiddenText>

/** Sentences about a refusal, by reason: the explanation up to the first full stop, and the suggested fix. */
type Explanations<Reason extends string = string> = Readonly<Record<Reason, string>>

const REASONS: Explanations<RefusalReason> = {
  missing: `${REFUSAL_DESCRIPTIONS.missing}. This is normal for the first request of a client. The 401 contains the URL where it can sign in. If the client does not sign in, run npx mcp-gatekit doctor.`,
  malformed: `${REFUSAL_DESCRIPTIONS.malformed}. Send one header, Authorization: Bearer <token>, without quotes and without anything after the token.`,
  invalid: `${REFUSAL_DESCRIPTIONS.invalid}. Compare iss and aud of the token with issuer and audience of the verifier. If you restarted mcp-gatekit dev, sign in again: its authorization server has new keys.`,
  expired: `${REFUSAL_DESCRIPTIONS.expired}. Refresh the token or sign in again. If the token is new, compare the clocks of both machines.`,
  wrong_resource: `${REFUSAL_DESCRIPTIONS.wrong_resource}. The client must request a token with resource=<URL of this server> (RFC 8707). The aud claim of the token must be identical to the resource of the server.`,
  insufficient_scope: `${REFUSAL_DESCRIPTIONS.insufficient_scope}. The 403 names the required scopes. The client must sign in again and request them, and the authorization server must grant them.`,
  rate_limited: `${REFUSAL_DESCRIPTIONS.rate_limited}. The client must wait as long as Retry-After says. During development, you can remove rateLimit.`,
  origin:
    'The Origin is not allowed. A web page of another origin has sent the request. If it is yours, add its origin to allowedOrigins.',
  host: 'The Host is not allowed. The request was sent to another host name. If it is one of yours, add it to allowedHosts.',
}

/** The explanations of the reason `invalid`, by cause. */
const CAUSES: Explanations<InvalidCause> = {
  signature:
    'the signature does not match a key of the issuer. If you restarted mcp-gatekit dev, sign in again: its authorization server has new keys. Otherwise compare jwksUri with the issuer.',
  issuer:
    'the token is of another issuer. The iss claim must be identical to the issuer of the verifier, including a slash at the end.',
  algorithm:
    'the token is signed with an algorithm that is not allowed. Compare alg in the header of the token with algorithms of the verifier.',
  type: 'it is not an access token of the expected kind. Send the access token, not an ID token or a refresh token. Opaque tokens need introspectionVerifier.',
  key_bound:
    'it is bound to a key that the request does not prove. The client must send a DPoP proof, or request a bearer token.',
  not_active:
    'it is not active. It was revoked, is unknown to the authorization server, or is not valid yet. Sign in again, and compare the clocks.',
  verifier:
    'verifyToken rejected it. verifyToken threw, or returned a result without valid: true. Look for error.type in the event.',
}

const START_AGAIN = 'The user starts again from the client, and stays in one browser.'

/** The reasons of `kit.authorization.signin.refused`. */
export const SIGN_INS: Explanations = {
  check_failed:
    'allow or grantScopes failed. Correct the function: it threw an error, its promise was rejected, or it did not decide within 10 s.',
  failed: `a page failed with an unexpected error. ${START_AGAIN}`,
  no_scope:
    'no scope can be granted. The client requests a scope of the option scopes, or grantScopes returns one.',
  not_allowed: 'allow denied the user. Let allow return true for this user, or sign in as another user.',
  other_browser: `the sign-in was started in another browser. ${START_AGAIN}`,
  provider_denied:
    'the identity provider denied the sign-in. The user allows the access there, or an administrator does.',
  provider_failed:
    'the sign-in at the identity provider failed. Check issuer, clientId, and clientSecret of the option upstream, and the redirect URI at the provider.',
  revoked: `access was revoked while the consent page was open. ${START_AGAIN}`,
  unavailable: 'the store is unavailable. Check that this server reaches the option store, such as Redis.',
  unknown_state: `the sign-in has expired. ${START_AGAIN}`,
}

/** Returns the explanation for a request whose `Origin` or, if `origin` is `undefined`, `Host` is not allowed. */
export function forbiddenText(origin: unknown, host: unknown) {
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
  return (reason === 'invalid' ? explain(CAUSES, cause) : undefined) ?? explain(REASONS, reason)
}

/** Returns the explanation of a reason in a table, or `undefined` if it is unknown. */
export function explain(explanations: Explanations, reason: unknown): RefusalText | undefined {
  const text = lookUp(explanations, reason)
  if (text === undefined) return undefined
  const end = text.indexOf('. ')
  return { says: text.charAt(0).toLowerCase() + text.slice(1, end), hint: text.slice(end + 2) }
}
