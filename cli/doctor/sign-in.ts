import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as oauth from 'oauth4webapi'
import { boundedFetch } from '../../src/oauth/verifiers/bounded-fetch.ts'
import { authorizationServers } from './authorization-servers.ts'
import type { Examination, LoginOptions } from './examination.ts'
import { type Finding, fail, InconclusiveError, ok } from './finding.ts'
import { textsOf } from './metadata-documents.ts'
import { bearerChallenge } from './protection.ts'
import { quote } from './quote.ts'
import { isResourceOf, resourceMetadata } from './resource-metadata.ts'

/** The maximum length of the address that is printed. Browsers and servers do not take longer ones. */
const MAX_ADDRESS = 16_384

/** A person has so long to sign in. */
const PATIENCE_MS = 5 * 60_000

/** The redirect of this sign-in did not come, or says that it failed. */
class SignInError extends Error {
  override readonly name = 'SignInError'
  readonly hint: string

  constructor(message: string, hint: string) {
    super(message)
    this.hint = hint
  }
}

/**
 * Gets a token as a client would: authorization code with PKCE (RFC 7636) and the resource indicator (RFC 8707),
 * redirected to this machine (RFC 8252 §7.3). From then on the examination has it.
 */
export async function signIn(examination: Examination, login: LoginOptions): Promise<Finding> {
  const { server, redirectUri } = await listenForRedirect(login.redirectPort)
  try {
    return await authorize(examination, login, server, redirectUri)
  } catch (error) {
    if (error instanceof InconclusiveError) throw error
    const hint = 'look at what the authorization server wrote into its log'
    if (error instanceof SignInError) return fail(error.message, error.hint)
    // What an authorization server says may quote a code; its error code is one of a fixed set, mostly.
    if (error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError)
      return fail(`the authorization server answered ${quote(error.error)}`, hint)
    return fail(`it failed: ${quote((error as { code?: string }).code ?? (error as Error).name)}`, hint)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

async function authorize(
  examination: Examination,
  login: LoginOptions,
  server: Server,
  redirectUri: string,
): Promise<Finding> {
  const as = await serverToAsk(examination, login)
  const { document } = await resourceMetadata(examination)
  const resource = typeof document.resource === 'string' ? document.resource : examination.url.href
  // The token is sent to the examined server, which must not get one that opens another server.
  if (!isResourceOf(resource, examination.url))
    throw new SignInError(
      'the metadata names a resource elsewhere, and a token for it is not sent here',
      'see metadata.resource',
    )
  const { timeoutMs } = examination.options
  const request = {
    [oauth.allowInsecureRequests]: as.token_endpoint?.startsWith('http:') === true,
    [oauth.customFetch]: boundedFetch,
    signal: () => AbortSignal.timeout(timeoutMs),
  }
  const { client, authentication } = await clientOf(examination, as, login, redirectUri, request)
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  examination.secrets.add(verifier)

  const url = new URL(as.authorization_endpoint as string)
  const scope = await scopeToAskFor(examination, document)
  const parameters = {
    response_type: 'code',
    client_id: client.client_id,
    redirect_uri: redirectUri,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    state,
    resource,
    ...(scope !== '' && { scope }),
  }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value)
  if (url.href.length > MAX_ADDRESS)
    throw new SignInError(
      `the address to sign in at has ${url.href.length} characters`,
      'shorten authorization_endpoint, or name fewer scopes in the challenge or in scopes_supported',
    )
  const redirected = nextRedirect(server, redirectUri, state)
  examination.options.print(`Open this address and sign in:\n\n${url.href}\n`)

  const answer = oauth.validateAuthResponse(as, client, await redirected, state)
  examination.secrets.add(answer.get('code') ?? undefined)
  const response = await oauth.authorizationCodeGrantRequest(
    as,
    client,
    authentication,
    answer,
    redirectUri,
    verifier,
    { ...request, additionalParameters: { resource } },
  )
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, response)
  for (const secret of [tokens.refresh_token, tokens.id_token]) examination.secrets.add(secret)
  examination.token = tokens.access_token
  if (tokens.token_type !== 'bearer')
    return fail(
      `a token of the type ${quote(tokens.token_type)}`,
      'issue Bearer tokens to clients that offer no proof of a key',
    )
  return ok(`a token for the scopes ${quote(tokens.scope ?? scope) || 'that are granted to all'}`)
}

/**
 * Returns the first authorization server that the flow is possible with, or the one that the user has named. The examined
 * server must not choose who gets the user's client secret.
 */
async function serverToAsk(
  examination: Examination,
  { issuer: wanted, clientSecret }: LoginOptions,
): Promise<oauth.AuthorizationServer> {
  if (clientSecret !== undefined && wanted === undefined)
    throw new SignInError(
      'a client secret is not sent to whom the server names',
      'give --issuer with the authorization server that may get it',
    )
  const servers = await authorizationServers(examination)
  const allowed = servers.filter(({ issuer }) => wanted === undefined || isSameIssuer(issuer, wanted))
  if (allowed.length === 0)
    throw new SignInError(
      'the server does not name the authorization server of --issuer, so nothing is sent',
      'name it in authorization_servers, or give the issuer that is named there if you trust it',
    )
  for (const { issuer, found } of allowed) {
    const as = found?.document as oauth.AuthorizationServer | undefined
    const endpoints = [as?.authorization_endpoint, as?.token_endpoint]
    const usable = endpoints.every(
      (endpoint) =>
        typeof endpoint === 'string' && URL.canParse(endpoint) && examination.mayFetch(new URL(endpoint)),
    )
    const identified =
      typeof as?.issuer === 'string' && (wanted === undefined || isSameIssuer(as.issuer, issuer))
    if (as !== undefined && identified && usable) return as
  }
  throw new InconclusiveError(
    'there is no authorization server to sign in at: see issuer.metadata and issuer.endpoints',
  )
}

/** Compares character by character, but for a slash at the end. */
function isSameIssuer(one: string, other: string): boolean {
  return withoutSlash(one) === withoutSlash(other)
}

function withoutSlash(issuer: string): string {
  return issuer.endsWith('/') ? issuer.slice(0, -1) : issuer
}

interface RegisteredClient {
  readonly client: oauth.Client
  readonly authentication: oauth.ClientAuth
}

async function clientOf(
  examination: Examination,
  as: oauth.AuthorizationServer,
  { clientId, clientSecret }: LoginOptions,
  redirectUri: string,
  request: oauth.DynamicClientRegistrationRequestOptions,
): Promise<RegisteredClient> {
  if (clientId !== undefined) return withAuthentication({ client_id: clientId }, clientSecret)
  if (as.registration_endpoint === undefined) {
    throw new SignInError(
      'the authorization server registers no clients by itself',
      'give --client-id with a client that is registered there, whose redirect URI is on 127.0.0.1 (with --redirect-port, if the port matters)',
    )
  }
  if (!examination.mayFetch(new URL(as.registration_endpoint)))
    throw new SignInError('registration_endpoint is not https', 'serve it over https')
  const metadata = {
    client_name: 'mcp-gatekit doctor',
    redirect_uris: [redirectUri],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    application_type: 'native',
  }
  const registered = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(as, metadata, request),
  )
  const secret = registered.token_endpoint_auth_method === 'none' ? undefined : registered.client_secret
  examination.secrets.add(typeof registered.client_secret === 'string' ? registered.client_secret : undefined)
  return withAuthentication(registered, typeof secret === 'string' ? secret : undefined)
}

function withAuthentication(client: oauth.Client, secret: string | undefined): RegisteredClient {
  if (secret === undefined) return { client, authentication: oauth.None() }
  const post = client.token_endpoint_auth_method === 'client_secret_post'
  return { client, authentication: post ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret) }
}

/** What the challenge names, or else everything that is supported. */
async function scopeToAskFor(
  examination: Examination,
  document: Readonly<Record<string, unknown>>,
): Promise<string> {
  const challenged = await bearerChallenge(examination).catch(() => undefined)
  const scope = challenged?.parameters.get('scope')
  if (scope !== undefined) return scope
  return (textsOf(document, 'scopes_supported') ?? []).join(' ')
}

async function listenForRedirect(
  port: number,
): Promise<{ readonly server: Server; readonly redirectUri: string }> {
  const server = createServer()
  server.listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch {
    throw new InconclusiveError(`port ${port} on 127.0.0.1 is not available. Use another --redirect-port`)
  }
  return { server, redirectUri: `http://127.0.0.1:${(server.address() as AddressInfo).port}/callback` }
}

/** The redirect that carries our state. Others are turned away, and change nothing. */
function nextRedirect(server: Server, redirectUri: string, state: string): Promise<URL> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new SignInError('nobody signed in within five minutes', 'run the doctor again')),
      PATIENCE_MS,
    )
    server.on('request', (req, res) => {
      const url = URL.canParse(req.url ?? '', redirectUri) ? new URL(req.url ?? '', redirectUri) : undefined
      const ours = url?.pathname === '/callback' && url.searchParams.get('state') === state
      res.writeHead(ours ? 200 : 404, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' })
      if (!ours || url === undefined) {
        res.end('Nothing is waited for here.\n')
        return
      }
      // The connection is closed with the server: only when the page is there.
      res.end('Signed in. Go back to the terminal.\n', () => {
        clearTimeout(timer)
        resolve(url)
      })
    })
  })
}
