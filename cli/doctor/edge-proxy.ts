import { isDeepStrictEqual } from 'node:util'
import type { CheckFunctions } from './check.ts'
import { isRefused, tokenResponse } from './conversation.ts'
import { type Examination, type Observation, observation } from './examination.ts'
import { fail, InconclusiveError, ok, warn } from './finding.ts'
import { randomToken } from './forged-tokens.ts'
import type { HttpExchange } from './http-exchange.ts'
import { refusal } from './protection.ts'
import { quote } from './quote.ts'

/** Repeats the request that was rejected without a token, with another token. */
export async function tryToken(examination: Examination, token: string): Promise<HttpExchange> {
  const { method, headers, body } = (await refusal(examination)).outgoing
  return await examination.send(method, { headers, body, token })
}

/** The response to a random string as the token. */
export const randomTokenResponse: Observation<HttpExchange> = observation((examination) =>
  tryToken(examination, randomToken()),
)

/** Phrases that describe a missing token. Others, such as `Authentication required`, can also describe an invalid one. */
const MISSING = [
  'missing',
  'no token',
  'no access token',
  'no bearer',
  'no auth',
  'not provided',
  'access token is required',
]

function saysMissing(description: string | undefined): boolean {
  const words = quote(description ?? '').toLowerCase()
  // `Missing or expired token` is one reason for several causes.
  const isAmbiguous = words.includes('invalid') || words.includes(' or ')
  return !isAmbiguous && MISSING.some((phrase) => words.includes(phrase))
}

function hasSameReason(one: HttpExchange, other: HttpExchange): boolean {
  return one.status === other.status && isDeepStrictEqual(one.reason, other.reason)
}

/** The fixes by the name that a proxy sends in `Server` or `Via`. */
const FIXES: Readonly<Record<string, string>> = {
  nginx:
    'nginx: remove proxy_set_header Authorization "" and auth_basic, or add proxy_set_header Authorization $http_authorization',
  apache: 'Apache: CGIPassAuth On, or SetEnvIf Authorization "(.*)" HTTP_AUTHORIZATION=$1',
  cloudfront: 'CloudFront: forward Authorization with an origin request policy, such as AllViewer',
  others:
    'in other proxies, gateways, and middleware: forward Authorization unchanged, and do not use it for their own sign-in',
}

/** Returns the fixes, with that of the proxy first. @param proxy the values of `Server` and `Via` */
function fixesFor(proxy: string): string {
  const names = proxy.toLowerCase()
  const fixes = Object.entries(FIXES).sort(
    ([one], [other]) => Number(names.includes(other)) - Number(names.includes(one)),
  )
  return `let every proxy in front of the server forward the Authorization header. ${fixes.map(([, fix]) => fix).join('; ')}`
}

/** The response to a token that is the same as without one, and whether it says that the token is missing. */
interface IgnoredToken {
  readonly response: HttpExchange
  readonly saysMissing: boolean
}

/** The response that shows that the token does not reach the server, or `undefined` if it does. */
const ignoredToken: Observation<IgnoredToken | undefined> = observation(async (examination) => {
  const without = await refusal(examination)
  const own = examination.token === undefined ? undefined : await tokenResponse(examination)
  if (own !== undefined && !isRefused(own)) return undefined
  const random = await randomTokenResponse(examination)
  const response = own ?? random
  if (!hasSameReason(random, without) || !hasSameReason(response, without)) return undefined
  return { response, saysMissing: saysMissing(without.reason.description) }
})

/** Returns `true` if a token does not reach the server. */
export async function losesToken(examination: Examination): Promise<boolean> {
  return (await ignoredToken(examination))?.saysMissing === true
}

export const EDGE_PROXY: CheckFunctions = {
  async 'edge.proxy'(examination) {
    const ignored = await ignoredToken(examination)
    if (ignored === undefined) return ok('the server distinguishes requests with a token')
    const { response } = ignored
    const proxy = ['server', 'via'].flatMap((name) => response.header(name) ?? []).join(', ')
    const seen = `a request with a token gets ${response.summary}, like a request without one${proxy === '' ? '' : ` (from ${quote(proxy)})`}`
    if (ignored.saysMissing)
      return fail(`${seen}: something between doctor and the server removes the header`, fixesFor(proxy))
    if (examination.token === undefined)
      throw new InconclusiveError(
        'the server gives the same response with and without a token: use --token-env or --login',
      )
    return warn(
      `${seen}: either something removes the header, or the server gives no reason`,
      `respond to an invalid token with error="invalid_token" and an error_description. If the log of the server shows no token, ${fixesFor(proxy)}`,
    )
  },
}
