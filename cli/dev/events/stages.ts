import { type Attributes, attributeText } from './console-event.ts'
import { assertionRefusal, signInRefusal } from './sign-in-refusals.ts'

/** A step of a client that matters for its sign-in. */
export interface StageText {
  /** The state of a client whose latest step is this one. */
  readonly text: string
  /** `bad` if the client cannot continue without a change. Defaults to `warn`: it has another step to take. */
  readonly tone?: 'good' | 'bad' | 'warn'
  /** The next step of the client, or `undefined` if it is signed in. */
  readonly next?: string | ((attributes: Attributes, issuer: string | undefined) => string | undefined)
}

export const STAGES = {
  begun: { text: 'began' },
  challenged: {
    text: 'needs a token',
    next({ challenge }) {
      const url = parameterOf(challenge, 'resource_metadata')
      return url === undefined
        ? 'The client fetches /.well-known/oauth-protected-resource of the server.'
        : `The client fetches ${url}, which WWW-Authenticate names.`
    },
  },
  'no-metadata': {
    text: 'found no metadata',
    tone: 'bad',
    next: 'Mount protectedResourceRouter at the root of the application, so that clients find the metadata document.',
  },
  metadata: {
    text: 'knows the resource',
    next: (_, issuer) =>
      issuer === undefined
        ? 'The client fetches the metadata of the first entry of authorization_servers.'
        : `The client fetches ${issuer}/.well-known/oauth-authorization-server. If it asks another server, set issuer to ${issuer}.`,
  },
  'issuer-metadata': {
    text: 'knows the authorization server',
    next: 'The client registers at registration_endpoint, and opens authorization_endpoint in a browser.',
  },
  registered: {
    text: 'registered',
    next: 'The client opens authorization_endpoint in a browser, with code_challenge (S256) and resource.',
  },
  'not-registered': {
    text: 'not registered',
    tone: 'bad',
    next: 'The client corrects its metadata and registers again.',
  },
  page: { text: 'waits for the user', next: 'The user allows or denies access on the sign-in page.' },
  consented: {
    text: 'access allowed',
    next: (_, issuer) =>
      `The client takes the code from its redirect URI, and exchanges it at ${issuer === undefined ? 'token_endpoint' : `${issuer}/token`} within 60 s.`,
  },
  denied: {
    text: 'access denied',
    tone: 'bad',
    next: 'The client shows that access was denied. It starts again when the user tries again.',
  },
  'not-authorized': {
    text: 'not authorized',
    tone: 'bad',
    next: 'The client corrects its authorization request: client_id, redirect_uri, code_challenge, and resource.',
  },
  'not-signed-in': {
    text: 'sign-in refused',
    tone: 'bad',
    next: ({ reason }) => signInRefusal(reason)?.hint ?? 'The user starts again from the client.',
  },
  token: {
    text: 'has a token',
    next: 'The client repeats its request with Authorization: Bearer <token>.',
  },
  'token-refused': {
    text: 'got no token',
    tone: 'bad',
    next: ({ cause }) =>
      cause === undefined
        ? 'The client starts the sign-in again. A code works once, with the same redirect_uri, resource, and code_verifier.'
        : assertionRefusal(cause)?.hint,
  },
  called: { text: 'signed in', tone: 'good' },
  refused: {
    text: 'token refused',
    tone: 'bad',
    next: 'The client refreshes its token or signs in again.',
  },
  scopes: {
    text: 'needs more scopes',
    next({ challenge }) {
      const scope = parameterOf(challenge, 'scope')
      return `The client opens authorization_endpoint again, and requests ${scope === undefined ? 'the scopes of the challenge' : `scope=${scope}`}.`
    },
  },
  forbidden: {
    text: 'forbidden',
    tone: 'bad',
    next: 'The server allows the origin or host, or the client uses another URL.',
  },
} satisfies Readonly<Record<string, StageText>>

export type Stage = keyof typeof STAGES

/** Returns what a client has to do after a stage, or `undefined` if it is signed in. */
export function nextStep(
  stage: Stage,
  attributes: Attributes,
  issuer: string | undefined,
): string | undefined {
  const { next }: StageText = STAGES[stage]
  return typeof next === 'function' ? next(attributes, issuer) : next
}

/** Returns a parameter of a challenge. */
export function parameterOf(challenge: unknown, name: string): string | undefined {
  const [, value] = attributeText(challenge ?? '').split(` ${name}="`, 2)
  return value?.includes('"') ? value.slice(0, value.indexOf('"')) : undefined
}
