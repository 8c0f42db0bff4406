import { randomUUID } from 'node:crypto'
import type { QuirkId } from '../clients/quirks.ts'
import type { KnownServer } from './authorization-servers.ts'
import type { CheckFunctions } from './check.ts'
import { clientProblem } from './client-problem.ts'
import type { Examination } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { ofEach, scopesOfResource } from './issuers.ts'
import type { JsonObject } from './json-object.ts'
import { quote, quoteAll } from './quote.ts'

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

export const CLIENT_REGISTRATION: CheckFunctions = {
  async 'issuer.register'(examination) {
    if (examination.options.register !== true)
      throw new InconclusiveError('only with --register, because it registers clients')
    return await registerClients(examination)
  },
}

const registerClients = ofEach(async (server, examination) => {
  const unknown = await checkUnknownClient(examination, server)
  const endpoint = examination.safeUrl(server.document.registration_endpoint)
  if (endpoint === undefined)
    return unknown ?? ok(`${quote(server.issuer)} does not support dynamic registration`)
  const findings: Finding[] = []
  for (const attempt of ATTEMPTS) findings.push(await tryRegistration(examination, endpoint, attempt))
  return [...findings, ...(unknown === undefined ? [] : [unknown])]
})

async function tryRegistration(
  examination: Examination,
  endpoint: URL,
  { name, redirectUris, hasScope, quirk }: Attempt,
): Promise<Finding> {
  const scopes = hasScope === true ? (await scopesOfResource(examination)).slice(0, MAX_SCOPES) : []
  const { response, client } = await registerClient(examination, endpoint, {
    redirect_uris: redirectUris,
    ...(hasScope === true && { scope: [...scopes, 'offline_access'].join(' ') }),
  })
  if (response.status !== 201 && response.status !== 200)
    return clientProblem(examination, quirk, `registration with ${name}: ${response.summary}`)
  if (typeof client.client_id !== 'string' || client.client_id === '')
    return fail(
      `registration with ${name}: ${response.summary} without a client_id`,
      'respond with a JSON object that contains client_id (RFC 7591 §3.2.1)',
    )
  return checkMembers(examination, name, client)
}

/** The response to a registration, with its members. */
export interface Registration {
  readonly response: HttpExchange
  readonly client: JsonObject
}

/** The metadata of a public client that runs on this machine. */
export const PUBLIC_CLIENT = {
  client_name: 'mcp-gatekit doctor',
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  application_type: 'native',
}

/** Registers a public client, and deletes it after the last check if the authorization server supports that. */
export async function registerClient(
  examination: Examination,
  endpoint: URL,
  metadata: JsonObject,
): Promise<Registration> {
  const response = await examination.fetch('POST', endpoint, {
    headers: { accept: 'application/json', 'content-type': 'application/json' },
    body: JSON.stringify({
      ...PUBLIC_CLIENT,
      grant_types: ['authorization_code', 'refresh_token'],
      ...metadata,
    }),
  })
  const client = response.object ?? {}
  for (const secret of [client.client_secret, client.registration_access_token])
    if (typeof secret === 'string') examination.secrets.add(secret)
  if (response.succeeded) deleteLater(examination, endpoint, client)
  return { response, client }
}

/** Checks the members that the official SDK validates. */
function checkMembers(examination: Examination, name: string, client: JsonObject): Finding {
  const empty = Object.keys(client).filter((member) => client[member] === null)
  const blank = URL_MEMBERS.filter((member) => client[member] === '')
  const problems = [
    ...(empty.length > 0 ? [`null in ${quoteAll(empty)}`] : []),
    ...(blank.length > 0 ? [`an empty string in ${quoteAll(blank)}`] : []),
  ]
  if (problems.length === 0) return ok('loopback, cursor://, no scope, and offline_access')
  const seen = `the response to the registration with ${name} contains ${problems.join(' and ')}`
  return clientProblem(examination, 'registration-null-members', seen, 'leave out members without a value')
}

/** Sends a code of a client that does not exist, so that a client with a stale ID would register again. */
async function checkUnknownClient(
  examination: Examination,
  { issuer, document }: KnownServer,
): Promise<Finding | undefined> {
  const endpoint = examination.safeUrl(document.token_endpoint)
  if (endpoint === undefined) return undefined
  const body = new URLSearchParams({
    grant_type: 'authorization_code',
    code: 'mcp-gatekit-doctor',
    redirect_uri: 'http://localhost:3118/callback',
    client_id: `mcp-gatekit-doctor-${randomUUID()}`,
    code_verifier: 'mcp-gatekit-doctor-'.padEnd(43, '0'),
  }).toString()
  const headers = { accept: 'application/json', 'content-type': 'application/x-www-form-urlencoded' }
  const response = await examination.fetch('POST', endpoint, { headers, body })
  const hint = 'respond with 401 and invalid_client (RFC 6749 §5.2)'
  if (response.succeeded)
    return fail(`${quote(issuer)} responds with ${response.status} to an unknown client_id`, hint)
  if (response.status === 401 && response.object?.error === 'invalid_client') return undefined
  const seen = `token request with an unknown client_id: ${response.summary}`
  return clientProblem(examination, 'stale-client', seen, `${hint}: clients register again only then`)
}

/** Deletes the registration after the last check, if the authorization server supports that (RFC 7592 §2.3). */
function deleteLater(examination: Examination, endpoint: URL, client: JsonObject): void {
  const url = examination.safeUrl(client.registration_client_uri)
  const token = client.registration_access_token
  if (url?.origin !== endpoint.origin || typeof token !== 'string') return
  const headers = { authorization: `Bearer ${token}` }
  examination.closing.push(() => examination.fetch('DELETE', url, { headers }))
}
