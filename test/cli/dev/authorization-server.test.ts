import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import * as oauth from 'oauth4webapi'
import {
  type DevAuthorizationServer,
  startDevAuthorizationServer,
} from '../../../cli/dev/authorization-server.ts'
import { fromProject } from '../../../cli/dev/server-process.ts'

const RESOURCE = 'http://127.0.0.1:3000/mcp'
const REDIRECT_URI = 'http://127.0.0.1:33418/callback'
const INSECURE = { [oauth.allowInsecureRequests]: true }
const FOR_RESOURCE = { ...INSECURE, additionalParameters: { resource: RESOURCE } }

interface Seen {
  readonly name: string
  readonly attributes: Record<string, unknown>
}

describe('the authorization server of the dev command', () => {
  let server: DevAuthorizationServer
  let as: oauth.AuthorizationServer
  let client: oauth.Client
  const events: Seen[] = []
  const outline = () => events.map(({ name }) => name.replace('kit.authorization.', ''))

  before(async () => {
    server = await startDevAuthorizationServer({
      oidcProvider: fromProject('oidc-provider', fileURLToPath(import.meta.url)) as string,
      port: { number: 0, orAnother: false },
      tokenSeconds: 90,
      events: {
        emit: (event) => void events.push(event as unknown as Seen),
        fingerprint: (token) => `fp-${token.length}`,
      },
    })
    const issuer = new URL(server.issuer)
    const discovery = { ...INSECURE, algorithm: 'oauth2' } as const
    as = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, discovery))
    client = await register({ scope: 'mcp:read' })
  })
  after(() => server.close())

  async function register(metadata: object): Promise<oauth.Client> {
    const asked = {
      client_name: 'The <b>Client</b>',
      application_type: 'native',
      redirect_uris: [REDIRECT_URI],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      ...metadata,
    }
    const response = await oauth.dynamicClientRegistrationRequest(as, asked, INSECURE)
    return (await oauth.processDynamicClientRegistrationResponse(response)) as oauth.Client
  }

  const verifier = oauth.generateRandomCodeVerifier()

  async function authorizationUrl(parameters: Readonly<Record<string, string>> = {}): Promise<URL> {
    const url = new URL(as.authorization_endpoint as string)
    url.search = new URLSearchParams({
      response_type: 'code',
      client_id: client.client_id,
      redirect_uri: REDIRECT_URI,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state: 'a-state',
      scope: 'mcp:read mcp:write',
      resource: RESOURCE,
      ...parameters,
    }).toString()
    return url
  }

  /** Simulates a browser with cookies, which stops at the consent page and at the redirect to the client. */
  function browser() {
    const cookies = new Map<string, { value: string; path: string }>()
    type Page = { url: URL; html: string; headers: Headers }
    return async function visit(url: URL, form?: URLSearchParams): Promise<Page> {
      const cookie = [...cookies].filter(([, { path }]) => url.pathname.startsWith(path))
      const response = await fetch(url, {
        redirect: 'manual',
        headers: { cookie: cookie.map(([name, { value }]) => `${name}=${value}`).join('; ') },
        ...(form !== undefined && { method: 'POST', body: form }),
      })
      for (const set of response.headers.getSetCookie()) {
        const [, name, value, path] = /^([^=]+)=([^;]*).*?path=([^;]+)/.exec(set) ?? []
        cookies.set(name as string, { value: value as string, path: path as string })
      }
      const location = response.headers.get('location')
      if (location === null) return { url, html: await response.text(), headers: response.headers }
      const next = new URL(location, url)
      return next.href.startsWith(REDIRECT_URI)
        ? { url: next, html: '', headers: response.headers }
        : await visit(next)
    }
  }

  type Visit = ReturnType<typeof browser>

  /** Submits the consent page. Resolves with the redirect to the client. */
  async function answer(visit: Visit, page: { url: URL }, fields: Readonly<Record<string, string>>) {
    return (await visit(page.url, new URLSearchParams(fields))).url
  }

  async function tokenFor(redirected: URL) {
    const callback = oauth.validateAuthResponse(as, client, redirected, 'a-state')
    const given = [callback, REDIRECT_URI, verifier, FOR_RESOURCE] as const
    const response = await oauth.authorizationCodeGrantRequest(as, client, oauth.None(), ...given)
    return await oauth.processAuthorizationCodeResponse(as, client, response)
  }

  async function claimsOf(token: string) {
    const expected = { issuer: server.issuer, audience: RESOURCE, typ: 'at+jwt' }
    const jwks = createRemoteJWKSet(new URL(as.jwks_uri as string))
    return (await jwtVerify(token, jwks, expected)).payload
  }

  it('publishes the metadata that MCP clients need', () => {
    expect(as.code_challenge_methods_supported).to.include('S256')
    expect(as).to.include.keys('registration_endpoint', 'token_endpoint', 'revocation_endpoint')
  })

  it('issues a token for one resource with the selected scopes and the entered user name', async () => {
    const visit = browser()
    const page = await visit(await authorizationUrl())
    expect(page.html).to.contain('The &lt;b&gt;Client&lt;/b&gt;').and.not.to.contain('<b>')
    for (const text of [RESOURCE, REDIRECT_URI, 'mcp:read', 'mcp:write']) expect(page.html).to.contain(text)
    const redirected = await answer(visit, page, { user: 'ada', scope: 'mcp:read', answer: 'allow' })
    const token = await tokenFor(redirected)
    expect(token).to.include({ scope: 'mcp:read', expires_in: 90 })
    const claims = await claimsOf(token.access_token)
    expect(claims).to.include({ sub: 'ada', aud: RESOURCE, scope: 'mcp:read', client_id: client.client_id })
    expect((claims.exp as number) - (claims.iat as number)).to.equal(90)

    const refresh = [token.refresh_token as string, FOR_RESOURCE] as const
    const again = await oauth.refreshTokenGrantRequest(as, client, oauth.None(), ...refresh)
    const refreshed = await oauth.processRefreshTokenResponse(as, client, again)
    expect(await claimsOf(refreshed.access_token)).to.include({ sub: 'ada', scope: 'mcp:read' })
  })

  it('shows the consent page every time, with the latest user name', async () => {
    const visit = browser()
    for (const user of ['grace', 'linus']) {
      const page = await visit(await authorizationUrl())
      const redirected = await answer(visit, page, { user, scope: 'mcp:write', answer: 'allow' })
      const claims = await claimsOf((await tokenFor(redirected)).access_token)
      expect(claims).to.include({ sub: user, scope: 'mcp:write' })
    }
    expect((await visit(await authorizationUrl())).html).to.contain('value="linus"')
    expect((await visit(await authorizationUrl({ login_hint: 'ada' }))).html).to.contain('value="ada"')
  })

  it('issues a token without scopes if none is selected or requested', async () => {
    for (const parameters of [{}, { scope: '' }]) {
      const visit = browser()
      const page = await visit(await authorizationUrl(parameters))
      const redirected = await answer(visit, page, { user: 'ada', answer: 'allow' })
      const claims = await claimsOf((await tokenFor(redirected)).access_token)
      expect(claims.scope ?? '').to.equal('')
    }
  })

  for (const [what, fields] of [
    ['the user denies access', { user: 'ada', answer: 'refuse' }],
    ['the user name is empty', { user: ' ', answer: 'allow' }],
    ['the form is too long', { user: 'a'.repeat(70_000), answer: 'allow' }],
  ] as const) {
    it(`issues no token if ${what}`, async () => {
      const visit = browser()
      const redirected = await answer(visit, await visit(await authorizationUrl()), fields)
      expect(redirected.searchParams.get('error')).to.equal('access_denied')
    })
  }

  for (const [what, parameters, error] of [
    ['a request without PKCE', { code_challenge: '', code_challenge_method: '' }, 'invalid_request'],
    ['a resource that is not an http URL', { resource: 'urn:a:b' }, 'invalid_target'],
  ] as const) {
    it(`rejects ${what}`, async () => {
      const { url } = await browser()(await authorizationUrl(parameters))
      expect(url.searchParams.get('error')).to.equal(error)
    })
  }

  it('reports errors that must not redirect as plain text', async () => {
    const response = await fetch(await authorizationUrl({ client_id: '<b>unknown</b>' }))
    expect(response.status).to.equal(400)
    expect(response.headers.get('content-type')).to.match(/^text\/plain/)
    expect(await response.text()).to.contain('invalid_client')
  })

  it('prevents other pages from framing or styling the consent page', async () => {
    const visit = browser()
    const { url, headers } = await visit(await authorizationUrl())
    for (const method of ['GET', 'POST'])
      expect((await fetch(url, { method })).status, 'without the cookie').to.equal(400)
    const policy = headers.get('content-security-policy')
    expect(policy).to.contain("frame-ancestors 'none'").and.to.contain("default-src 'none'")
    const style = await fetch(`${server.issuer}/consent.css`)
    expect(style.headers.get('content-type')).to.match(/^text\/css/)
  })

  it('emits what a client and its user do, without tokens and codes', async () => {
    events.length = 0
    await register({ client_name: 'x'.repeat(999) })
    const visit = browser()
    const page = await visit(await authorizationUrl())
    const redirected = await answer(visit, page, { user: 'ada', scope: 'mcp:read', answer: 'allow' })
    const { access_token: token, refresh_token: refresh } = await tokenFor(redirected)
    await tokenFor(redirected).catch(() => undefined)
    expect(outline().join()).to.equal(
      'client.registered,consent.shown,consent.given,token.issued,token.refused',
    )
    const [registered, , given, issued, refused] = events.map(({ attributes }) => attributes)
    expect(registered).to.include({ client_name: 'x'.repeat(256), 'client.address': '127.0.0.1' })
    const { client_id } = client
    expect(given).to.include({
      subject: 'ada',
      scopes: 'openid mcp:read',
      resource: RESOURCE,
      client: client_id,
    })
    expect(issued).to.include({ token: `fp-${token.length}`, scopes: 'mcp:read', client: client_id })
    expect(refused).to.include({ reason: 'invalid_grant', client: client_id })
    const text = JSON.stringify(events)
    for (const secret of [token, refresh, redirected.searchParams.get('code'), verifier])
      expect(text).not.to.contain(secret)
  })

  it('emits what it refuses, and a denial once', async () => {
    events.length = 0
    await fetch(as.registration_endpoint as string, { method: 'POST', body: '{}' })
    await browser()(await authorizationUrl({ resource: 'urn:a:b' }))
    const visit = browser()
    await answer(visit, await visit(await authorizationUrl()), { answer: 'refuse' })
    expect(outline()).to.deep.equal(['client.refused', 'request.refused', 'consent.shown', 'consent.denied'])
    expect(events[1]?.attributes).to.include({ reason: 'invalid_target', client: client.client_id })
  })

  const ORIGIN = 'http://localhost:5173'
  for (const path of ['/reg', '/token', '/jwks', '/.well-known/oauth-authorization-server']) {
    it(`lets pages of other origins request ${path}`, async () => {
      const headers = { origin: ORIGIN, 'access-control-request-method': 'POST' }
      const preflight = await fetch(server.issuer + path, { method: 'OPTIONS', headers })
      expect(preflight.status).to.equal(204)
      expect(preflight.headers.get('access-control-allow-headers')).to.contain('Content-Type')
      const method = path === '/reg' || path === '/token' ? 'POST' : 'GET'
      const response = await fetch(server.issuer + path, { method, headers: { origin: ORIGIN } })
      for (const one of [preflight, response]) {
        expect(one.headers.get('access-control-allow-origin')).to.equal('*')
        expect(one.headers.get('access-control-allow-credentials')).to.equal(null)
      }
    })
  }

  it('does not let pages of other origins read the sign-in page', async () => {
    const { url } = await browser()(await authorizationUrl())
    for (const one of [url, await authorizationUrl()]) {
      const response = await fetch(one, { headers: { origin: ORIGIN }, redirect: 'manual' })
      expect(response.headers.get('access-control-allow-origin')).to.equal(null)
    }
  })

  it('rejects requests with another Host', async () => {
    const req = request(`${server.issuer}/jwks`, { headers: { host: 'evil.example' } }).end()
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    expect(res.statusCode).to.equal(403)
    res.resume()
  })
})
