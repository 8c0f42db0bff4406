import { authorizationServers } from './authorization-servers.ts'
import { bearerChallengeOf } from './challenges.ts'
import type { Check } from './check.ts'
import {
  type ClaimDifference,
  claimDifferences,
  durationOf,
  type ExpectedClaims,
} from './claim-differences.ts'
import { isRefused, tokenResponse } from './conversation.ts'
import { type DecodedToken, decodeToken } from './decoded-token.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { bearerChallenge, isGuarded } from './protection.ts'
import { quote, quoteAll } from './quote.ts'
import { resourceMetadata } from './resource-metadata.ts'

/** A smaller difference between two clocks is not mentioned. */
const MAX_CLOCK_SKEW_SECONDS = 60

/** A server that accepts a token this long after its expiry does not check it. Caches and tolerances are shorter. */
const MAX_EXPIRED_SECONDS = 600

/** The comparison of the token with the metadata. */
export const comparedToken: Observation<Finding> = observation(async (examination) => {
  if (!(await isGuarded(examination)))
    throw new InconclusiveError('the server requires no token: see auth.required')
  const { withheld } = examination
  if (withheld !== undefined)
    return fail(
      `aud is ${quoteAll(withheld.audiences)}, expected ${quote(withheld.resource)}: doctor does not send a token for another resource`,
      'check the scopes in the challenge and in scopes_supported; let the authorization server set the audience by the parameter resource (RFC 8707)',
    )
  const response = await tokenResponse(examination)
  const decoded = decodeToken(examination.token ?? '')
  const isAccepted = !isRefused(response) && response.status < 500
  if (decoded.kind !== 'jwt') return withoutClaims(decoded, isAccepted)
  const expected = await expectedClaims(examination, response, isAccepted)
  const differences = claimDifferences(decoded.header, decoded.claims, expected)
  const clock = clockRemark(expected.now)
  if (isAccepted) return whenAccepted(differences, decoded.claims, expected)
  const certain = differences.filter(({ isUncertain }) => isUncertain !== true)
  const relevant = certain.length > 0 ? certain : differences
  if (relevant.length === 0) return ok(`${comparedClaims(decoded.claims, expected)}${clock}`)
  const seen = `${relevant.map((one) => one.seen).join('; ')}${clock}`
  const hint = hintsOf(relevant)
  return certain.length > 0 ? fail(seen, hint) : warn(seen, hint)
})

export const TOKEN_CLAIMS: Check = {
  id: 'token.claims',
  title: 'The token matches the metadata',
  needs: ['auth.required'],
  run: comparedToken,
}

function withoutClaims(decoded: Exclude<DecodedToken, { kind: 'jwt' }>, isAccepted: boolean): Finding {
  if (decoded.kind === 'garbage') {
    const seen = `the token ${decoded.problem}`
    return isAccepted
      ? ok(`${seen}, so its claims cannot be compared`)
      : fail(seen, 'copy the whole token: it was probably cut or changed, or it is not an access token')
  }
  const seen =
    decoded.kind === 'opaque'
      ? 'the token is opaque (not a JWT), so its claims cannot be compared'
      : 'the token is encrypted (JWE), so its claims cannot be compared'
  if (isAccepted) return ok(seen)
  return warn(
    seen,
    decoded.kind === 'opaque'
      ? 'check at the authorization server: the introspection endpoint must report this token as active, with the audience of this server and an expiry in the future; if the server expects a JWT, request the token for this resource (RFC 8707), or verify opaque tokens (mcp-gatekit: introspectionVerifier)'
      : 'check that the server has the key to decrypt it, or let the authorization server issue signed tokens without encryption',
  )
}

/** Collects the values that the server and its authorization servers require. */
async function expectedClaims(
  examination: Examination,
  response: HttpExchange,
  isAccepted: boolean,
): Promise<ExpectedClaims> {
  const document = await resourceMetadata(examination).then(
    (found) => found.document,
    () => undefined,
  )
  const servers = await authorizationServers(examination).catch(() => [])
  const issuers = servers.flatMap(({ issuer, found }) => [issuer, found?.document.issuer])
  const challenged =
    bearerChallengeOf(response.header('www-authenticate')) ??
    (await bearerChallenge(examination).catch(() => undefined))
  const time = Date.parse(response.header('date') ?? '')
  return {
    resource: typeof document?.resource === 'string' ? document.resource : examination.url.href,
    // If only the metadata names another resource, metadata.resource reports it.
    ...(isAccepted && { url: examination.url.href }),
    issuers: [...new Set(issuers.filter((issuer) => typeof issuer === 'string'))],
    scopes: isRefused(response)
      ? (challenged?.parameters.get('scope') ?? '').split(' ').filter((scope) => scope !== '')
      : [],
    now: Math.floor((Number.isNaN(time) ? Date.now() : time) / 1000),
  }
}

/** Reports the differences of a token that the server accepts: it may accept tokens for other servers as well. */
function whenAccepted(
  differences: readonly ClaimDifference[],
  claims: Readonly<Record<string, unknown>>,
  expected: ExpectedClaims,
): Finding {
  const relevant = differences.filter(({ isUncertain }) => isUncertain !== true)
  if (relevant.length === 0) return ok(comparedClaims(claims, expected))
  const seen = `the server accepts the token, although ${relevant.map((one) => one.seen).join('; ')}`
  if (typeof claims.exp === 'number' && claims.exp < expected.now - MAX_EXPIRED_SECONDS)
    return fail(seen, 'verify exp, and reject expired tokens (mcp-gatekit: jwtVerifier)')
  return warn(
    seen,
    'check that the server verifies these claims: otherwise it accepts stolen tokens and tokens for other servers. If the metadata and the tokens differ on purpose, ignore this check',
  )
}

function comparedClaims(
  claims: Readonly<Record<string, unknown>>,
  { scopes, resource, issuers }: ExpectedClaims,
): string {
  const names = [
    ...(issuers.length > 0 ? ['iss'] : []),
    'aud',
    'exp',
    ...(claims.nbf === undefined ? [] : ['nbf']),
    ...(scopes.length > 0 ? ['scope'] : []),
  ]
  return `${names.join(', ')} match the metadata of ${quoteAll([resource])}`
}

function clockRemark(now: number): string {
  const ahead = now - Date.now() / 1000
  if (Math.abs(ahead) < MAX_CLOCK_SKEW_SECONDS) return ''
  return `; the clock of the server is ${durationOf(Math.abs(ahead))} ${ahead > 0 ? 'ahead of' : 'behind'} that of this machine`
}

function hintsOf(differences: readonly ClaimDifference[]): string {
  return [...new Set(differences.map(({ hint }) => hint))].join('; ')
}
