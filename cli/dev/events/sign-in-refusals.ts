import { lookUp } from './console-event.ts'
import type { RefusalText } from './refusals.ts'

const START_AGAIN = 'The user starts again from the client, and stays in one browser.'

/** The reasons of `kit.authorization.signin.refused`. */
const SIGN_INS: Readonly<Record<string, RefusalText>> = {
  check_failed: {
    says: 'allow or grantScopes failed',
    hint: 'Correct the function: it threw an error, its promise was rejected, or it did not decide within 10 s.',
  },
  failed: { says: 'a page failed with an unexpected error', hint: START_AGAIN },
  no_scope: {
    says: 'no scope can be granted',
    hint: 'The client requests a scope of the option scopes, or grantScopes returns one.',
  },
  not_allowed: {
    says: 'allow denied the user',
    hint: 'Let allow return true for this user, or sign in as another user.',
  },
  other_browser: { says: 'the sign-in was started in another browser', hint: START_AGAIN },
  provider_denied: {
    says: 'the identity provider denied the sign-in',
    hint: 'The user allows the access there, or an administrator does.',
  },
  provider_failed: {
    says: 'the sign-in at the identity provider failed',
    hint: 'Check issuer, clientId, and clientSecret of the option upstream, and the redirect URI at the provider.',
  },
  revoked: { says: 'access was revoked while the consent page was open', hint: START_AGAIN },
  unavailable: {
    says: 'the store is unavailable',
    hint: 'Check that this server reaches the option store, such as Redis.',
  },
  unknown_state: { says: 'the sign-in has expired', hint: START_AGAIN },
}

const REQUEST_ANOTHER = 'The client requests another assertion from the identity provider.'
const CORRECT_ISSUER = 'The identity provider corrects what it issues.'

/** The causes of `kit.authorization.token.refused` for identity assertions. */
const ASSERTIONS: Readonly<Record<string, RefusalText>> = {
  algorithm: { says: 'the algorithm is not asymmetric', hint: CORRECT_ISSUER },
  audience: {
    says: 'aud is not this server',
    hint: 'The client requests the assertion with audience set to the option url.',
  },
  client: {
    says: 'client_id is another client',
    hint: 'Give the identity provider the client id of the option clients.static.',
  },
  details: { says: 'authorization_details are not supported', hint: CORRECT_ISSUER },
  expired: { says: 'the assertion has expired', hint: REQUEST_ANOTHER },
  identifier: { says: 'sub or jti is missing or too long', hint: CORRECT_ISSUER },
  issuer: {
    says: 'the issuer is not accepted',
    hint: 'Add the iss of the assertion to the option identityAssertions.issuers.',
  },
  key_bound: {
    says: 'the DPoP proof of the key is missing',
    hint: 'The client sends a DPoP proof of the key in cnf.',
  },
  lifetime: { says: 'iat or exp is missing, or the assertion is valid for too long', hint: CORRECT_ISSUER },
  not_a_jwt: { says: 'the assertion is not a JWT', hint: 'The client sends the assertion unchanged.' },
  not_active: { says: 'the assertion is not valid yet', hint: 'Check the clocks of both servers.' },
  not_allowed: {
    says: 'allow denied the user',
    hint: 'Let allow return true for this user, or use another account.',
  },
  replayed: { says: 'the assertion was used already', hint: REQUEST_ANOTHER },
  resource: {
    says: 'resource is not one resource of this server',
    hint: 'The client requests the assertion with resource set to the URL of the MCP server.',
  },
  scope: {
    says: 'no scope can be granted',
    hint: 'The assertion names a scope of the option scopes, and grantScopes returns one.',
  },
  signature: {
    says: 'the signature is not valid',
    hint: 'Check that jwksUri or the metadata of the issuer names the keys that sign assertions.',
  },
  tenant: {
    says: 'the tenant is not accepted',
    hint: 'Set tenant of the issuer in the option identityAssertions.issuers.',
  },
  type: {
    says: 'the type is not oauth-id-jag+jwt',
    hint: 'The client sends an identity assertion, not an ID token.',
  },
}

/** Returns the explanation for the reason of a refused sign-in. */
export function signInRefusal(reason: unknown): RefusalText | undefined {
  return lookUp(SIGN_INS, reason)
}

/** Returns the explanation for the cause for which an identity assertion was refused. */
export function assertionRefusal(cause: unknown): RefusalText | undefined {
  return lookUp(ASSERTIONS, cause)
}
