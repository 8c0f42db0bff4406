import { type Attributes, attributeText, lookUp } from './console-event.ts'
import type { EventKind, Tone } from './event-kind.ts'
import type { RefusalText } from './refusals.ts'
import { assertionRefusal, signInRefusal } from './sign-in-refusals.ts'
import type { Stage } from './stages.ts'

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const PREFIX = 'kit.authorization.'

/** The events of an authorization server by name, without its prefix. */
const KINDS: Readonly<Record<string, (attributes: Attributes) => EventKind>> = {
  'client.registered': (a) => kind('registered', 'good', 'registered', clientOf(a)),
  'client.refused': (a) =>
    refused('not-registered', 'not registered', a, 'The client must correct the metadata that it registers.'),
  'consent.shown': (a) => kind('page', 'plain', 'sign-in page', `${scopesText(a.scope)} requested`),
  'consent.given': (a) =>
    kind('consented', 'good', 'allowed', `${attributeText(a.user)} allowed ${scopesText(a.scope)}`),
  'consent.denied': () => kind('denied', 'bad', 'denied', 'the user denied access'),
  'request.refused': (a) =>
    refused('not-authorized', 'not authorized', a, 'The client must correct its authorization request.'),
  'token.issued': (a) => {
    const resource = a.resource === undefined ? '' : ` for ${attributeText(a.resource)}`
    const how = a.grant_type === JWT_BEARER ? ', for an identity assertion' : ''
    return kind('token', 'good', 'token', `${scopesText(a.scope)}${resource}${how}`)
  },
  'token.refused': (a) => {
    const hint = 'The client must correct its token request, or start the sign-in again.'
    return refused('token-refused', 'no token', a, hint, assertionRefusal(a.cause))
  },
  'signin.refused': (a) => {
    const hint = 'The user starts again from the client.'
    return refused('not-signed-in', 'not signed in', a, hint, signInRefusal(a.reason))
  },
  'refresh.reused': () => {
    const title = 'a refresh token was used twice, and its tokens were revoked'
    const hint = 'The client keeps only the newest refresh token. The user signs in again.'
    return kind('token-refused', 'bad', 'token reused', title, hint)
  },
  revoked: (a) => kind(undefined, 'plain', 'revoked', `the tokens of ${clientOf(a)} were revoked`),
}

/** Returns the meaning of an event of an authorization server, or `undefined` for other events. */
export function signInKind(name: string, attributes: Attributes): EventKind | undefined {
  if (!name.startsWith(PREFIX)) return undefined
  return lookUp(KINDS, name.slice(PREFIX.length))?.(signInAttributes(attributes))
}

/**
 * Returns the attributes of an event of an authorization server under the names that the server of `mcp-gatekit dev` uses.
 * `authorizationFacade` emits events of the same names with its own attributes.
 */
export function signInAttributes(attributes: Attributes): Attributes {
  const { client, scopes, subject, reason } = attributes
  if (attributes.client_id !== undefined) return attributes
  return {
    ...(client !== undefined && { client_id: client }),
    ...(scopes !== undefined && { scope: scopes }),
    ...(subject !== undefined && { user: subject }),
    ...(reason !== undefined && { error: reason }),
    ...attributes,
  }
}

function kind(stage: Stage | undefined, tone: Tone, word: string, title: string, hint?: string): EventKind {
  return { group: 'gate', tone, word, title, hint, stage }
}

function refused(
  stage: Stage,
  word: string,
  { error, error_description: description }: Attributes,
  hint: string,
  text?: RefusalText,
): EventKind {
  const parts = [error, description].filter((part) => part !== undefined).map(attributeText)
  const title = [parts.join(': '), ...(text === undefined ? [] : [text.says])].join(': ')
  return kind(stage, 'bad', word, title, text?.hint ?? hint)
}

function clientOf({ client_name: name, client_id: id }: Attributes): string {
  return attributeText(name ?? id ?? 'a client')
}

function scopesText(scope: unknown): string {
  const scopes = attributeText(scope ?? '').split(' ')
  return scopes.filter((one) => one !== '' && one !== 'openid').join(' ') || 'no scopes'
}
