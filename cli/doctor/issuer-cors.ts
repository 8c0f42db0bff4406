import { authorizationServers } from './authorization-servers.ts'
import type { CheckFunctions } from './check.ts'
import { allows, onlyForPages, preflightOf, readable } from './cors.ts'
import type { Examination } from './examination.ts'
import { InconclusiveError, ok, warn } from './finding.ts'
import { answerOf, NoResponseError } from './http-exchange.ts'
import { ofEach } from './issuers.ts'
import { quote } from './quote.ts'

const HINT =
  'enable CORS at the authorization server for its metadata, registration, and token endpoints, or add the origins of the web pages there: other clients do not need it'

/** The registration endpoint gets only a preflight, because a request could register a client. */
const ENDPOINTS = ['registration_endpoint', 'token_endpoint'] as const

/** A request without a code and a client, which gets an error and has no effect. */
const TOKEN_REQUEST = 'grant_type=authorization_code'

export const ISSUER_CORS: CheckFunctions = {
  async 'cors.issuers'(examination) {
    await onlyForPages(examination)
    const servers = await authorizationServers(examination)
    if (servers.some(({ response }) => !readable(response, examination)))
      throw new InconclusiveError('they cannot: see issuer.cors')
    return ok(servers.map(({ issuer }) => quote(issuer)).join(', '))
  },
  'issuer.cors': ofEach(async ({ issuer, document, url: source, response }, examination) => {
    await onlyForPages(examination)
    const findings = [
      readable(response, examination)
        ? ok('metadata')
        : warn(`the metadata of ${quote(issuer)} is sent without Access-Control-Allow-Origin`, HINT),
    ]
    for (const endpoint of ENDPOINTS) {
      const url = examination.safeUrl(document[endpoint])
      if (url === undefined) continue
      // Another host than that of the metadata gets no POST, because it did not name this endpoint itself.
      const sends = endpoint === 'token_endpoint' && url.origin === source.origin
      const problem = await problemOf(examination, url, sends)
      findings.push(
        problem === undefined ? ok(endpoint) : warn(`${endpoint} of ${quote(issuer)}: ${problem}`, HINT),
      )
    }
    return findings
  }),
}

/**
 * Returns the reason why a web page cannot use an endpoint, or `undefined`.
 * @param sends `true` to send a token request. Its response is sufficient, because a form needs no preflight (Fetch §4.8)
 */
async function problemOf(examination: Examination, url: URL, sends: boolean): Promise<string | undefined> {
  if (sends) {
    const headers = {
      origin: examination.pageOrigin,
      'content-type': 'application/x-www-form-urlencoded',
      accept: 'application/json',
    }
    const response = await answerOf(examination.fetch('POST', url, { headers, body: TOKEN_REQUEST }))
    if (response instanceof NoResponseError) return `no response (${response.detail})`
    if (readable(response, examination)) return undefined
  }
  // The response of a token endpoint can depend on the client, which the request does not name, but its preflight cannot.
  const headers = preflightOf(examination, 'POST', ['content-type'])
  const preflight = await answerOf(examination.fetch('OPTIONS', url, { headers }))
  if (preflight instanceof NoResponseError) return `no response (${preflight.detail})`
  const isReadable = readable(preflight, examination)
  if (!preflight.succeeded || !isReadable)
    return `the preflight gets ${preflight.summary}${isReadable ? '' : ' without Access-Control-Allow-Origin'}`
  return allows(preflight, 'content-type') ? undefined : 'the preflight does not allow Content-Type'
}
