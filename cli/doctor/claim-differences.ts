import { memberOf } from './conversation.ts'
import { isSameOrigin, nearMiss } from './near-miss.ts'
import { quote, quoteAll, quoteValue } from './quote.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** The greatest number of seconds that a `Date` can represent. */
const MAX_SECONDS = 8.64e12

/** About 100 years. */
const MAX_DURATION_SECONDS = 3.2e9

/** The values that a server and its authorization servers require of a token. */
export interface ExpectedClaims {
  /** The `resource` of the metadata document. */
  readonly resource: string
  /** The URL of the server, if a token for it is acceptable, too. */
  readonly url?: string
  /** The authorization servers of the metadata document, and the issuers in their own metadata. */
  readonly issuers: readonly string[]
  /** The scopes in the challenge. */
  readonly scopes: readonly string[]
  /** The time of the server, in seconds since 1970. */
  readonly now: number
}

/** A difference between a token and the expected values. */
export interface ClaimDifference {
  readonly claim: 'typ' | 'alg' | 'iss' | 'aud' | 'exp' | 'nbf' | 'scope' | 'cnf'
  readonly seen: string
  readonly hint: string
  /** `true` if only some servers reject the token for it. */
  readonly isUncertain?: true
}

/** Returns all differences between a decoded token and the expected values. */
export function claimDifferences(
  header: JsonObject,
  claims: JsonObject,
  expected: ExpectedClaims,
): readonly ClaimDifference[] {
  return [
    ...typeDifference(header, claims),
    ...algorithmDifference(header),
    ...issuerDifference(claims, expected),
    ...audienceDifference(claims, expected),
    ...expiryDifference(claims, expected),
    ...notBeforeDifference(claims, expected),
    ...scopeDifference(claims, expected),
    ...keyDifference(claims),
  ]
}

type Differences = readonly ClaimDifference[]

function typeDifference({ typ }: JsonObject, claims: JsonObject): Differences {
  const kind = typeof claims.typ === 'string' ? claims.typ.toLowerCase() : undefined
  if (claims.at_hash !== undefined || claims.c_hash !== undefined || kind === 'id') {
    const hint = 'send the access token: an ID token is only for the client'
    return [{ claim: 'typ', seen: 'the token is an ID token, expected an access token', hint }]
  }
  if (kind === 'refresh' || kind === 'offline') {
    const hint = 'send the access token: a refresh token is only for the authorization server'
    return [{ claim: 'typ', seen: 'the token is a refresh token, expected an access token', hint }]
  }
  const name = typeof typ === 'string' ? typ.toLowerCase().replace('application/', '') : typ
  if (name === 'at+jwt') return []
  const seen =
    typ === undefined ? 'typ is missing, expected at+jwt' : `typ is ${quoteValue(typ)}, expected at+jwt`
  return name === undefined || name === 'jwt'
    ? [
        {
          claim: 'typ',
          seen: `${seen} if the server is strict`,
          hint: 'if the server accepts only tokens of RFC 9068, let the authorization server issue them (mcp-gatekit: option strict)',
          isUncertain: true,
        },
      ]
    : [{ claim: 'typ', seen, hint: 'send an access token (RFC 9068 §2.1)' }]
}

function algorithmDifference({ alg }: JsonObject): Differences {
  if (typeof alg === 'string' && alg !== 'none' && !alg.startsWith('HS')) return []
  return [
    {
      claim: 'alg',
      seen:
        alg === undefined ? 'alg is missing' : `alg is ${quoteValue(alg)}, expected an asymmetric algorithm`,
      hint: 'let the authorization server sign access tokens with an asymmetric key, such as RS256 or ES256',
      ...(typeof alg === 'string' && alg.startsWith('HS') && { isUncertain: true }),
    },
  ]
}

function issuerDifference({ iss, tid }: JsonObject, { issuers }: ExpectedClaims): Differences {
  const [first] = issuers
  if (first === undefined) return []
  // The metadata of Entra ID contains a template if it does not name a tenant.
  const known = issuers.map((issuer) =>
    typeof tid === 'string' ? issuer.replace('{tenantid}', () => tid) : issuer,
  )
  if (known.some((issuer) => issuer === iss)) return []
  const wanted = `expected ${issuers.length > 1 ? 'one of ' : ''}${quoteAll(issuers)}`
  if (typeof iss !== 'string') {
    const seen = iss === undefined ? `iss is missing, ${wanted}` : `iss is ${quoteValue(iss)}, ${wanted}`
    return [{ claim: 'iss', seen, hint: 'let the authorization server add the claim iss' }]
  }
  const near = known.map((issuer) => nearMiss(iss, issuer)).find((words) => words !== undefined)
  if (near !== undefined) {
    return [
      {
        claim: 'iss',
        seen: `iss is ${quote(iss)}, ${wanted}: ${near}`,
        hint: 'use the exact spelling of iss in authorization_servers and in the issuer of the verifier: every character counts',
      },
    ]
  }
  const isEntraVersion1 =
    iss.startsWith('https://sts.windows.net/') &&
    issuers.some((issuer) => issuer.startsWith('https://login.microsoftonline.com/'))
  return [
    {
      claim: 'iss',
      seen: `iss is ${quote(iss)}, ${wanted}`,
      hint: isEntraVersion1
        ? 'set requestedAccessTokenVersion to 2 in the manifest of the API: this is a token of version 1 of Entra ID'
        : 'get the token from the authorization server that the metadata names, or correct authorization_servers and the issuer of the verifier',
    },
  ]
}

function audienceDifference(
  { aud, client_id, azp }: JsonObject,
  { resource, url }: ExpectedClaims,
): Differences {
  const wanted = `expected ${quote(resource)}`
  const request = `request the token with resource=${quote(resource)} (RFC 8707), or set this audience at the authorization server`
  if (aud === undefined) return [{ claim: 'aud', seen: `aud is missing, ${wanted}`, hint: request }]
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud]
  const texts = audiences.filter((one): one is string => typeof one === 'string')
  if (texts.some((one) => one === resource || one === url || isSameOrigin(one, resource))) return []
  const seen = `aud is ${audiences.length === 0 ? 'an empty list' : quoteAll(audiences)}, ${wanted}`
  const near = texts.map((one) => nearMiss(one, resource)).find((words) => words !== undefined)
  if (near !== undefined) {
    return [
      {
        claim: 'aud',
        seen: `${seen}: ${near}`,
        hint: near.includes('host name')
          ? 'use one of the names localhost and 127.0.0.1 everywhere: in the URL that clients use, in resource, and in the audience at the authorization server'
          : 'use one spelling everywhere: in resource, in the audience of the verifier, and at the authorization server',
      },
    ]
  }
  const isClient = texts.length === 1 && (texts[0] === client_id || texts[0] === azp)
  return [
    {
      claim: 'aud',
      seen: isClient ? `${seen}: it is the ID of the client` : seen,
      hint: `${request}; if the token is right, set the audience of the verifier to its aud`,
    },
  ]
}

function expiryDifference({ exp }: JsonObject, { now }: ExpectedClaims): Differences {
  if (typeof exp !== 'number') {
    const seen =
      exp === undefined ? 'exp is missing' : `exp is ${quoteValue(exp)}, expected a number of seconds`
    return [
      { claim: 'exp', seen, hint: 'let the authorization server issue tokens that expire (RFC 9068 §2.2)' },
    ]
  }
  if (exp > now) return []
  return [
    {
      claim: 'exp',
      seen: `exp is ${timeOf(exp)}: the token expired ${durationOf(now - exp)} ago`,
      hint: 'get a new token; if it is new, synchronize the clocks of the authorization server and the server',
    },
  ]
}

function notBeforeDifference({ nbf }: JsonObject, { now }: ExpectedClaims): Differences {
  if (nbf === undefined || (typeof nbf === 'number' && nbf <= now)) return []
  return [
    {
      claim: 'nbf',
      seen:
        typeof nbf === 'number'
          ? `nbf is ${timeOf(nbf)}: the token is valid in ${durationOf(nbf - now)}`
          : `nbf is ${quoteValue(nbf)}, expected a number of seconds`,
      hint: 'synchronize the clocks of the authorization server and the server, or wait until then',
    },
  ]
}

function scopeDifference(claims: JsonObject, { scopes }: ExpectedClaims): Differences {
  const granted = [claims.scope, claims.scp].flatMap(scopesOf)
  const known = new Set(granted)
  const missing = scopes.filter((scope) => !known.has(scope))
  if (missing.length === 0) return []
  const isMissing = claims.scope === undefined && claims.scp === undefined
  return [
    {
      claim: 'scope',
      seen: `scope is ${isMissing ? 'missing' : quote(granted.join(' ')) || 'empty'}, expected also ${quote(missing.join(' '))}`,
      hint: `request the scopes ${quote(scopes.join(' '))}, and grant them to this client and user at the authorization server`,
    },
  ]
}

function scopesOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return value.split(' ').filter((scope) => scope !== '')
  return Array.isArray(value) ? value.filter((scope) => typeof scope === 'string') : []
}

function keyDifference({ cnf }: JsonObject): Differences {
  const found: ClaimDifference[] = []
  if (memberOf(cnf, 'jkt') !== undefined) {
    found.push({
      claim: 'cnf',
      seen: 'cnf.jkt binds the token to a key for DPoP, expected a token that works without a proof',
      hint: 'get a token without DPoP: doctor, like most MCP clients, sends no proof (RFC 9449)',
    })
  }
  if (memberOf(cnf, 'x5t#S256') !== undefined) {
    found.push({
      claim: 'cnf',
      seen: 'cnf["x5t#S256"] binds the token to a TLS certificate of the client, expected a token that works without it',
      hint: 'get a token that is not bound to a certificate: doctor, like most MCP clients, has none (RFC 8705)',
    })
  }
  return found
}

function timeOf(seconds: number): string {
  return Math.abs(seconds) <= MAX_SECONDS
    ? new Date(seconds * 1000).toISOString().replace('.000Z', 'Z')
    : quoteValue(seconds)
}

/** Returns a duration in its largest unit, such as `3 hours`. */
export function durationOf(seconds: number): string {
  if (seconds > MAX_DURATION_SECONDS) return 'more than 100 years'
  const [unit, size] =
    seconds < 120
      ? ['second', 1]
      : seconds < 7_200
        ? ['minute', 60]
        : seconds < 172_800
          ? ['hour', 3_600]
          : ['day', 86_400]
  const count = Math.round(seconds / (size as number))
  return `${count} ${unit}${count === 1 ? '' : 's'}`
}
