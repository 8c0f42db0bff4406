import { attributeText } from './attribute-text.ts'
import { assertionRefusal, signInRefusal } from './sign-in-refusals.ts'

/** The latest step of a client that matters for its sign-in. */
export type Stage =
  | 'begun'
  | 'challenged'
  | 'no-metadata'
  | 'metadata'
  | 'issuer-metadata'
  | 'registered'
  | 'not-registered'
  | 'page'
  | 'consented'
  | 'denied'
  | 'not-authorized'
  | 'not-signed-in'
  | 'token'
  | 'token-refused'
  | 'called'
  | 'refused'
  | 'scopes'
  | 'forbidden'

/** A short description of each stage. */
export const STAGE_TEXTS: Readonly<Record<Stage, string>> = {
  begun: 'began',
  challenged: 'needs a token',
  'no-metadata': 'found no metadata',
  metadata: 'knows the resource',
  'issuer-metadata': 'knows the authorization server',
  registered: 'registered',
  'not-registered': 'not registered',
  page: 'waits for the user',
  consented: 'access allowed',
  denied: 'access denied',
  'not-authorized': 'not authorized',
  'not-signed-in': 'sign-in refused',
  token: 'has a token',
  'token-refused': 'got no token',
  called: 'signed in',
  refused: 'token refused',
  scopes: 'needs more scopes',
  forbidden: 'forbidden',
}

/** The stages in which the client cannot continue without a change. */
export const FAILED: readonly Stage[] = [
  'no-metadata',
  'not-registered',
  'denied',
  'not-authorized',
  'not-signed-in',
  'token-refused',
  'refused',
  'forbidden',
]

type Attributes = Readonly<Record<string, unknown>>

/** Returns what a client has to do after a stage, or `undefined` if it is signed in. */
export function nextStep(
  stage: Stage,
  attributes: Attributes,
  issuer: string | undefined,
): string | undefined {
  const challenge = attributeText(attributes.challenge ?? '')
  const server = issuer ?? 'the authorization server'
  switch (stage) {
    case 'challenged': {
      const url = parameterOf(challenge, 'resource_metadata')
      return url === undefined
        ? 'The client fetches /.well-known/oauth-protected-resource of the server.'
        : `The client fetches ${url}, which WWW-Authenticate names.`
    }
    case 'no-metadata':
      return 'Mount protectedResourceRouter at the root of the application, so that clients find the metadata document.'
    case 'metadata':
      return issuer === undefined
        ? 'The client fetches the metadata of the first entry of authorization_servers.'
        : `The client fetches ${issuer}/.well-known/oauth-authorization-server. If it asks another server, set issuer to ${issuer}.`
    case 'issuer-metadata':
      return 'The client registers at registration_endpoint, and opens authorization_endpoint in a browser.'
    case 'registered':
      return 'The client opens authorization_endpoint in a browser, with code_challenge (S256) and resource.'
    case 'not-registered':
      return 'The client corrects its metadata and registers again.'
    case 'page':
      return 'The user allows or denies access on the sign-in page.'
    case 'consented':
      return `The client takes the code from its redirect URI, and exchanges it at ${issuer === undefined ? 'token_endpoint' : `${server}/token`} within 60 s.`
    case 'denied':
      return 'The client shows that access was denied. It starts again when the user tries again.'
    case 'not-authorized':
      return 'The client corrects its authorization request: client_id, redirect_uri, code_challenge, and resource.'
    case 'not-signed-in':
      return signInRefusal(attributes.reason)?.hint ?? 'The user starts again from the client.'
    case 'token':
      return 'The client repeats its request with Authorization: Bearer <token>.'
    case 'token-refused':
      if (attributes.cause !== undefined) return assertionRefusal(attributes.cause)?.hint
      return 'The client starts the sign-in again. A code works once, with the same redirect_uri, resource, and code_verifier.'
    case 'refused':
      return 'The client refreshes its token or signs in again.'
    case 'scopes': {
      const scope = parameterOf(challenge, 'scope')
      return `The client opens authorization_endpoint again, and requests ${scope === undefined ? 'the scopes of the challenge' : `scope=${scope}`}.`
    }
    case 'forbidden':
      return 'The server allows the origin or host, or the client uses another URL.'
    default:
      return undefined
  }
}

/** Returns a parameter of a challenge. */
export function parameterOf(challenge: string, name: string): string | undefined {
  const before = `${name}="`
  // A space precedes each parameter, after the scheme or a comma.
  const at = challenge.indexOf(` ${before}`) + 1
  if (at === 0) return undefined
  const value = challenge.slice(at + before.length)
  return value.includes('"') ? value.slice(0, value.indexOf('"')) : undefined
}
