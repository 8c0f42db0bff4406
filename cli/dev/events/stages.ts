import { type Attributes, attributeText } from './event.ts'
import { explain, SIGN_INS } from './refusals.ts'

/**
 * The states of a client by the latest step that matters for its sign-in. `bad`: it cannot continue without a change. `warn`: it has
 * another step to take.
 */
export const STATES = {
  begun: ['began', 'warn'],
  challenged: ['needs a token', 'warn'],
  'no-metadata': ['found no metadata', 'bad'],
  metadata: ['knows the resource', 'warn'],
  'issuer-metadata': ['knows the authorization server', 'warn'],
  registered: ['registered', 'warn'],
  'not-registered': ['not registered', 'bad'],
  page: ['waits for the user', 'warn'],
  consented: ['access allowed', 'warn'],
  denied: ['access denied', 'bad'],
  'not-authorized': ['not authorized', 'bad'],
  'not-signed-in': ['sign-in refused', 'bad'],
  token: ['has a token', 'warn'],
  'token-refused': ['got no token', 'bad'],
  called: ['signed in', 'good'],
  refused: ['token refused', 'bad'],
  scopes: ['needs more scopes', 'warn'],
  forbidden: ['forbidden', 'bad'],
} as const

export type Stage = keyof typeof STATES

type Next = (attributes: Attributes, issuer: string | undefined) => string | undefined

/** The next step of a client. */
const NEXT: Readonly<Partial<Record<Stage, string | Next>>> = {
  challenged({ challenge }) {
    const url = parameterOf(challenge, 'resource_metadata')
    return url === undefined
      ? 'The client fetches /.well-known/oauth-protected-resource of the server.'
      : `The client fetches ${url}, which WWW-Authenticate names.`
  },
  'no-metadata':
    'Mount protectedResourceRouter at the root of the application, so that clients find the metadata document.',
  metadata: (_, issuer) =>
    issuer === undefined
      ? 'The client fetches the metadata of the first entry of authorization_servers.'
      : `The client fetches ${issuer}/.well-known/oauth-authorization-server. If it asks another server, set issuer to ${issuer}.`,
  'issuer-metadata':
    'The client registers at registration_endpoint, and opens authorization_endpoint in a browser.',
  registered:
    'The client opens authorization_endpoint in a browser, with code_challenge (S256) and resource.',
  'not-registered': 'The client corrects its metadata and registers again.',
  page: 'The user allows or denies access on the sign-in page.',
  consented: (_, issuer) =>
    `The client takes the code from its redirect URI, and exchanges it at ${issuer === undefined ? 'token_endpoint' : `${issuer}/token`} within 60 s.`,
  denied: 'The client shows that access was denied. It starts again when the user tries again.',
  'not-authorized':
    'The client corrects its authorization request: client_id, redirect_uri, code_challenge, and resource.',
  'not-signed-in': ({ reason }) =>
    explain(SIGN_INS, reason)?.hint ?? 'The user starts again from the client.',
  token: 'The client repeats its request with Authorization: Bearer <token>.',
  'token-refused': ({ cause }) =>
    cause === undefined
      ? 'The client starts the sign-in again. A code works once, with the same redirect_uri, resource, and code_verifier.'
      : 'The client requests another assertion, which passes the check that the refusal names.',
  refused: 'The client refreshes its token or signs in again.',
  scopes({ challenge }) {
    const scope = parameterOf(challenge, 'scope')
    return `The client opens authorization_endpoint again, and requests ${scope === undefined ? 'the scopes of the challenge' : `scope=${scope}`}.`
  },
  forbidden: 'The server allows the origin or host, or the client uses another URL.',
}

/** Returns what a client has to do after a stage, or `undefined` if it is signed in. */
export function nextStep(
  stage: Stage,
  attributes: Attributes,
  issuer: string | undefined,
): string | undefined {
  const next = NEXT[stage]
  return typeof next === 'function' ? next(attributes, issuer) : next
}

/** Returns a parameter of a challenge. */
export function parameterOf(challenge: unknown, name: string): string | undefined {
  const [, value] = attributeText(challenge ?? '').split(` ${name}="`, 2)
  return value?.includes('"') ? value.slice(0, value.indexOf('"')) : undefined
}
