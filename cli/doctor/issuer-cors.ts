import { type AuthorizationServerSeen, authorizationServers } from './authorization-servers.ts'
import type { Check } from './check.ts'
import { allows, onlyForPages, readable } from './cors.ts'
import type { Examination } from './examination.ts'
import { type Finding, InconclusiveError, ok, warn, worst } from './finding.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'
import { quote } from './quote.ts'

const HINT =
  'enable CORS at the authorization server for its metadata, registration, and token endpoints, or add the origins of the web pages there: other clients do not need it'

/** The registration endpoint gets only a preflight, because a request could register a client. */
const ENDPOINTS = ['registration_endpoint', 'token_endpoint'] as const

/** A request without a code and a client, which gets an error and has no effect. */
const TOKEN_REQUEST = 'grant_type=authorization_code'

export const ISSUER_CORS: readonly Check[] = [
  {
    id: 'cors.issuers',
    title: 'Web pages can read the metadata of the authorization servers',
    needs: ['cors.preflight', 'issuer.metadata'],
    async run(examination) {
      await onlyForPages(examination)
      const servers = await authorizationServers(examination)
      if (servers.some(({ found }) => !readable(found?.response, examination)))
        throw new InconclusiveError('they cannot: see issuer.cors')
      return ok(servers.map(({ issuer }) => quote(issuer)).join(', '))
    },
  },
  {
    id: 'issuer.cors',
    title: 'Web pages can use the authorization servers',
    needs: ['cors.preflight', 'issuer.metadata'],
    async run(examination) {
      await onlyForPages(examination)
      const findings: Finding[] = []
      for (const server of await authorizationServers(examination))
        findings.push(...(await findingsOf(examination, server)))
      return worst(findings)
    },
  },
]

async function findingsOf(
  examination: Examination,
  { issuer, found }: AuthorizationServerSeen,
): Promise<readonly Finding[]> {
  if (found === undefined) return []
  const findings = [
    readable(found.response, examination)
      ? ok('metadata')
      : warn(`the metadata of ${quote(issuer)} is sent without Access-Control-Allow-Origin`, HINT),
  ]
  for (const endpoint of ENDPOINTS) {
    const address = found.document[endpoint]
    if (typeof address !== 'string' || !URL.canParse(address)) continue
    const url = new URL(address)
    if (!examination.mayFetch(url)) continue
    // Another host than that of the metadata gets no POST, because it did not name this endpoint itself.
    const sends = endpoint === 'token_endpoint' && url.origin === found.url.origin
    const problem = await problemOf(examination, url, sends)
    findings.push(
      problem === undefined ? ok(endpoint) : warn(`${endpoint} of ${quote(issuer)}: ${problem}`, HINT),
    )
  }
  return findings
}

/**
 * Returns the reason why a web page cannot use an endpoint, or `undefined`.
 * @param sends `true` to send a token request. Its response is sufficient, because a form needs no preflight (Fetch §4.8)
 */
async function problemOf(examination: Examination, url: URL, sends: boolean): Promise<string | undefined> {
  const origin = examination.pageOrigin
  try {
    if (sends) {
      const response = await examination.fetch('POST', url, {
        headers: { origin, 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
        body: TOKEN_REQUEST,
      })
      if (readable(response, examination)) return undefined
    }
    // The response of a token endpoint can depend on the client, which the request does not name, but its preflight cannot.
    const preflight = await examination.fetch('OPTIONS', url, {
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type',
      },
    })
    return preflightProblem(preflight, examination)
  } catch (error) {
    if (error instanceof NoResponseError) return `no response (${error.detail})`
    throw error
  }
}

function preflightProblem(response: HttpExchange, examination: Examination): string | undefined {
  const isReadable = readable(response, examination)
  if (!response.succeeded || !isReadable)
    return `the preflight gets ${response.status}${isReadable ? '' : ' without Access-Control-Allow-Origin'}`
  return allows(response, 'content-type') ? undefined : 'the preflight does not allow Content-Type'
}
