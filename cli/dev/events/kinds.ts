import type { WebhookError } from '../../../src/mcp/events/store.ts'
import { LIMITS } from '../../../src/mcp/router/limits.ts'
import { namesLoopback } from '../../loopback.ts'
import { type Attributes, attributeText, type ConsoleEvent, lookUp, operationOf, textOf } from './event.ts'
import { explain, forbiddenText, type RefusalText, refusalText, SIGN_INS } from './refusals.ts'
import type { Stage } from './stages.ts'

export type Tone = 'good' | 'bad' | 'warn' | 'plain'

/**
 * The outcomes of a request that an event can tell, least important first. `asked`: the client is asked for a token or a confirmation.
 * `refused`: the gate, a policy, a limit, or a missing confirmation has stopped it.
 */
export const OUTCOMES = ['accepted', 'completed', 'asked', 'failed', 'outage', 'refused'] as const
export type Outcome = (typeof OUTCOMES)[number]

/** The meaning of an event. */
export interface EventKind {
  /** The view that contains the event. `hidden` events are shown only in the stories of clients. */
  readonly group: 'gate' | 'tool' | 'event' | 'request' | 'other' | 'hidden'
  readonly tone: Tone
  /** One or two words for the outcome. */
  readonly word: string
  /** The most important fact about the event. */
  readonly title: string
  readonly hint?: string | undefined
  readonly outcome?: Outcome | undefined
  /** The stage that a client reaches with the event. */
  readonly stage?: Stage | undefined
}

/** The groups of events, by the part of their names before the last one. Others are about tools. */
const GROUPS: Readonly<Record<string, EventKind['group']>> = {
  'kit.mcp.auth': 'gate',
  'kit.mcp.policy': 'gate',
  'kit.mcp.request': 'request',
  'kit.mcp.event': 'event',
  'kit.authorization': 'gate',
}

type Described = readonly [Tone, word: string, title: string, (Outcome | undefined)?, Stage?]

/**
 * The events of a server and of an authorization server, by the part of their names before the last one, with the outcomes of their
 * requests and the stages that clients reach. Titles contain parts, which can have a default.
 */
const KINDS: Readonly<Record<string, Readonly<Record<string, Described>>>> = {
  'kit.mcp.auth': {
    accepted: ['good', 'accepted', '{operation|the token is valid}', 'accepted'],
    anonymous: ['plain', 'anonymous', '{operation|a public operation}, without a token'],
    refused: ['bad', 'refused', '{reason}{says}', 'refused'],
    // The first request of every client has no token.
    'refused (missing)': ['plain', '401', '{reason}{says}', 'asked'],
    unavailable: ['bad', 'outage', 'the access token could not be verified right now', 'outage'],
  },
  'kit.mcp.policy': {
    denied: ['warn', 'denied', '{operation|an operation}: the policy denied it{because}', 'refused'],
    'denied (failed)': [
      'bad',
      'denied',
      '{operation|an operation}: the policy failed, which denies{problem}',
      'refused',
    ],
  },
  'kit.mcp.limit': {
    reached: ['warn', 'limit', '{tool}: {limit|a limit was reached}', 'refused'],
    unavailable: ['bad', 'not counted', '{tool}: the store of limits failed, so calls pass{problem}'],
  },
  'kit.mcp.confirm': {
    asked: ['plain', 'confirm', '{tool}: the client is asked', 'asked'],
    accepted: ['good', 'confirm', '{tool}: the client said yes'],
    declined: ['warn', 'confirm', '{tool}: the client did not say yes', 'refused'],
    refused: ['bad', 'confirm', '{tool}: refused ({confirmation}){problem}', 'refused'],
  },
  'kit.mcp.task': {
    created: ['plain', 'task', '{tool}: runs as a task'],
    completed: ['good', 'task', '{tool}: the task is complete'],
    cancelled: ['warn', 'task', '{tool}: the client cancelled the task'],
    failed: ['bad', 'task', '{tool}: the task failed ({error})'],
  },
  'kit.mcp.tool': {
    completed: ['good', 'tool', '{tool}', 'completed'],
    failed: ['bad', 'tool failed', '{tool}{problem}', 'failed'],
  },
  'kit.mcp.request': {
    completed: ['plain', 'completed', '{operation|a request} → {response}', 'completed'],
    'completed (error)': ['warn', 'completed', '{operation|a request} → {response}', 'completed'],
    failed: [
      'bad',
      'failed',
      '{operation|a request}{problem|: a function of the application threw an error}',
      'failed',
    ],
  },
  'kit.mcp.event': {
    emitted: ['plain', 'emitted', '{type}: the server has emitted an event'],
    subscribed: ['good', 'subscribed', '{type}: a client subscribes with a webhook at {host}'],
    renewed: ['plain', 'renewed', '{type}: a client has renewed its webhook at {host}'],
    unsubscribed: ['plain', 'ended', '{type}: a client has ended its webhook'],
    refused: [
      'bad',
      'refused',
      '{type}: the subscription is refused, because the webhook has not answered its challenge{failure}',
    ],
    delivered: ['good', 'delivered', '{type}: the webhook has accepted {message}{again}'],
    failed: [
      'bad',
      'failed',
      '{type}: the webhook has not accepted {message}{failure}: attempt {attempts}, repeated later',
    ],
    abandoned: ['bad', 'given up', '{type}: {message} is not sent to the webhook again{failure}'],
    dropped: ['bad', 'dropped', '{type}: the owner of the webhook has no room for a further delivery'],
    terminated: [
      'warn',
      'terminated',
      '{type}: the subscription has ended, because its owner may no longer receive the events',
    ],
  },
  'kit.authorization': {
    'client.registered': ['good', 'registered', '{client}', undefined, 'registered'],
    'client.refused': ['bad', 'not registered', '{refusal}{says}', undefined, 'not-registered'],
    'consent.shown': ['plain', 'sign-in page', '{scopes} requested', undefined, 'page'],
    'consent.given': ['good', 'allowed', '{user} allowed {scopes}', undefined, 'consented'],
    'consent.denied': ['bad', 'denied', 'the user denied access', undefined, 'denied'],
    'request.refused': ['bad', 'not authorized', '{refusal}{says}', undefined, 'not-authorized'],
    'token.issued': ['good', 'token', '{scopes}{resource}{grant}', undefined, 'token'],
    'token.refused': ['bad', 'no token', '{refusal}{says}', undefined, 'token-refused'],
    'signin.refused': ['bad', 'not signed in', '{refusal}{says}', undefined, 'not-signed-in'],
    'refresh.reused': [
      'bad',
      'token reused',
      'a refresh token was used twice, and its tokens were revoked',
      undefined,
      'token-refused',
    ],
    revoked: ['plain', 'revoked', 'the tokens of {client} were revoked'],
  },
}

/** The suggested fixes, unless the reason of a refusal has another one. */
const HINTS: Readonly<Record<string, string>> = {
  'kit.mcp.auth.unavailable':
    'The client got a 503 and will retry. Check that the authorization server is running.{advice}',
  'kit.mcp.policy.denied (failed)':
    'Correct authorize, or raise authorizeTimeoutMs: errors and timeouts deny.',
  'kit.mcp.limit.unavailable': 'Check that the store of limits.store is running.',
  'kit.mcp.event.dropped':
    'A user has 8 MiB for waiting deliveries. Check why the receiver does not accept them, and emit smaller events: an id, and a tool that returns the rest.',
  'kit.mcp.event.terminated':
    'Scopes or authorize denied a delivery. To leave out single events, use match of emit instead.',
  'kit.authorization.client.refused': 'The client must correct the metadata that it registers.',
  'kit.authorization.request.refused': 'The client must correct its authorization request.',
  'kit.authorization.token.refused': 'The client must correct its token request, or start the sign-in again.',
  'kit.authorization.signin.refused': 'The user starts again from the client.',
  'kit.authorization.refresh.reused':
    'The client keeps only the newest refresh token. The user signs in again.',
}

const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

/** The limit that a call has reached, in words, by its name. */
const REACHED = Object.fromEntries(Object.values(LIMITS).map(({ name, shown }) => [name, shown]))

/** The next step for a webhook that has not accepted a message, by `error.type`. */
const WEBHOOK_HINTS: Readonly<Record<WebhookError, string>> = {
  connection_refused:
    'The receiver must listen at a public address. Addresses of this machine or of a private network are not used: for development, give the client the URL of a tunnel.',
  timeout: 'The receiver must answer within 10 s, so it should store the message and process it later.',
  tls_error:
    'The certificate of the receiver must be valid, and of an authority that this machine trusts (NODE_EXTRA_CA_CERTS).',
  http_4xx:
    'The receiver refuses the message, or redirects it. Compare its path, and the secret with which it verifies signatures. 410 ends the subscription, and 413 gives up this event.',
  http_5xx: 'Look for the error in the log of the receiver.',
  challenge_failed:
    'The receiver must answer {"type":"verification","challenge":"…"} with status 200 and a JSON body that has only this challenge: {"challenge":"…"}.',
}

/** Returns the meaning of an event. */
export function kindOf(event: ConsoleEvent): EventKind {
  const { name, level, attributes = {} } = event
  if (name === 'dev.request') return requestKind(attributes)
  const refusal = refusalOf(event)
  const parts = partsOf(event, refusal)
  const fill = (text: string): string =>
    text.replace(/\{(\w+)\|?([^}]*)\}/g, (_, part, fallback) => parts[part] || fallback)
  const key = keyOf(event)
  const isSignIn = name.startsWith('kit.authorization.')
  const prefix = isSignIn ? 'kit.authorization' : name.slice(0, name.lastIndexOf('.'))
  const group = lookUp(GROUPS, prefix) ?? 'tool'
  const webhook = group === 'event' ? lookUp(WEBHOOK_HINTS, attributes['error.type']) : undefined
  const own = lookUp(HINTS, key)
  const hint = refusal?.hint ?? webhook ?? (own && fill(own))
  const known = lookUp(lookUp(KINDS, prefix) ?? {}, key.slice(prefix.length + 1))
  if (known !== undefined) {
    const [tone, word, title, reached, stage] = known
    const outcome = attributes['kit.mcp.policy.purpose'] === 'list' ? 'failed' : reached
    return { group, tone, word, title: fill(title), hint, outcome, stage }
  }
  const tone = level === 'error' || level === 'fatal' ? 'bad' : level === 'warn' ? 'warn' : 'plain'
  return { group: 'other', tone, word: level, title: `${name}${parts.problem}` }
}

/** Returns the key of an event in the tables: its name, and what distinguishes it from others of its name. */
function keyOf({ name, error, attributes = {} }: ConsoleEvent): string {
  const { 'http.response.status_code': status, 'rpc.response.status_code': code, reason } = attributes
  if (name === 'kit.mcp.auth.refused' && reason === 'missing') return `${name} (missing)`
  if (name === 'kit.mcp.policy.denied' && error !== undefined) return `${name} (failed)`
  const isError = Number(attributeText(status)) >= 400 || code !== undefined
  return name === 'kit.mcp.request.completed' && isError ? `${name} (error)` : name
}

/** Returns the explanation of a request, a sign-in, or a token request that was refused. */
function refusalOf({ name, request, attributes: a = {} }: ConsoleEvent): RefusalText | undefined {
  if (name === 'kit.authorization.signin.refused') return explain(SIGN_INS, a.reason)
  if (name !== 'kit.mcp.auth.refused') return undefined
  const { host, origin }: Attributes = request ?? {}
  if (a.reason === 'host' && host) return forbiddenText(undefined, host)
  if (a.reason === 'origin' && origin) return forbiddenText(origin, host)
  return refusalText(a.reason, a['kit.mcp.auth.invalid.cause'])
}

/** Returns the parts of titles and hints. */
function partsOf(event: ConsoleEvent, refusal: RefusalText | undefined): Readonly<Record<string, string>> {
  const { attributes: a = {} } = event
  const part = (key: string, before = '', after = ''): string =>
    a[key] === undefined ? '' : `${before}${attributeText(a[key])}${after}`
  const { 'kit.mcp.event.kind': kind, 'http.response.status_code': status } = a
  const attempts = part('kit.mcp.event.attempts')
  const problem = event.error === undefined ? '' : `: ${attributeText(event.error.message)}`
  const said = [part('reason'), part('error_description')].filter((text) => text !== '').join(': ')
  const scopes = part('scopes').split(' ')
  const response = [Number(attributeText(status)) || '', part('rpc.response.status_code', 'error ')]
  const isControl = kind === 'gap' || kind === 'terminated'
  return {
    operation: operationOf(event) ?? '',
    tool: part('gen_ai.tool.name') || 'a tool',
    problem,
    advice: problem.slice(1),
    reason: attributeText(a.reason),
    says: refusal === undefined ? part('cause', ': ') : `: ${refusal.says}`,
    because: part('kit.mcp.policy.reason', ': '),
    limit: lookUp(REACHED, a.limit)?.(part('limit.max'), part('limit.actual')) ?? '',
    confirmation: part('kit.mcp.confirm.reason'),
    error: part('error.type'),
    response: response.filter((text) => text !== '').join(', '),
    type: part('kit.mcp.event.name') || 'an event type',
    host: part('kit.mcp.event.host') || 'an unknown host',
    message: isControl ? `the message ${kind}` : part('kit.mcp.event.id', 'event ') || 'an event',
    failure: part('error.type', ' (', `${part('http.response.status_code', ', status ')})`),
    attempts,
    again: Number(attempts) > 1 ? `, at attempt ${attempts}` : '',
    client: part('client_name') || part('client') || 'a client',
    scopes: scopes.filter((scope) => scope !== '' && scope !== 'openid').join(' ') || 'no scopes',
    user: part('subject'),
    refusal: said,
    resource: part('resource', ' for '),
    grant: a.grant_type === JWT_BEARER ? ', for an identity assertion' : '',
  }
}

/** Returns the meaning of an HTTP request that `mcp-gatekit dev` has observed. */
function requestKind(a: Attributes): EventKind {
  const { origin, host, challenge, token } = a
  const status = Number(attributeText(a['http.response.status_code']))
  const path = attributeText(a['url.path'])
  const outcome = `→ ${status === 499 ? 'the client disconnected' : status}`
  const group = a.covered === true ? 'hidden' : 'request'
  const { says, hint } = forbiddenText(origin, host)
  const forbidden = { group, tone: 'bad', hint, stage: 'forbidden' } as const
  if (a.preflight === true) {
    const title = `${path}${origin === undefined ? '' : ` from ${attributeText(origin)}`} ${outcome}`
    return { ...(status >= 400 ? forbidden : { group, tone: 'plain' }), word: 'preflight', title }
  }
  if (path.startsWith('/.well-known/')) {
    const [tone, stage] = [
      status === 200 ? 'good' : 'plain',
      metadataStage(path, status === 200, a.server),
    ] as const
    return { group, tone, word: 'metadata', title: `${path} ${outcome}`, stage }
  }
  // A request that is refused for `Origin` or `Host` has no challenge.
  const isForeign = origin !== undefined || (host !== undefined && !namesLoopback(attributeText(host)))
  if (status === 403 && challenge === undefined && isForeign)
    return { ...forbidden, word: 'forbidden', title: `${says} ${outcome}` }
  const operation = textOf(a['mcp.method.name'], a['gen_ai.tool.name'])
  const title = `${operation || textOf(a['http.request.method'], path)} ${outcome}`
  const stage = callStage(status, token !== undefined, challenge)
  return { group, tone: status >= 400 ? 'warn' : 'plain', word: 'request', title, stage }
}

function metadataStage(path: string, isFound: boolean, server: unknown): Stage | undefined {
  if (server === 'authorization') return isFound ? 'issuer-metadata' : undefined
  if (!path.startsWith('/.well-known/oauth-protected-resource')) return undefined
  return isFound ? 'metadata' : 'no-metadata'
}

function callStage(status: number, hasToken: boolean, challenge: unknown): Stage | undefined {
  if (status === 401) return hasToken ? 'refused' : 'challenged'
  if (status === 403 && attributeText(challenge).includes('insufficient_scope')) return 'scopes'
  return status < 400 && hasToken ? 'called' : undefined
}
