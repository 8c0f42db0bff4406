import { attributeText } from './attribute-text.ts'
import type { EventKind } from './event-kind.ts'
import { assertionRefusal, signInRefusal } from './sign-in-refusals.ts'

type Attributes = Readonly<Record<string, unknown>>

/** Returns the display form of an HTTP request that `mcp-gatekit dev` has observed. */
export function requestKind(attributes: Attributes): EventKind {
  const status = Number(attributeText(attributes['http.response.status_code']))
  const path = attributeText(attributes['url.path'])
  const outcome = `→ ${status === 499 ? 'the client disconnected' : status}`
  const from = attributes.origin === undefined ? '' : ` from ${attributeText(attributes.origin)}`
  const group = attributes.covered === true ? 'hidden' : 'request'
  if (attributes.preflight === true) {
    const refused = status >= 400
    return {
      group,
      tone: refused ? 'bad' : 'plain',
      word: 'preflight',
      title: `${path}${from} ${outcome}`,
      hint: refused ? originHint(attributes) : undefined,
    }
  }
  if (path.startsWith('/.well-known/')) {
    return { group, tone: status === 200 ? 'good' : 'plain', word: 'metadata', title: `${path} ${outcome}` }
  }
  if (isForbidden(attributes)) {
    const names = `${attributes.origin === undefined ? `Host ${attributeText(attributes.host)}` : `Origin ${attributeText(attributes.origin)}`}`
    return {
      group,
      tone: 'bad',
      word: 'forbidden',
      title: `${names} is not allowed ${outcome}`,
      hint: originHint(attributes),
    }
  }
  const operation = [attributes['mcp.method.name'], attributes['gen_ai.tool.name']].filter(
    (part) => part !== undefined,
  )
  const what =
    operation.length > 0
      ? operation.map(attributeText).join(' ')
      : `${attributeText(attributes['http.request.method'])} ${path}`
  return { group, tone: status >= 400 ? 'warn' : 'plain', word: 'request', title: `${what} ${outcome}` }
}

/** Returns `true` for a request that was refused for `Origin` or `Host`: it has no challenge. */
export function isForbidden(attributes: Attributes): boolean {
  return (
    attributes['http.response.status_code'] === 403 &&
    attributes.challenge === undefined &&
    attributes.covered !== true
  )
}

function originHint({ origin, host }: Attributes): string {
  return origin === undefined
    ? `Add the host name of ${host} to allowedHosts, or send the request to localhost.`
    : `Add '${origin}' to allowedOrigins. A loopback server permits only loopback origins by default.`
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

/** Returns the display form of an event of an authorization server, or `undefined` for other events. */
export function signInKind(name: string, stated: Attributes): EventKind | undefined {
  const attributes = signInAttributes(stated)
  const client = attributeText(attributes.client_name ?? attributes.client_id ?? 'a client')
  const problem = [attributes.error, attributes.error_description]
    .filter((part) => part !== undefined)
    .map(attributeText)
    .join(': ')
  const bad = (word: string, hint: string): EventKind => ({
    group: 'gate',
    tone: 'bad',
    word,
    title: problem,
    hint,
  })
  switch (name) {
    case 'kit.authorization.client.registered':
      return { group: 'gate', tone: 'good', word: 'registered', title: client }
    case 'kit.authorization.client.refused':
      return bad('not registered', 'The client must correct the metadata that it registers.')
    case 'kit.authorization.consent.shown':
      return {
        group: 'gate',
        tone: 'plain',
        word: 'sign-in page',
        title: `${scopesText(attributes.scope)} requested`,
      }
    case 'kit.authorization.consent.given':
      return {
        group: 'gate',
        tone: 'good',
        word: 'allowed',
        title: `${attributeText(attributes.user)} allowed ${scopesText(attributes.scope)}`,
      }
    case 'kit.authorization.consent.denied':
      return { group: 'gate', tone: 'bad', word: 'denied', title: 'the user denied access' }
    case 'kit.authorization.request.refused':
      return bad('not authorized', 'The client must correct its authorization request.')
    case 'kit.authorization.token.issued': {
      const resource = attributes.resource === undefined ? '' : ` for ${attributeText(attributes.resource)}`
      const how = attributes.grant_type === JWT_BEARER ? ', for an identity assertion' : ''
      return {
        group: 'gate',
        tone: 'good',
        word: 'token',
        title: `${scopesText(attributes.scope)}${resource}${how}`,
      }
    }
    case 'kit.authorization.token.refused': {
      const text = assertionRefusal(attributes.cause)
      const kind = bad('no token', 'The client must correct its token request, or start the sign-in again.')
      return text === undefined ? kind : { ...kind, title: `${problem}: ${text.says}`, hint: text.hint }
    }
    case 'kit.authorization.signin.refused': {
      const text = signInRefusal(attributes.reason)
      const kind = bad('not signed in', 'The user starts again from the client.')
      return text === undefined ? kind : { ...kind, title: `${problem}: ${text.says}`, hint: text.hint }
    }
    case 'kit.authorization.refresh.reused':
      return {
        ...bad('token reused', 'The client keeps only the newest refresh token. The user signs in again.'),
        title: 'a refresh token was used twice, and its tokens were revoked',
      }
    case 'kit.authorization.revoked':
      return { group: 'gate', tone: 'plain', word: 'revoked', title: `the tokens of ${client} were revoked` }
    default:
      return undefined
  }
}

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

function scopesText(scope: unknown): string {
  const scopes = attributeText(scope ?? '')
    .split(' ')
    .filter((one) => one !== '' && one !== 'openid')
  return scopes.length === 0 ? 'no scopes' : scopes.join(' ')
}
