import { compactVerify, createLocalJWKSet, type JSONWebKeySet } from 'jose'
import { counted } from '../../../src/base/options/counted.ts'
import { grantedScopes } from '../../../src/oauth/scope.ts'
import { type DecodedToken, decodeToken } from '../decoded-token.ts'
import { fetchDocument } from '../documents.ts'
import { type Examination, observation } from '../examination.ts'
import { type Finding, fail, ok, onlyIf, warn } from '../finding.ts'
import type { HttpExchange } from '../http-exchange.ts'
import { quote, quoteAll, quoteValue } from '../quote.ts'
import { isSameOrigin, type JsonObject, memberOf, nearMiss } from '../values.ts'
import { authorizationServers, isSameIssuer, knownServers } from './issuers.ts'
import { resourceDocument } from './metadata.ts'
import { challengedScope, isGuarded } from './protection.ts'
import { isRefused, tokenResponse } from './protocol.ts'

/** The greatest number of seconds that a `Date` can represent. */
const MAX_SECONDS = 8.64e12

/** The tolerance for `iat` in the future, because the clock of an issuer may be ahead. */
const MAX_FUTURE_IAT_SECONDS = 60

/** About 100 years. */
const MAX_DURATION_SECONDS = 3.2e9

/** The numbers of seconds of larger units. */
const UNITS = { day: 86_400, hour: 3_600, minute: 60 }

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
  readonly seen: string
  readonly hint: string
  /** `true` if only some servers reject the token for it. */
  readonly isUncertain?: true
  /** `true` if a server that accepts the token can be right. */
  readonly isTolerable?: true
}

type Differences = readonly ClaimDifference[]

/** Returns the differences of one part of a token, or `undefined` if there is nothing to compare. */
type Comparison = (
  claims: JsonObject,
  expected: ExpectedClaims,
  header: JsonObject,
) => Differences | undefined

function differ(seen: string, hint: string, kind?: 'isUncertain' | 'isTolerable'): Differences {
  return [{ seen, hint, ...(kind !== undefined && { [kind]: true }) }]
}

/** The comparisons by the part of a token that they look at. */
const COMPARISONS: Readonly<Record<string, Comparison>> = {
  aud({ aud, client_id: client, azp }, { resource, url }) {
    const wanted = `expected ${quote(resource)}`
    const request = `request the token with resource=${quote(resource)} (RFC 8707), or set this audience at the authorization server`
    if (aud === undefined) return differ(`aud is missing, ${wanted}`, request)
    const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
    const texts = audiences.filter((one) => typeof one === 'string')
    if (texts.some((one) => one === resource || one === url || isSameOrigin(one, resource))) return []
    const seen = `aud is ${audiences.length === 0 ? 'an empty list' : quoteAll(audiences)}, ${wanted}`
    const near = texts.map((one) => nearMiss(one, resource)).find((words) => words !== undefined)
    if (near !== undefined) {
      const hint = near.includes('host name')
        ? 'use one of the names localhost and 127.0.0.1 everywhere: in the URL that clients use, in resource, and in the audience at the authorization server'
        : 'use one spelling everywhere: in resource, in the audience of the verifier, and at the authorization server'
      return differ(`${seen}: ${near}`, hint)
    }
    const isClient = texts.length === 1 && (texts[0] === client || texts[0] === azp)
    const hint = `${request}; if the token is right, set the audience of the verifier to its aud`
    return differ(isClient ? `${seen}: it is the ID of the client` : seen, hint)
  },
  iss(claims, { issuers }) {
    const { iss } = claims
    if (issuers.length === 0) return undefined
    const known = issuers.map((issuer) => issuerFor(claims, issuer))
    if (known.some((issuer) => issuer === iss)) return []
    const given = iss === undefined ? 'missing' : quoteValue(iss)
    const seen = `iss is ${given}, expected ${issuers.length > 1 ? 'one of ' : ''}${quoteAll(issuers)}`
    if (typeof iss !== 'string') return differ(seen, 'let the authorization server add the claim iss')
    const near = known.map((issuer) => nearMiss(iss, issuer)).find((words) => words !== undefined)
    if (near !== undefined)
      return differ(
        `${seen}: ${near}`,
        'use the exact spelling of iss in authorization_servers and in the issuer of the verifier: every character counts',
        // issuer.identity reports a slash if the server accepts both spellings.
        near.startsWith('only the slash') ? 'isTolerable' : undefined,
      )
    const isEntraVersion1 =
      iss.startsWith('https://sts.windows.net/') &&
      issuers.some((issuer) => issuer.startsWith('https://login.microsoftonline.com/'))
    const hint = isEntraVersion1
      ? 'set requestedAccessTokenVersion to 2 in the manifest of the API: this is a token of version 1 of Entra ID'
      : 'get the token from the authorization server that the metadata names, or correct authorization_servers and the issuer of the verifier'
    return differ(seen, hint)
  },
  exp({ exp }, { now }) {
    const hint = 'let the authorization server issue tokens that expire (RFC 9068 §2.2)'
    if (exp === undefined) return differ('exp is missing', hint)
    if (typeof exp !== 'number')
      return differ(`exp is ${quoteValue(exp)}, expected a number of seconds`, hint)
    if (exp > now) return []
    return differ(
      `exp is ${timeOf(exp)}: the token expired ${durationOf(now - exp)} ago`,
      'get a new token; if it is new, synchronize the clocks of the authorization server and the server',
    )
  },
  iat: notInFuture('iat', MAX_FUTURE_IAT_SECONDS, 'was issued', 'isTolerable'),
  nbf: notInFuture('nbf', 0, 'is valid'),
  sub: textOnly('sub'),
  client_id: textOnly('client_id'),
  jti: textOnly('jti'),
  scope(claims, { scopes }) {
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
    const seen = `scope is ${given}, expected also ${quote(missing.join(' '))}`
    const map =
      'let the authorization server issue them as the server expects (mcp-gatekit: or use mapScopes)'
    const other = ['scp', 'permissions'].find((name) => lacks(claims[name]).length === 0)
    if (other !== undefined)
      return differ(`${seen}: they are in ${other}, which many servers read only without scope`, map)
    if (text.includes(','))
      return differ(`${seen}: separated by commas`, 'separate scopes with spaces (RFC 6749 §3.3)')
    if (text.includes(`/${missing[0]}`)) return differ(`${seen}: only the prefix differs`, map)
    return differ(
      seen,
      `request the scopes ${quote(scopes.join(' '))}, and grant them to this client and user at the authorization server`,
    )
  },
  typ(claims, _, { typ }) {
    const only = (kind: string, reader: string): Differences =>
      differ(
        `the token is ${kind} token, expected an access token`,
        `send the access token: ${kind} token is only for ${reader}`,
      )
    const kind = typeof claims.typ === 'string' ? claims.typ.toLowerCase() : undefined
    if (claims.at_hash !== undefined || claims.c_hash !== undefined || kind === 'id')
      return only('an ID', 'the client')
    if (kind === 'refresh' || kind === 'offline') return only('a refresh', 'the authorization server')
    const name = typeof typ === 'string' ? typ.toLowerCase().replace('application/', '') : typ
    if (name === 'at+jwt') return []
    const seen = `typ is ${typ === undefined ? 'missing' : quoteValue(typ)}, expected at+jwt`
    if (name !== undefined && name !== 'jwt') return differ(seen, 'send an access token (RFC 9068 §2.1)')
    return differ(
      `${seen} if the server is strict`,
      'if the server accepts only tokens of RFC 9068, let the authorization server issue them (mcp-gatekit: option strict)',
      'isUncertain',
    )
  },
  alg(_, __, { alg }) {
    const isSymmetric = typeof alg === 'string' && alg.startsWith('HS')
    if (typeof alg === 'string' && alg !== 'none' && !isSymmetric) return []
    return differ(
      alg === undefined ? 'alg is missing' : `alg is ${quoteValue(alg)}, expected an asymmetric algorithm`,
      'let the authorization server sign access tokens with an asymmetric key, such as RS256 or ES256',
      isSymmetric ? 'isUncertain' : undefined,
    )
  },
  /** The requests of doctor do not prove the key to which a token is bound. */
  cnf({ cnf }) {
    if (cnf === undefined) return undefined
    const key = differ(
      'cnf.jkt binds the token to a key for DPoP, expected a token that works without a proof',
      'get a token without DPoP: doctor, like most MCP clients, sends no proof (RFC 9449)',
    )
    const certificate = differ(
      'cnf["x5t#S256"] binds the token to a TLS certificate of the client, expected a token that works without it',
      'get a token that is not bound to a certificate: doctor, like most MCP clients, has none (RFC 8705)',
    )
    const isBound = (method: string): boolean => memberOf(cnf, method) !== undefined
    return [...(isBound('jkt') ? key : []), ...(isBound('x5t#S256') ? certificate : [])]
  },
}

/** The differences by the part of a token, for each part that was compared. */
type Compared = readonly (readonly [part: string, differences: Differences])[]

/** Compares a decoded token with the expected values. */
export function compareClaims(header: JsonObject, claims: JsonObject, expected: ExpectedClaims): Compared {
  return Object.entries(COMPARISONS).flatMap(([part, compare]) => {
    const found = compare(claims, expected, header)
    return found === undefined ? [] : [[part, found] as const]
  })
}

/** Returns an issuer, with the tenant of a token in the template that the metadata of Entra ID contains. */
function issuerFor({ tid }: JsonObject, issuer: string): string {
  return typeof tid === 'string' ? issuer.replace('{tenantid}', () => tid) : issuer
}

/** Returns the comparison of a time that must not be in the future. */
function notInFuture(claim: string, tolerance: number, start: string, kind?: 'isTolerable'): Comparison {
  return ({ [claim]: time }, { now }) => {
    if (time === undefined) return undefined
    const hint = 'synchronize the clocks of the authorization server and the server, or wait until then'
    if (typeof time !== 'number')
      return differ(`${claim} is ${quoteValue(time)}, expected a number of seconds`, hint, kind)
    if (time <= now + tolerance) return []
    return differ(`${claim} is ${timeOf(time)}: the token ${start} in ${durationOf(time - now)}`, hint, kind)
  }
}

function textOnly(claim: string): Comparison {
  return ({ [claim]: value }) => {
    if (value === undefined) return undefined
    if (typeof value === 'string') return []
    const seen = `${claim} is ${quoteValue(value)} (${typeof value}), expected a string`
    return differ(seen, `let the authorization server write ${claim} as a string`, 'isTolerable')
  }
}

function timeOf(seconds: number): string {
  return Math.abs(seconds) <= MAX_SECONDS
    ? new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
    : quoteValue(seconds)
}

/** Returns a duration in its largest unit, such as `3 hours`. */
export function durationOf(seconds: number): string {
  if (seconds > MAX_DURATION_SECONDS) return 'more than 100 years'
  // Each unit is used from two on.
  const [unit, size] = Object.entries(UNITS).find(([, size]) => seconds >= 2 * size) ?? ['second', 1]
  return counted(Math.round(seconds / size), unit)
}

/** The problems of a signature by the error codes of jose. */
const PROBLEMS: Readonly<Record<string, string>> = {
  ERR_JWKS_NO_MATCHING_KEY: 'which fits no key',
  ERR_JWS_SIGNATURE_VERIFICATION_FAILED: 'whose key does not verify the signature,',
}

/** Verifies the signature of a token with the key set of its issuer. Returns a text with the reason if that is not possible. */
async function compareKey(
  examination: Examination,
  { header: { kid, alg }, claims }: Extract<DecodedToken, { kind: 'jwt' }>,
): Promise<Compared | string> {
  // Other checks report why the metadata cannot be read.
  const servers = await knownServers(examination).catch(() => [])
  const server = servers.find(({ issuer, document }) =>
    [issuer, document.issuer].some((one) => isSameIssuer(claims.iss, issuerFor(claims, String(one)))),
  )
  const url = examination.safeUrl(server?.document.jwks_uri)
  if (url === undefined) return 'the metadata of its issuer names no key set'
  const { document, response } = await fetchDocument(examination, url)
  if (document === undefined) return `${quote(url.href)}: ${response?.summary ?? 'no response'}`
  try {
    await compactVerify(examination.token ?? '', createLocalJWKSet(document as unknown as JSONWebKeySet))
    return [['the key', []]]
  } catch (error) {
    const code = String(memberOf(error, 'code') ?? (error as Error).name)
    const problem = PROBLEMS[code]
    if (problem === undefined) return `${quote(url.href)}: ${code}`
    const kids = [document.keys].flat().map((key) => memberOf(key, 'kid'))
    const seen = `kid is ${quoteValue(kid)} with ${quoteValue(alg)}, ${problem} in the key set at ${quote(url.href)} (it has ${quoteAll(kids)})`
    const hint =
      'get a new token; if it is new, let the authorization server publish the key that signs its tokens at jwks_uri'
    return [['the key', differ(seen, hint, 'isTolerable')]]
  }
}

/** A smaller difference between two clocks is not mentioned. */
const MAX_CLOCK_SKEW_SECONDS = 60

/** A server that accepts a token this long after its expiry does not check it. Caches and tolerances are shorter. */
const MAX_EXPIRED_SECONDS = 600

/** The comparison of the token with the metadata. */
export const comparedToken = observation(async (examination) => {
  onlyIf(await isGuarded(examination), 'the server requires no token: see auth.required')
  const { withheld } = examination
  if (withheld !== undefined)
    return fail(
      `aud is ${quoteAll(withheld.audiences)}, expected ${quote(withheld.resource)}: doctor does not send a token for another resource`,
      'check the scopes in the challenge and in scopes_supported; let the authorization server set the audience by the parameter resource (RFC 8707)',
    )
  const response = await tokenResponse(examination)
  const isAccepted = !isRefused(response) && response.status < 500
  const token = decodeToken(examination.token ?? '')
  if (token.kind !== 'jwt') return withoutClaims(token, isAccepted)
  const expected = await expectedClaims(examination, response, isAccepted)
  return compare(token, expected, await compareKey(examination, token), isAccepted)
})

function withoutClaims(token: Exclude<DecodedToken, { kind: 'jwt' }>, isAccepted: boolean): Finding {
  const { kind, problem } = token
  const hints = {
    garbage: 'copy the whole token: it was probably cut or changed, or it is not an access token',
    opaque:
      'check at the authorization server: the introspection endpoint must report this token as active, with the audience of this server and an expiry in the future; if the server expects a JWT, request the token for this resource (RFC 8707), or verify opaque tokens (mcp-gatekit: introspectionVerifier)',
    encrypted:
      'check that the server has the key to decrypt it, or let the authorization server issue signed tokens without encryption',
  }
  if (kind === 'garbage' && !isAccepted) return fail(`the token ${problem}`, hints.garbage)
  const seen = `the token ${problem}, so its claims cannot be compared`
  return isAccepted ? ok(seen) : warn(seen, hints[kind])
}

/** Collects the values that the server and its authorization servers require. */
async function expectedClaims(
  examination: Examination,
  response: HttpExchange,
  isAccepted: boolean,
): Promise<ExpectedClaims> {
  const document = await resourceDocument(examination)
  // Other checks report why these documents cannot be read.
  const servers = await authorizationServers(examination).catch(() => [])
  const issuers = servers.flatMap(({ issuer, document }) =>
    isSameIssuer(document?.issuer, issuer) ? issuer : [issuer, document?.issuer],
  )
  const scope = response.challenge ? response.parameter('scope') : await challengedScope(examination)
  const time = Date.parse(response.header('date') ?? '')
  return {
    resource: typeof document?.resource === 'string' ? document.resource : examination.url.href,
    // If only the metadata names another resource, metadata.resource reports it.
    ...(isAccepted && { url: examination.url.href }),
    issuers: [...new Set(issuers.filter((issuer) => typeof issuer === 'string'))],
    scopes: isRefused(response) ? grantedScopes(scope) : [],
    now: Math.floor((Number.isNaN(time) ? Date.now() : time) / 1000),
  }
}

/** Reports the differences of a token. A server that accepts it may accept tokens for other servers as well. */
function compare(
  { header, claims }: Extract<DecodedToken, { kind: 'jwt' }>,
  expected: ExpectedClaims,
  key: Compared | string,
  isAccepted: boolean,
): Finding {
  const compared = compareClaims(header, claims, expected).concat(typeof key === 'string' ? [] : key)
  const differences = compared.flatMap(([, found]) => found)
  const certain = differences.filter((one) => !one.isUncertain && !(isAccepted && one.isTolerable))
  const relevant = certain.length > 0 || isAccepted ? certain : differences
  const ahead = expected.now - Date.now() / 1000
  const skew = `; the clock of the server is ${durationOf(Math.abs(ahead))} ${ahead > 0 ? 'ahead of' : 'behind'} that of this machine`
  const clock = !isAccepted && Math.abs(ahead) >= MAX_CLOCK_SKEW_SECONDS ? skew : ''
  if (relevant.length === 0) {
    const remark = typeof key === 'string' ? `; the key was not compared: ${key}` : ''
    // An accepted token can have differences that are not reported.
    const equal = compared.filter(([, found]) => found.length === 0).map(([part]) => part)
    return ok(`no difference found in ${equal.join(', ')}${remark}${clock}`)
  }
  const problems = relevant.map(({ seen }) => seen).join('; ')
  if (isAccepted) {
    const seen = `the server accepts the token, although ${problems}`
    if (typeof claims.exp === 'number' && claims.exp < expected.now - MAX_EXPIRED_SECONDS)
      return fail(seen, 'verify exp, and reject expired tokens (mcp-gatekit: jwtVerifier)')
    return warn(
      seen,
      'check that the server verifies these claims: otherwise it accepts stolen tokens and tokens for other servers. If the metadata and the tokens differ on purpose, ignore this check',
    )
  }
  const hint = [...new Set(relevant.map((one) => one.hint))].join('; ')
  return (certain.length > 0 ? fail : warn)(`${problems}${clock}`, hint)
}
