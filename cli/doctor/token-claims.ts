import { grantedScopes } from '../../src/oauth/scope.ts'
import { authorizationServers, isSameIssuer } from './authorization-servers.ts'
import type { CheckFunctions } from './check.ts'
import { type Compared, compareClaims, durationOf, type ExpectedClaims } from './claim-differences.ts'
import { isRefused, tokenResponse } from './conversation.ts'
import { type DecodedToken, decodeToken } from './decoded-token.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, warn } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { bearerChallenge, isGuarded } from './protection.ts'
import { quote, quoteAll } from './quote.ts'
import { resourceDocument } from './resource-metadata.ts'
import { compareKey } from './token-key.ts'

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
  const isAccepted = !isRefused(response) && response.status < 500
  const token = decodeToken(examination.token ?? '')
  if (token.kind !== 'jwt') return withoutClaims(token, isAccepted)
  const expected = await expectedClaims(examination, response, isAccepted)
  return compare(token, expected, await compareKey(examination, token), isAccepted)
})

export const TOKEN_CLAIMS: CheckFunctions = { 'token.claims': comparedToken }

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
  const challenge = response.challenge ?? (await bearerChallenge(examination).catch(() => undefined))
  const time = Date.parse(response.header('date') ?? '')
  return {
    resource: typeof document?.resource === 'string' ? document.resource : examination.url.href,
    // If only the metadata names another resource, metadata.resource reports it.
    ...(isAccepted && { url: examination.url.href }),
    issuers: [...new Set(issuers.filter((issuer) => typeof issuer === 'string'))],
    scopes: isRefused(response) ? grantedScopes(challenge?.parameters.get('scope')) : [],
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
  const compared = [...compareClaims(header, claims, expected), ...(typeof key === 'string' ? [] : key)]
  const differences = compared.flatMap(([, found]) => found)
  const certain = differences.filter(
    ({ isUncertain, isTolerable }) => isUncertain !== true && !(isAccepted && isTolerable === true),
  )
  const relevant = certain.length > 0 || isAccepted ? certain : differences
  const clock = isAccepted ? '' : clockRemark(expected.now)
  if (relevant.length === 0) {
    const remark = typeof key === 'string' ? `; the key was not compared: ${key}` : ''
    return ok(`no difference found in ${compared.map(([part]) => part).join(', ')}${remark}${clock}`)
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

function clockRemark(now: number): string {
  const ahead = now - Date.now() / 1000
  if (Math.abs(ahead) < MAX_CLOCK_SKEW_SECONDS) return ''
  return `; the clock of the server is ${durationOf(Math.abs(ahead))} ${ahead > 0 ? 'ahead of' : 'behind'} that of this machine`
}
