import { randomUUID } from 'node:crypto'
import type { QuirkId } from '../clients/quirks.ts'
import { authorizationServers } from './authorization-servers.ts'
import type { Check } from './check.ts'
import { clientProblem } from './client-problem.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok, worst } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { scopesOfResource } from './issuer-support.ts'
import { quote, quoteAll } from './quote.ts'

type Metadata = Readonly<Record<string, unknown>>

/** A registration as a client sends it. */
interface Attempt {
  readonly name: string
  readonly redirectUris: readonly string[]
  /** `true` to request the scopes of the resource and `offline_access`. */
  readonly hasScope?: true
  readonly quirk: QuirkId
}

const ATTEMPTS: readonly Attempt[] = [
  {
    name: 'a loopback redirect URI and no scope',
    redirectUris: ['http://localhost:3118/callback', 'http://127.0.0.1:33418/', 'http://127.0.0.1/'],
    quirk: 'registers-without-scope',
  },
  {
    name: 'the redirect URIs of Cursor',
    redirectUris: [
      'cursor://anysphere.cursor-mcp/oauth/callback',
      'https://www.cursor.com/agents/mcp/oauth/callback',
      'http://localhost:8787/callback',
    ],
    quirk: 'cursor-redirect',
  },
  {
    name: 'the scopes of the resource and offline_access',
    redirectUris: ['http://localhost:3118/callback'],
    hasScope: true,
    quirk: 'offline-access',
  },
]

/** The maximum number of scopes in a registration. The examined server names them. */
const MAX_SCOPES = 50

/** The members that the official SDK parses as URLs. */
const URL_MEMBERS = ['client_uri', 'logo_uri', 'tos_uri', 'policy_uri', 'jwks_uri']

export const CLIENT_REGISTRATION: readonly Check[] = [
  {
    id: 'issuer.register',
    title: 'Clients of every kind can register',
    needs: ['issuer.metadata'],
    async run(examination) {
      if (examination.options.register !== true)
        throw new InconclusiveError('only with --register, because it registers clients')
      const findings: Finding[] = []
      for (const { issuer, found } of await authorizationServers(examination)) {
        if (found !== undefined) findings.push(...(await checkServer(examination, issuer, found.document)))
      }
      return worst(findings)
    },
  },
]

async function checkServer(examination: Examination, issuer: string, metadata: Metadata): Promise<Finding[]> {
  const unknown = await checkUnknownClient(examination, issuer, metadata)
  const endpoint = endpointOf(examination, metadata.registration_endpoint)
  if (endpoint === undefined) return [unknown ?? ok(`${quote(issuer)} does not support dynamic registration`)]
  const findings: Finding[] = []
  for (const attempt of ATTEMPTS) findings.push(await tryRegistration(examination, endpoint, attempt))
  return [...findings, ...(unknown === undefined ? [] : [unknown])]
}

function endpointOf(examination: Examination, value: unknown): URL | undefined {
  if (typeof value !== 'string' || !URL.canParse(value)) return undefined
  const url = new URL(value)
  return examination.mayFetch(url) ? url : undefined
}

async function tryRegistration(
  examination: Examination,
  endpoint: URL,
  { name, redirectUris, hasScope, quirk }: Attempt,
): Promise<Finding> {
  const scopes = hasScope === true ? await scopesToRegister(examination) : []
  const response = await examination.fetch('POST', endpoint, {
    headers: { accept: 'application/json', 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: 'mcp-gatekit doctor',
      redirect_uris: redirectUris,
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
      ...(scopes.length > 0 && { scope: scopes.join(' ') }),
    }),
  })
  const client = objectOf(response)
  for (const member of ['client_secret', 'registration_access_token'])
    if (typeof client?.[member] === 'string') examination.secrets.add(client[member])
  if (response.status !== 201 && response.status !== 200)
    return clientProblem(examination, quirk, `registration with ${name}: ${errorOf(response, client)}`)
  if (typeof client?.client_id !== 'string' || client.client_id === '') {
    return fail(
      `registration with ${name}: ${response.summary} without a client_id`,
      'respond with a JSON object that contains client_id (RFC 7591 §3.2.1)',
    )
  }
  deleteLater(examination, endpoint, client)
  return checkMembers(examination, name, client)
}

async function scopesToRegister(examination: Examination): Promise<readonly string[]> {
  return [...(await scopesOfResource(examination)).slice(0, MAX_SCOPES), 'offline_access']
}

/** Checks the members that the official SDK validates. */
function checkMembers(examination: Examination, name: string, client: Metadata): Finding {
  const empty = Object.keys(client).filter((member) => client[member] === null)
  const blank = URL_MEMBERS.filter((member) => client[member] === '')
  const problems = [
    ...(empty.length > 0 ? [`null in ${quoteAll(empty)}`] : []),
    ...(blank.length > 0 ? [`an empty string in ${quoteAll(blank)}`] : []),
  ]
  return problems.length === 0
    ? ok('loopback, cursor://, no scope, and offline_access')
    : clientProblem(
        examination,
        'registration-null-members',
        `the response to the registration with ${name} contains ${problems.join(' and ')}`,
        'leave out members without a value',
      )
}

/** Sends a code of a client that does not exist, so that a client with a stale ID would register again. */
async function checkUnknownClient(
  examination: Examination,
  issuer: string,
  metadata: Metadata,
): Promise<Finding | undefined> {
  const endpoint = endpointOf(examination, metadata.token_endpoint)
  if (endpoint === undefined) return undefined
  const body = new URLSearchParams({
    grant_type: 'authorization_code',
    code: 'mcp-gatekit-doctor',
    redirect_uri: 'http://localhost:3118/callback',
    client_id: `mcp-gatekit-doctor-${randomUUID()}`,
    code_verifier: 'mcp-gatekit-doctor-'.padEnd(43, '0'),
  })
  const response = await examination.fetch('POST', endpoint, {
    headers: { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' },
    body: body.toString(),
  })
  const answer = objectOf(response)
  if (response.succeeded) {
    return fail(
      `${quote(issuer)} responds with ${response.status} to an unknown client_id`,
      'respond with 401 and invalid_client (RFC 6749 §5.2)',
    )
  }
  return response.status === 401 && answer?.error === 'invalid_client'
    ? undefined
    : clientProblem(
        examination,
        'stale-client',
        `token request with an unknown client_id: ${errorOf(response, answer)}`,
        'respond with 401 and invalid_client (RFC 6749 §5.2): clients register again only then',
      )
}

/** Returns the status and the error code, without the description, which can contain a secret. */
function errorOf(response: HttpExchange, body: Metadata | undefined): string {
  return typeof body?.error === 'string' ? `${response.status}, ${quote(body.error)}` : response.summary
}

function objectOf({ json }: HttpExchange): Metadata | undefined {
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? (json as Metadata) : undefined
}

/** Deletes the registration after the last check, if the authorization server supports that (RFC 7592 §2.3). */
function deleteLater(examination: Examination, endpoint: URL, client: Metadata): void {
  const url = endpointOf(examination, client.registration_client_uri)
  const token = client.registration_access_token
  if (url === undefined || url.origin !== endpoint.origin || typeof token !== 'string') return
  examination.closing.push(() =>
    examination.fetch('DELETE', url, { headers: { authorization: `Bearer ${token}` } }),
  )
}
