import { grantedScopes } from '../../src/oauth/scope.ts'
import { counted } from '../../src/options/counted.ts'
import { type JsonObject, memberOf } from './json-object.ts'
import { isSameOrigin, nearMiss } from './near-miss.ts'
import { quote, quoteAll, quoteValue } from './quote.ts'

/** The greatest number of seconds that a `Date` can represent. */
const MAX_SECONDS = 8.64e12

/** The tolerance for `iat` in the future, because the clock of an issuer may be ahead. */
const MAX_FUTURE_IAT_SECONDS = 60

/** About 100 years. */
const MAX_DURATION_SECONDS = 3.2e9

/** The values that a server and its authorization servers require of a token. */
export interface ExpectedClaims {
  /** The `resource` of the metadata document. */
  readonly resource: string
  /** The URL of the server, if a token for it is acceptable, too. */
  readonly url?: string
  /** The authorization servers of the metadata document, and the issuers in their own metadata unless only a slash differs. */
  readonly issuers: readonly string[]
  /** The scopes in the challenge. */
  readonly scopes: readonly string[]
  /** The time of the server, in seconds since 1970. */
  readonly now: number
}

/** A difference between a token and the expected values. */
export interface ClaimDifference {
  readonly claim: string
  readonly seen: string
  readonly hint: string
  /** `true` if only some servers reject the token for it. */
  readonly isUncertain?: true
  /** `true` if a server that accepts the token can be right. */
  readonly isTolerable?: true
}

/** The differences that a comparison found, or `undefined` if there was nothing to compare. */
type Found = readonly ClaimDifference[] | undefined
type Comparison = (claims: JsonObject, expected: ExpectedClaims, header: JsonObject) => Found

/** The comparisons by the part of a token that they look at. */
const COMPARISONS: Readonly<Record<string, Comparison>> = {
  aud: audienceDifference,
  iss: issuerDifference,
  exp: expiryDifference,
  iat: ({ iat }, { now }) => futureDifference('iat', iat, now),
  nbf: ({ nbf }, { now }) => futureDifference('nbf', nbf, now),
  sub: ({ sub }) => textDifference('sub', sub),
  client_id: ({ client_id: id }) => textDifference('client_id', id),
  jti: ({ jti }) => textDifference('jti', jti),
  scope: scopeDifference,
  typ: typeDifference,
  alg: algorithmDifference,
  cnf: keyDifference,
}

/** The differences by the part of a token, for each part that was compared. */
export type Compared = readonly (readonly [part: string, differences: readonly ClaimDifference[]])[]

/** Compares a decoded token with the expected values. */
export function compareClaims(header: JsonObject, claims: JsonObject, expected: ExpectedClaims): Compared {
  return Object.entries(COMPARISONS).flatMap(([part, compare]) => {
    const found = compare(claims, expected, header)
    return found === undefined ? [] : [[part, found] as const]
  })
}

function typeDifference(claims: JsonObject, _: ExpectedClaims, { typ }: JsonObject): Found {
  const differ = (seen: string, hint: string): ClaimDifference => ({ claim: 'typ', seen, hint })
  const kind = typeof claims.typ === 'string' ? claims.typ.toLowerCase() : undefined
  if (claims.at_hash !== undefined || claims.c_hash !== undefined || kind === 'id') {
    const hint = 'send the access token: an ID token is only for the client'
    return [differ('the token is an ID token, expected an access token', hint)]
  }
  if (kind === 'refresh' || kind === 'offline') {
    const hint = 'send the access token: a refresh token is only for the authorization server'
    return [differ('the token is a refresh token, expected an access token', hint)]
  }
  const name = typeof typ === 'string' ? typ.toLowerCase().replace('application/', '') : typ
  if (name === 'at+jwt') return []
  const seen = `typ is ${typ === undefined ? 'missing' : quoteValue(typ)}, expected at+jwt`
  if (name !== undefined && name !== 'jwt') return [differ(seen, 'send an access token (RFC 9068 §2.1)')]
  const hint =
    'if the server accepts only tokens of RFC 9068, let the authorization server issue them (mcp-gatekit: option strict)'
  return [{ ...differ(`${seen} if the server is strict`, hint), isUncertain: true }]
}

function algorithmDifference(_: JsonObject, __: ExpectedClaims, { alg }: JsonObject): Found {
  const isSymmetric = typeof alg === 'string' && alg.startsWith('HS')
  if (typeof alg === 'string' && alg !== 'none' && !isSymmetric) return []
  const seen =
    alg === undefined ? 'alg is missing' : `alg is ${quoteValue(alg)}, expected an asymmetric algorithm`
  const hint =
    'let the authorization server sign access tokens with an asymmetric key, such as RS256 or ES256'
  return [{ claim: 'alg', seen, hint, ...(isSymmetric && { isUncertain: true }) }]
}

/** Returns an issuer, with the tenant of a token in the template that the metadata of Entra ID contains. */
export function issuerFor({ tid }: JsonObject, issuer: string): string {
  return typeof tid === 'string' ? issuer.replace('{tenantid}', () => tid) : issuer
}

function issuerDifference(claims: JsonObject, { issuers }: ExpectedClaims): Found {
  const { iss } = claims
  if (issuers.length === 0) return undefined
  const known = issuers.map((issuer) => issuerFor(claims, issuer))
  if (known.some((issuer) => issuer === iss)) return []
  const given = iss === undefined ? 'missing' : quoteValue(iss)
  const seen = `iss is ${given}, expected ${issuers.length > 1 ? 'one of ' : ''}${quoteAll(issuers)}`
  if (typeof iss !== 'string')
    return [{ claim: 'iss', seen, hint: 'let the authorization server add the claim iss' }]
  const near = firstOf(known, (issuer) => nearMiss(iss, issuer))
  if (near !== undefined) {
    const hint =
      'use the exact spelling of iss in authorization_servers and in the issuer of the verifier: every character counts'
    // issuer.identity reports a slash if the server accepts both spellings.
    const isTolerable = near.startsWith('only the slash')
    return [{ claim: 'iss', seen: `${seen}: ${near}`, hint, ...(isTolerable && { isTolerable }) }]
  }
  const isEntraVersion1 =
    iss.startsWith('https://sts.windows.net/') &&
    issuers.some((issuer) => issuer.startsWith('https://login.microsoftonline.com/'))
  const hint = isEntraVersion1
    ? 'set requestedAccessTokenVersion to 2 in the manifest of the API: this is a token of version 1 of Entra ID'
    : 'get the token from the authorization server that the metadata names, or correct authorization_servers and the issuer of the verifier'
  return [{ claim: 'iss', seen, hint }]
}

function audienceDifference({ aud, client_id, azp }: JsonObject, { resource, url }: ExpectedClaims): Found {
  const wanted = `expected ${quote(resource)}`
  const request = `request the token with resource=${quote(resource)} (RFC 8707), or set this audience at the authorization server`
  if (aud === undefined) return [{ claim: 'aud', seen: `aud is missing, ${wanted}`, hint: request }]
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  const texts = audiences.filter((one) => typeof one === 'string')
  if (texts.some((one) => one === resource || one === url || isSameOrigin(one, resource))) return []
  const seen = `aud is ${audiences.length === 0 ? 'an empty list' : quoteAll(audiences)}, ${wanted}`
  const near = firstOf(texts, (one) => nearMiss(one, resource))
  if (near !== undefined) {
    const hint = near.includes('host name')
      ? 'use one of the names localhost and 127.0.0.1 everywhere: in the URL that clients use, in resource, and in the audience at the authorization server'
      : 'use one spelling everywhere: in resource, in the audience of the verifier, and at the authorization server'
    return [{ claim: 'aud', seen: `${seen}: ${near}`, hint }]
  }
  const isClient = texts.length === 1 && (texts[0] === client_id || texts[0] === azp)
  const hint = `${request}; if the token is right, set the audience of the verifier to its aud`
  return [{ claim: 'aud', seen: isClient ? `${seen}: it is the ID of the client` : seen, hint }]
}

/** Returns the first description of a difference. */
function firstOf(
  texts: readonly string[],
  describe: (text: string) => string | undefined,
): string | undefined {
  return texts.map(describe).find((words) => words !== undefined)
}

function expiryDifference({ exp }: JsonObject, { now }: ExpectedClaims): Found {
  if (typeof exp !== 'number') {
    const seen =
      exp === undefined ? 'exp is missing' : `exp is ${quoteValue(exp)}, expected a number of seconds`
    return [
      { claim: 'exp', seen, hint: 'let the authorization server issue tokens that expire (RFC 9068 §2.2)' },
    ]
  }
  if (exp > now) return []
  const seen = `exp is ${timeOf(exp)}: the token expired ${durationOf(now - exp)} ago`
  const hint =
    'get a new token; if it is new, synchronize the clocks of the authorization server and the server'
  return [{ claim: 'exp', seen, hint }]
}

function futureDifference(claim: 'iat' | 'nbf', time: unknown, now: number): Found {
  if (time === undefined) return undefined
  const [start, tolerance] = claim === 'iat' ? ['was issued', MAX_FUTURE_IAT_SECONDS] : ['is valid', 0]
  if (typeof time === 'number' && time <= now + tolerance) return []
  const seen =
    typeof time === 'number'
      ? `${claim} is ${timeOf(time)}: the token ${start} in ${durationOf(time - now)}`
      : `${claim} is ${quoteValue(time)}, expected a number of seconds`
  const hint = 'synchronize the clocks of the authorization server and the server, or wait until then'
  return [{ claim, seen, hint, ...(claim === 'iat' && { isTolerable: true }) }]
}

function textDifference(claim: string, value: unknown): Found {
  if (value === undefined) return undefined
  if (typeof value === 'string') return []
  const seen = `${claim} is ${quoteValue(value)} (${typeof value}), expected a string`
  return [{ claim, seen, hint: `let the authorization server write ${claim} as a string`, isTolerable: true }]
}

function scopeDifference(claims: JsonObject, { scopes }: ExpectedClaims): Found {
  if (scopes.length === 0) return undefined
  const lacks = (claim: unknown): readonly string[] => {
    const granted = new Set(grantedScopes(claim))
    return scopes.filter((one) => !granted.has(one))
  }
  const granted = claims.scope ?? claims.scp
  const missing = lacks(granted)
  if (missing.length === 0) return []
  const text = grantedScopes(granted).join(' ')
  const given = granted === undefined ? 'missing' : quote(text) || 'empty'
  const other = ['scp', 'permissions'].find((name) => lacks(claims[name]).length === 0)
  const map = 'let the authorization server issue them as the server expects (mcp-gatekit: or use mapScopes)'
  const request = `request the scopes ${quote(scopes.join(' '))}, and grant them to this client and user at the authorization server`
  const forms = [
    [other !== undefined, `: they are in ${other}, which many servers read only without scope`, map],
    [text.includes(','), ': separated by commas', 'separate scopes with spaces (RFC 6749 §3.3)'],
    [text.includes(`/${missing[0]}`), ': only the prefix differs', map],
    [true, '', request],
  ] as const
  const [, form, hint] = forms.find(([applies]) => applies) as (typeof forms)[number]
  return [
    { claim: 'scope', seen: `scope is ${given}, expected also ${quote(missing.join(' '))}${form}`, hint },
  ]
}

/** The confirmation methods that bind a token to a key, which the requests of doctor do not prove. */
const BINDINGS: readonly (readonly [method: string, seen: string, hint: string])[] = [
  [
    'jkt',
    'cnf.jkt binds the token to a key for DPoP, expected a token that works without a proof',
    'get a token without DPoP: doctor, like most MCP clients, sends no proof (RFC 9449)',
  ],
  [
    'x5t#S256',
    'cnf["x5t#S256"] binds the token to a TLS certificate of the client, expected a token that works without it',
    'get a token that is not bound to a certificate: doctor, like most MCP clients, has none (RFC 8705)',
  ],
]

function keyDifference({ cnf }: JsonObject): Found {
  if (cnf === undefined) return undefined
  return BINDINGS.filter(([method]) => memberOf(cnf, method) !== undefined).map(([, seen, hint]) => ({
    claim: 'cnf',
    seen,
    hint,
  }))
}

function timeOf(seconds: number): string {
  return Math.abs(seconds) <= MAX_SECONDS
    ? new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
    : quoteValue(seconds)
}

/** The units of durations. Each is used from two on. */
const UNITS = [
  { unit: 'day', size: 86_400 },
  { unit: 'hour', size: 3_600 },
  { unit: 'minute', size: 60 },
]

/** Returns a duration in its largest unit, such as `3 hours`. */
export function durationOf(seconds: number): string {
  if (seconds > MAX_DURATION_SECONDS) return 'more than 100 years'
  const { unit, size } = UNITS.find(({ size }) => seconds >= 2 * size) ?? { unit: 'second', size: 1 }
  return counted(Math.round(seconds / size), unit)
}
