import { randomUUID } from 'node:crypto'
import { grantedScopes } from '../../../src/oauth/scope.ts'
import type { IssuerForm } from '../clients.ts'
import { distinctUrls, type FoundDocument, fetchDocument } from '../documents.ts'
import { type CheckFunctions, clientProblem, type Examination, observation } from '../examination.ts'
import { type Finding, type Found, fail, findingsOfEach, ok, onlyIf, warn, worst } from '../finding.ts'
import type { HttpExchange } from '../http-exchange.ts'
import { quote, quoteAll, quoteValue } from '../quote.ts'
import { type JsonObject, textsOf, urlOf, withoutSlash } from '../values.ts'
import { resourceMetadata } from './metadata.ts'
import { challengedScope } from './protection.ts'
import { noResponse } from './server.ts'

/** Further servers are ignored. */
const MAX_SERVERS = 5

/** The forms of the metadata URL (RFC 8414 §3.1, OpenID Connect Discovery §4), in the order of MCP clients. */
const ISSUER_FORMS = ['oauth-inserted', 'openid-inserted', 'openid-appended'] as const

/** An authorization server with the first metadata document that a client finds, or the last result if there is none. */
interface AuthorizationServerSeen extends FoundDocument {
  /** The issuer, as the resource names it. */
  readonly issuer: string
}

/** Returns `true` for an http or https URL. Other URLs have no origin, and thus no well-known URLs. */
export function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)
}

/** Compares two issuers, ignoring a slash at the end. */
export function isSameIssuer(one: unknown, other: string): boolean {
  return typeof one === 'string' && withoutSlash(one) === withoutSlash(other)
}

/** Returns `true` if clients accept an issuer in metadata: the official ones accept only one slash less than the resource names. */
export function isAcceptedIssuer(said: unknown, issuer: string): boolean {
  return said === issuer || (issuer.endsWith('/') && said === withoutSlash(issuer))
}

/** Returns the URL of one form of the metadata of an issuer. */
export function formUrl(issuer: string, form: IssuerForm): URL {
  const { origin, pathname } = new URL(issuer)
  const path = withoutSlash(pathname)
  const places: Readonly<Record<IssuerForm, string>> = {
    'oauth-inserted': `/.well-known/oauth-authorization-server${path}`,
    'openid-inserted': `/.well-known/openid-configuration${path}`,
    'openid-appended': `${path}/.well-known/openid-configuration`,
    'oauth-root': '/.well-known/oauth-authorization-server',
    'openid-root': '/.well-known/openid-configuration',
  }
  return new URL(places[form], origin)
}

/** Returns the metadata URLs of an issuer. */
export function discoveryUrls(issuer: string, forms: readonly IssuerForm[] = ISSUER_FORMS): readonly URL[] {
  return distinctUrls(forms.map((form) => formUrl(issuer, form)))
}

/** The authorization servers that the resource names. @throws {InconclusiveError} if it names none */
export const authorizationServers = observation(async (examination) => {
  const { document } = await resourceMetadata(examination)
  const issuers = (textsOf(document, 'authorization_servers') ?? []).filter(isHttpUrl)
  onlyIf(issuers.length > 0, 'the resource names no authorization server')
  const servers: AuthorizationServerSeen[] = []
  for (const issuer of issuers.slice(0, MAX_SERVERS)) {
    let found: FoundDocument | undefined
    for (const url of discoveryUrls(issuer)) {
      found = await fetchDocument(examination, url)
      // The other URLs are on the same host. Only a closed connection can depend on the path.
      const { document, failure } = found
      if (document !== undefined || (failure !== undefined && failure.kind !== 'closed')) break
    }
    servers.push({ issuer, ...(found as FoundDocument) })
  }
  return servers
})

/** An authorization server whose metadata was found. */
export interface KnownServer extends AuthorizationServerSeen {
  readonly document: JsonObject
}

/** Returns the authorization servers whose metadata was found. */
export async function knownServers(examination: Examination): Promise<readonly KnownServer[]> {
  const servers = await authorizationServers(examination)
  return servers.filter((server): server is KnownServer => server.document !== undefined)
}

/** Returns `true` if an authorization server does not respond. */
export async function isAuthorizationServerDown(examination: Examination): Promise<boolean> {
  const servers = await authorizationServers(examination).catch(() => [])
  return servers.some(({ failure }) => failure !== undefined)
}

/** Scopes that do not belong to a resource (OpenID Connect Core §5.4, §11). */
const COMMON_SCOPES = ['openid', 'profile', 'email', 'address', 'phone', 'offline_access']

/** Returns `true` if an authorization server accepts URLs of client ID metadata documents as client IDs. */
export function acceptsMetadataDocuments(metadata: JsonObject): boolean {
  return metadata.client_id_metadata_document_supported === true
}

/** Returns `true` if clients without a secret can use the token endpoint. The default is `client_secret_basic` (RFC 8414 §2). */
export function acceptsPublicClients(metadata: JsonObject): boolean {
  return textsOf(metadata, 'token_endpoint_auth_methods_supported')?.includes('none') === true
}

/** Returns the scopes of the challenge and of the resource metadata. */
async function scopesOfResource(examination: Examination): Promise<readonly string[]> {
  const { document } = await resourceMetadata(examination)
  const challenged = grantedScopes(await challengedScope(examination))
  const supported = textsOf(document, 'scopes_supported') ?? []
  return [...new Set([...challenged, ...supported])].filter((scope) => scope !== '')
}

/** Returns a check of each authorization server whose metadata was found. */
export function ofEach(
  check: (server: KnownServer, examination: Examination) => Found | Promise<Found>,
): CheckFunctions[string] {
  return async (examination) =>
    worst(await findingsOfEach(await knownServers(examination), (server) => check(server, examination)))
}

/** Registrations as clients send them. With `hasScope`, they request the scopes of the resource and `offline_access`. */
const ATTEMPTS = [
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

export const ONLY_WITH_REGISTER = 'only with --register, because it registers clients'

/** The members that the official SDK parses as URLs. */
const URL_MEMBERS = ['client_uri', 'logo_uri', 'tos_uri', 'policy_uri', 'jwks_uri']

export const ISSUERS: CheckFunctions = {
  async 'issuer.metadata'(examination) {
    const servers = await authorizationServers(examination)
    return worst(
      servers.map(({ issuer, document, url, failure }) => {
        if (document !== undefined) return ok(quote(url.href))
        if (failure === undefined)
          return fail(
            `${quote(issuer)} has no metadata`,
            `serve it at ${quote(formUrl(issuer, 'oauth-inserted').href)} (RFC 8414) or as an OpenID configuration, or correct the URL of the issuer in the resource metadata`,
          )
        const { seen, hint } = noResponse(failure)
        return fail(`${quote(issuer)}: ${seen}`, `at the authorization server: ${hint}`)
      }),
    )
  },
  'issuer.identity': ofEach(({ issuer, document: { issuer: said } }) => {
    if (said === issuer) return ok(quote(issuer))
    const [report, slash] = isAcceptedIssuer(said, issuer) ? [warn, 'less'] : [fail, 'more']
    return report(
      `the resource names ${quote(issuer)}, the authorization server ${quoteValue(said)}${isSameIssuer(said, issuer) ? `: one slash ${slash}` : ''}`,
      'make both identical (RFC 8414 §3.3): the official clients accept only one slash less, and stop otherwise',
    )
  }),
  'issuer.endpoints': ofEach(({ issuer, document }, examination) => {
    const hint = 'enable the authorization code flow at the authorization server, with https endpoints'
    for (const name of ['authorization_endpoint', 'token_endpoint']) {
      const value = document[name]
      if (urlOf(value) === undefined) return fail(`${quote(issuer)} has no ${name}`, hint)
      if (examination.safeUrl(value) === undefined)
        return fail(`${name} is ${quoteValue(value)}, which is not https`, hint)
    }
    if (document.response_types_supported === undefined) return ok('both endpoints')
    const types = textsOf(document, 'response_types_supported') ?? []
    return types.includes('code')
      ? ok('both endpoints, and the response type code')
      : fail(`response_types_supported is ${quoteAll(types) || 'not an array of strings, or empty'}`, hint)
  }),
  'issuer.pkce': ofEach(({ issuer, document }) => {
    const hint =
      'enable PKCE with S256 and list it in code_challenge_methods_supported: MCP clients must stop without it'
    if (document.code_challenge_methods_supported === undefined)
      return fail(`${quote(issuer)} has no code_challenge_methods_supported`, hint)
    const methods = textsOf(document, 'code_challenge_methods_supported') ?? []
    return methods.includes('S256')
      ? ok(quoteAll(methods))
      : fail(`code_challenge_methods_supported is ${quoteAll(methods) || 'empty or not an array'}`, hint)
  }),
  'issuer.registration': ofEach(({ document }) => {
    const ways = [
      acceptsMetadataDocuments(document) && 'client ID metadata documents',
      typeof document.registration_endpoint === 'string' && 'dynamic registration (RFC 7591)',
    ].filter(Boolean)
    if (ways.length > 0) return ok(ways.join(' and '))
    return warn(
      'neither client ID metadata documents nor dynamic registration',
      'enable one of them, preferably client ID metadata documents; otherwise register every client manually and configure its client_id',
    )
  }),
  'issuer.path-forms': ofEach(async ({ issuer }, examination) => {
    if (new URL(issuer).pathname === '/') return ok('the issuer has no path')
    const found: URL[] = []
    for (const url of discoveryUrls(issuer))
      if ((await fetchDocument(examination, url)).document !== undefined) found.push(url)
    const seen = found.map(({ pathname }) => quote(pathname)).join(', ')
    const inserted = formUrl(issuer, 'oauth-inserted').href
    if (found.some(({ href }) => href === inserted || href === formUrl(issuer, 'openid-inserted').href))
      return ok(seen)
    const hint = `also serve the metadata at ${quote(inserted)} (RFC 8414 §3.1)`
    return clientProblem(examination, 'issuer-path', `only ${seen}`, hint)
  }),
  'issuer.cimd': ofEach(({ issuer, document }, examination) => {
    if (!acceptsMetadataDocuments(document)) return ok('not supported: clients register otherwise')
    if (acceptsPublicClients(document))
      return ok('client_id_metadata_document_supported, and the method none')
    const methods = textsOf(document, 'token_endpoint_auth_methods_supported')
    const listed = methods === undefined ? 'missing' : quoteAll(methods) || 'empty'
    const seen = `${quote(issuer)} supports them, but token_endpoint_auth_methods_supported is ${listed}`
    const hint =
      'add none to token_endpoint_auth_methods_supported: clients with a metadata document have no secret'
    return clientProblem(examination, 'cimd-needs-none', seen, hint)
  }),
  'issuer.scopes': ofEach(async ({ document }, examination) => {
    const wanted = await scopesOfResource(examination)
    const listed = textsOf(document, 'scopes_supported') ?? []
    if (listed.length === 0) return ok('the authorization server lists no scopes')
    const known = new Set(listed)
    const missing = wanted.filter((scope) => !known.has(scope))
    if (missing.length > 0)
      return clientProblem(
        examination,
        'issuer-scopes',
        `scopes_supported of the authorization server does not contain ${quoteAll(missing)}`,
        'add them: clients that request only the scopes of this list get a token without them',
      )
    const ours = new Set([...wanted, ...COMMON_SCOPES])
    const unrelated = [...known].filter((scope) => !ours.has(scope))
    if (unrelated.length === 0 || wanted.length === 0) return ok(`${listed.length} scopes`)
    return warn(
      `scopes_supported of the authorization server contains ${unrelated.length} other scopes: ${quoteAll(unrelated)}`,
      'shorten the list, or configure the scopes in Gemini CLI and in older versions of Codex: they request all of them (https://github.com/openai/codex/issues/15643)',
    )
  }),
  'issuer.register': ofEach(async (server, examination) => {
    onlyIf(examination.options.register === true, ONLY_WITH_REGISTER)
    const unknown = await checkUnknownClient(examination, server)
    const endpoint = examination.safeUrl(server.document.registration_endpoint)
    if (endpoint === undefined)
      return unknown ?? ok(`${quote(server.issuer)} does not support dynamic registration`)
    const registered = await findingsOfEach(ATTEMPTS, (one) => tryRegistration(examination, endpoint, one))
    return [...registered, unknown]
  }),
}

async function tryRegistration(
  examination: Examination,
  endpoint: URL,
  { name, redirectUris, hasScope, quirk }: (typeof ATTEMPTS)[number],
): Promise<Finding> {
  const scopes = hasScope === true ? (await scopesOfResource(examination)).slice(0, MAX_SCOPES) : []
  const { response, client } = await registerClient(examination, endpoint, {
    redirect_uris: redirectUris,
    ...(hasScope === true && { scope: [...scopes, 'offline_access'].join(' ') }),
  })
  const registration = `registration with ${name}`
  if (response.status !== 201 && response.status !== 200)
    return clientProblem(examination, quirk, `${registration}: ${response.summary}`)
  if (typeof client.client_id !== 'string' || client.client_id === '')
    return fail(
      `${registration}: ${response.summary} without a client_id`,
      'respond with a JSON object that contains client_id (RFC 7591 §3.2.1)',
    )
  // The official SDK validates these members.
  const empty = Object.keys(client).filter((member) => client[member] === null)
  const blank = URL_MEMBERS.filter((member) => client[member] === '')
  const problems = [
    empty.length > 0 && `null in ${quoteAll(empty)}`,
    blank.length > 0 && `an empty string in ${quoteAll(blank)}`,
  ].filter(Boolean)
  if (problems.length === 0) return ok('loopback, cursor://, no scope, and offline_access')
  const seen = `the response to the ${registration} contains ${problems.join(' and ')}`
  return clientProblem(examination, 'registration-null-members', seen, 'leave out members without a value')
}

/** The metadata of a public client that runs on this machine. */
export const PUBLIC_CLIENT = {
  client_name: 'mcp-gatekit doctor',
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  application_type: 'native',
}

/** Registers a public client, and deletes it after the last check if the authorization server supports that (RFC 7592 §2.3). */
export async function registerClient(
  examination: Examination,
  endpoint: URL,
  metadata: JsonObject,
): Promise<{ readonly response: HttpExchange; readonly client: JsonObject }> {
  const grants = ['authorization_code', 'refresh_token']
  const response = await examination.fetch('POST', endpoint, {
    headers: { accept: 'application/json', 'content-type': 'application/json' },
    body: JSON.stringify({ ...PUBLIC_CLIENT, grant_types: grants, ...metadata }),
  })
  const client = response.object ?? {}
  const { client_secret: secret, registration_access_token: token } = client
  for (const text of [secret, token]) if (typeof text === 'string') examination.secrets.add(text)
  const url = examination.safeUrl(client.registration_client_uri)
  if (response.succeeded && url?.origin === endpoint.origin && typeof token === 'string') {
    const headers = { authorization: `Bearer ${token}` }
    examination.closing.push(() => examination.fetch('DELETE', url, { headers }))
  }
  return { response, client }
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
