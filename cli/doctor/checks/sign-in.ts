import { createServer, type Server } from 'node:http'
import * as oauth from 'oauth4webapi'
import { boundedFetch } from '../../../src/base/http/bounded-fetch.ts'
import { grantedScopes } from '../../../src/oauth/scope.ts'
import { stopServer } from '../../loopback.ts'
import { decodeToken } from '../decoded-token.ts'
import type { Examination, LoginOptions } from '../examination.ts'
import { type Finding, fail, InconclusiveError, ok, Stop } from '../finding.ts'
import { quote } from '../quote.ts'
import { textsOf, urlOf } from '../values.ts'
import { authorizationServers, isSameIssuer, PUBLIC_CLIENT } from './issuers.ts'
import { isResourceOf, resourceMetadata } from './metadata.ts'
import { challengedScope } from './protection.ts'
import { listen } from './webhook-receiver.ts'

/** The maximum length of the sign-in URL. Browsers and servers do not accept longer ones. */
const MAX_ADDRESS = 16_384

/** The maximum time until the user has signed in. */
const SIGN_IN_TIMEOUT_MS = 5 * 60_000

/**
 * Gets a token as a client would: authorization code with PKCE (RFC 7636), a resource indicator (RFC 8707), and a redirect
 * to this machine (RFC 8252 §7.3). Stores the token in the examination.
 */
export async function signIn(examination: Examination, login: LoginOptions): Promise<Finding> {
  const server = createServer()
  const redirectUri = `http://127.0.0.1:${await listen(server, login.redirectPort, '--redirect-port')}/callback`
  try {
    return await authorize(examination, login, server, redirectUri)
  } catch (error) {
    if (error instanceof InconclusiveError) throw error
    if (error instanceof Stop) return fail(error.message, error.hint)
    // A description can contain the authorization code, which is erased.
    const isNamed =
      error instanceof oauth.ResponseBodyError || error instanceof oauth.AuthorizationResponseError
    const seen = isNamed
      ? `the authorization server returned the error ${[error.error, error.error_description ?? []].flat().map(quote).join(': ')}`
      : `the sign-in failed: ${quote((error as { code?: string }).code ?? (error as Error).name)}`
    return fail(seen, 'check the log of the authorization server')
  } finally {
    await stopServer(server)
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
  // The examined server receives the token, so it must not get a token for another server.
  if (!isResourceOf(resource, examination.url))
    throw new Stop(
      'the metadata names a resource on another server, so doctor requests no token for it',
      'see metadata.resource',
    )
  const request = {
    [oauth.allowInsecureRequests]: as.token_endpoint?.startsWith('http:') === true,
    [oauth.customFetch]: boundedFetch,
    signal: () => AbortSignal.timeout(examination.options.timeoutMs),
  }
  const client = await clientOf(examination, as, login, redirectUri, request)
  const verifier = oauth.generateRandomCodeVerifier()
  const state = oauth.generateRandomState()
  examination.secrets.add(verifier)

  const url = new URL(as.authorization_endpoint as string)
  // The scopes of the challenge, or else all supported scopes.
  const supported = textsOf(document, 'scopes_supported') ?? []
  const scope = (await challengedScope(examination)) ?? supported.join(' ')
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
    throw new Stop(
      `the sign-in URL has ${url.href.length} characters`,
      'shorten authorization_endpoint, or list fewer scopes in the challenge or in scopes_supported',
    )
  const redirected = nextRedirect(server, redirectUri, state)
  // All scopes are named, because the examined server may have chosen them.
  const scopes = grantedScopes(scope).map(quote).join(', ')
  const requested = scopes === '' ? 'the default scopes' : `the scopes ${scopes}`
  examination.options.print(`The sign-in requests ${requested}. Open this URL and sign in:\n\n${url.href}\n`)

  const callback = oauth.validateAuthResponse(as, client, await redirected, state)
  examination.secrets.add(callback.get('code') ?? undefined)
  const options = { ...request, additionalParameters: { resource } }
  const auth = authenticationOf(client)
  const exchangeCode = (): Promise<Response> =>
    oauth.authorizationCodeGrantRequest(as, client, auth, callback, redirectUri, verifier, options)
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, await exchangeCode())
  examination.replayCode = exchangeCode
  const { access_token: token, token_type: type, scope: granted = scope } = tokens
  for (const secret of [token, tokens.refresh_token, tokens.id_token]) examination.secrets.add(secret)
  const audiences = foreignAudiences(token, examination.url, as.issuer)
  if (audiences === undefined) examination.token = token
  else examination.withheld = { audiences, resource }
  const hint = 'issue Bearer tokens to clients that do not send a DPoP proof'
  if (type !== 'bearer') return fail(`the token has the type ${quote(type)}`, hint)
  const seen = `a token with the ${granted === '' ? 'default scopes' : `scopes ${quote(granted)}`}`
  return ok(audiences === undefined ? seen : `${seen}, which doctor does not send: see token.claims`)
}

/**
 * Returns the audiences of a JWT if one of them is an http(s) resource other than the examined server, which could use the
 * token there. The user information of the issuer is not another resource if the token is for the server as well.
 */
function foreignAudiences(token: string, url: URL, issuer: string): readonly string[] | undefined {
  const decoded = decodeToken(token)
  if (decoded.kind !== 'jwt') return undefined
  const audiences = [decoded.claims.aud].flat().filter((one) => typeof one === 'string')
  const isForServer = audiences.some((one) => isResourceOf(one, url))
  const isForeign = (audience: string): boolean =>
    /^https?:/i.test(audience) &&
    !isResourceOf(audience, url) &&
    !(isForServer && URL.canParse(audience) && new URL(audience).origin === urlOf(issuer)?.origin)
  return audiences.some(isForeign) ? audiences : undefined
}

/**
 * Returns the authorization server of `--issuer`, or else the first one that supports the flow. The examined server must not
 * choose who receives the client secret of the user.
 */
async function serverToAsk(
  examination: Examination,
  { issuer: wanted, clientSecret }: LoginOptions,
): Promise<oauth.AuthorizationServer> {
  if (clientSecret !== undefined && wanted === undefined)
    throw new Stop(
      'doctor sends no client secret to an authorization server that only the examined server names',
      'use --issuer to name the authorization server that may receive it',
    )
  const servers = await authorizationServers(examination)
  const allowed = servers.filter(({ issuer }) => wanted === undefined || isSameIssuer(issuer, wanted))
  if (allowed.length === 0)
    throw new Stop(
      'the metadata does not contain the authorization server of --issuer, so doctor sends nothing',
      'add it to authorization_servers, or pass an issuer from that list if you trust it',
    )
  for (const { issuer, document } of allowed) {
    const as = document as oauth.AuthorizationServer | undefined
    const endpoints = [as?.authorization_endpoint, as?.token_endpoint]
    const usable = endpoints.every((endpoint) => examination.safeUrl(endpoint) !== undefined)
    const identified =
      typeof as?.issuer === 'string' && (wanted === undefined || isSameIssuer(as.issuer, issuer))
    if (as !== undefined && identified && usable) return as
  }
  throw new InconclusiveError('no authorization server is usable: see issuer.metadata and issuer.endpoints')
}

async function clientOf(
  examination: Examination,
  as: oauth.AuthorizationServer,
  { clientId, clientSecret }: LoginOptions,
  redirectUri: string,
  request: oauth.DynamicClientRegistrationRequestOptions,
): Promise<oauth.Client> {
  if (clientId !== undefined)
    return { client_id: clientId, ...(clientSecret !== undefined && { client_secret: clientSecret }) }
  if (as.registration_endpoint === undefined)
    throw new Stop(
      'the authorization server does not support dynamic client registration',
      'use --client-id with a registered client whose redirect URI is on 127.0.0.1 (with --redirect-port if the port must match)',
    )
  if (!examination.mayFetch(new URL(as.registration_endpoint)))
    throw new Stop('registration_endpoint is not https', 'serve it over https')
  const metadata = { ...PUBLIC_CLIENT, redirect_uris: [redirectUri], grant_types: ['authorization_code'] }
  const registered = await oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(as, metadata, request),
  )
  if (typeof registered.client_secret === 'string') examination.secrets.add(registered.client_secret)
  return registered
}

function authenticationOf(client: oauth.Client): oauth.ClientAuth {
  const { client_secret: secret, token_endpoint_auth_method: method } = client
  if (typeof secret !== 'string' || method === 'none') return oauth.None()
  return method === 'client_secret_post' ? oauth.ClientSecretPost(secret) : oauth.ClientSecretBasic(secret)
}

/** Resolves with the redirect that has the right `state`. Other requests get a 404. */
function nextRedirect(server: Server, redirectUri: string, state: string): Promise<URL> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Stop('no sign-in within five minutes', 'run doctor again')),
      SIGN_IN_TIMEOUT_MS,
    )
    server.on('request', (req, res) => {
      const path = req.url ?? ''
      const url = URL.canParse(path, redirectUri) ? new URL(path, redirectUri) : undefined
      const ours = url?.pathname === '/callback' && url.searchParams.get('state') === state
      res.writeHead(ours ? 200 : 404, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' })
      if (!ours) return void res.end('This URL is not part of the sign-in.\n')
      // The server is closed after this response has been sent.
      res.end('Sign-in complete. Return to the terminal.\n', () => {
        clearTimeout(timer)
        resolve(url)
      })
    })
  })
}
