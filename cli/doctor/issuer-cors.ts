import { type AuthorizationServerSeen, authorizationServers } from './authorization-servers.ts'
import type { Check } from './check.ts'
import { allows, onlyForPages, readable } from './cors.ts'
import type { Examination } from './examination.ts'
import { type Finding, InconclusiveError, ok, warn, worst } from './finding.ts'
import { type HttpExchange, NoResponseError } from './http-exchange.ts'
import { quote } from './quote.ts'

const HINT =
  'enable CORS at the authorization server for its metadata, registration, and token endpoints, or add the origins of the web pages there: other clients do not need it'

/** An endpoint, with a request that has no effect: the body is invalid, so the response is an error. */
interface Endpoint {
  readonly name: 'registration_endpoint' | 'token_endpoint'
  readonly contentType: string
  readonly body: string
}

const ENDPOINTS: readonly Endpoint[] = [
  { name: 'registration_endpoint', contentType: 'application/json', body: '{' },
  {
    name: 'token_endpoint',
    contentType: 'application/x-www-form-urlencoded',
    body: 'grant_type=authorization_code',
  },
]

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
    const address = found.document[endpoint.name]
    if (typeof address !== 'string' || !URL.canParse(address)) continue
    const url = new URL(address)
    if (!examination.mayFetch(url)) continue
    // Another host than that of the metadata gets no POST, because it did not name this endpoint itself.
    const sends = url.origin === found.url.origin
    const problem = await problemOf(examination, endpoint, url, sends)
    findings.push(
      problem === undefined
        ? ok(endpoint.name)
        : warn(`${endpoint.name} of ${quote(issuer)}: ${problem}`, HINT),
    )
  }
  return findings
}

/** Returns the reason why a web page cannot use an endpoint, or `undefined`. */
async function problemOf(
  examination: Examination,
  { name, contentType, body }: Endpoint,
  url: URL,
  sends: boolean,
): Promise<string | undefined> {
  const origin = examination.pageOrigin
  try {
    const response = sends
      ? await examination.fetch('POST', url, {
          headers: { origin, 'content-type': contentType, accept: 'application/json' },
          body,
        })
      : undefined
    const isReadable = response === undefined || readable(response, examination)
    // A form needs no preflight (Fetch §4.8).
    if (response !== undefined && isReadable && name === 'token_endpoint') return undefined
    const preflight = await examination.fetch('OPTIONS', url, {
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type',
      },
    })
    const problem = preflightProblem(preflight, examination)
    if (problem !== undefined) return problem
    // The responses of a token endpoint can depend on the client, which these requests do not name.
    return isReadable || name === 'token_endpoint'
      ? undefined
      : `the response (${response.status}) has no Access-Control-Allow-Origin`
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
