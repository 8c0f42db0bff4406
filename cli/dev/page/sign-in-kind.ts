import type { EventKind } from './event-kind.ts'

type Attributes = Readonly<Record<string, unknown>>

/** Returns the display form of an HTTP request that `mcp-gatekit dev` has observed. */
export function requestKind(attributes: Attributes): EventKind {
  const status = Number(attributes['http.response.status_code'])
  const path = String(attributes['url.path'])
  const outcome = `→ ${status === 499 ? 'the client disconnected' : status}`
  const from = attributes.origin === undefined ? '' : ` from ${attributes.origin}`
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
    const names = `${attributes.origin === undefined ? `Host ${attributes.host}` : `Origin ${attributes.origin}`}`
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
  const what = operation.length > 0 ? operation.join(' ') : `${attributes['http.request.method']} ${path}`
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

/** Returns the display form of an event of the authorization server, or `undefined` for other events. */
export function signInKind(name: string, attributes: Attributes): EventKind | undefined {
  const client = String(attributes.client_name ?? attributes.client_id ?? 'a client')
  const problem = [attributes.error, attributes.error_description]
    .filter((part) => part !== undefined)
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
        title: `${attributes.user} allowed ${scopesText(attributes.scope)}`,
      }
    case 'kit.authorization.consent.denied':
      return { group: 'gate', tone: 'bad', word: 'denied', title: 'the user denied access' }
    case 'kit.authorization.request.refused':
      return bad('not authorized', 'The client must correct its authorization request.')
    case 'kit.authorization.token.issued':
      return {
        group: 'gate',
        tone: 'good',
        word: 'token',
        title: `${scopesText(attributes.scope)}${attributes.resource === undefined ? '' : ` for ${attributes.resource}`}`,
      }
    case 'kit.authorization.token.refused':
      return bad('no token', 'The client must correct its token request, or start the sign-in again.')
    default:
      return undefined
  }
}

function scopesText(scope: unknown): string {
  const scopes = String(scope ?? '')
    .split(' ')
    .filter((one) => one !== '' && one !== 'openid')
  return scopes.length === 0 ? 'no scopes' : scopes.join(' ')
}
