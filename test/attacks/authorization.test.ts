import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { expect } from 'chai'
import { calculateJwkThumbprint, decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { createSafeFetch, isPublicAddress } from '../../src/base/http/safe-fetch.ts'
import { Browser, type Page } from '../support/authorization/browser.ts'
import {
  CALLBACK,
  CHALLENGE,
  codeGrant,
  type RegisteredClient,
  refreshGrant,
  startFacade,
  type TestFacade,
  toClient,
} from '../support/authorization/facade.ts'
import { selfSigned } from '../support/certificates.ts'
import { rawRequest } from '../support/raw-http.ts'

const HTTPS_CALLBACK = 'https://app.example.com/callback'
const STATIC = { clientId: 'desk', redirectUris: [HTTPS_CALLBACK], name: 'Desk' }
const LONG_IDS = ['l'.repeat(500), 'l'.repeat(501)]

/** The address of the consent page of a request. */
async function atConsent(facade: TestFacade, url: URL, browser: Browser): Promise<Page> {
  const page = await browser.open(url.href, toClient)
  expect(page.status, page.body).to.equal(200)
  expect(new URL(page.url).pathname).to.match(/\/consent$/)
  expect(page.url.startsWith(facade.issuer)).to.equal(true)
  return page
}

/** Returns the JSON of arrays in arrays. */
function nested(depth: number): string {
  return '['.repeat(depth) + ']'.repeat(depth)
}

function isError(page: Page, status = 400): void {
  expect(page.status, page.body).to.equal(status)
  expect(page.headers.get('content-type')).to.contain('text/html')
  expect(page.headers.get('location')).to.equal(null)
}

describe('attacks on the authorization facade', () => {
  let facade: TestFacade
  let client: RegisteredClient
  let browser: Browser
  let documents: Server
  let documentOrigin: string
  let ca: string
  let served: (path: string) => {
    readonly status?: number
    readonly headers?: object
    readonly body: string
    readonly delayMs?: number
  }
  let fetched: string[]

  before(async () => {
    const { key, cert } = selfSigned()
    ca = cert
    documents = createServer({ key, cert }, async (req, res) => {
      fetched.push(String(req.url))
      const { status = 200, headers = {}, body, delayMs } = served(String(req.url))
      if (delayMs !== undefined) await setTimeout(delayMs)
      res
        .writeHead(status, { 'content-type': 'application/json', ...headers } as Record<string, string>)
        .end(body)
    }).listen(0, '127.0.0.1')
    await once(documents, 'listening')
    documentOrigin = `https://127.0.0.1:${(documents.address() as AddressInfo).port}`
    facade = await startFacade(
      { clients: { static: [STATIC, ...LONG_IDS.map((clientId) => ({ ...STATIC, clientId }))] } },
      { safeFetch: { isAllowed: (address) => address === '127.0.0.1', ca: cert } },
      { keepOpen: true },
    )
  })
  after(async () => {
    documents.close()
    documents.closeAllConnections()
    await facade.end()
  })
  beforeEach(async () => {
    fetched = []
    client = await facade.register()
    browser = new Browser()
  })

  const authorize = (
    changes: Record<string, string | undefined>,
    by: { client_id: string } = client,
  ): Promise<Page> =>
    browser.open(
      facade.authorizeUrl(by, changes).href,
      (url) => !url.startsWith('http://127.0.0.1') || toClient(url),
    )
  const codeOf = async (changes: Record<string, string | undefined> = {}): Promise<string> =>
    String((await facade.signIn(facade.authorizeUrl(client, changes), browser)).get('code'))
  const tokensOf = async (): Promise<Record<string, any>> =>
    (await facade.token(codeGrant(client, await codeOf()))).body
  const refused = async (parameters: Record<string, string>, error: string, status = 400): Promise<void> => {
    const reply = await facade.token(parameters)
    expect([reply.status, reply.body.error]).to.deep.equal([status, error])
  }
  const isCallback = (url: string): boolean => url.includes('/signin/callback')
  const errorOf = (page: Page): string | null => {
    const { searchParams, hash } = new URL(page.url)
    return searchParams.get('error') ?? new URLSearchParams(hash.slice(1)).get('error')
  }
  const documentOf = (path: string, changes: object = {}): string =>
    JSON.stringify({
      client_id: documentOrigin + path,
      client_name: 'Document',
      redirect_uris: [CALLBACK],
      grant_types: ['authorization_code'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      ...changes,
    })

  it('authorization: consent and browsers: a registered client of an attacker sends a signed-in user (GHSA-c2jp-c369-7pvx): the consent page shows the client and its host', async () => {
    await tokensOf()
    const evil = await facade.register({
      client_name: 'Claude',
      redirect_uris: ['https://evil.example.com/cb'],
    })
    const page = await authorize({ redirect_uri: 'https://evil.example.com/cb' }, evil)
    expect(page.status).to.equal(200)
    expect(page.body).to.contain('Claude').and.to.contain('<bdi>evil.example.com</bdi>')
    expect(page.body).to.contain('The application chose its name itself.')
  })

  it('authorization: consent and browsers: a victim follows the provider URL of a sign-in that the attacker started (GHSA-rww4-4w9c-7733): the callback is 400 without a code', async () => {
    const attacker = new Browser()
    const started = await attacker.open(facade.authorizeUrl(client).href, (url) =>
      url.startsWith(String(facade.provider?.issuer)),
    )
    isError(await browser.open(started.url, toClient))
    expect(browser.history.some(toClient)).to.equal(false)
  })

  it('authorization: consent and browsers: a victim opens the callback URL of the attacker, with state and code: 400, and neither of them can use the code of the provider afterwards', async () => {
    const attacker = new Browser()
    const { url } = await attacker.open(facade.authorizeUrl(client).href, isCallback)
    isError(await browser.open(url, toClient))
    isError(await attacker.open(url, toClient))
  })

  it('authorization: consent and browsers: a victim who has a cookie of an own sign-in opens the callback URL of the attacker: 400', async () => {
    await atConsent(facade, facade.authorizeUrl(client), browser)
    const { url } = await new Browser().open(facade.authorizeUrl(client).href, (one) =>
      one.includes('/signin/callback'),
    )
    isError(await browser.open(url, toClient))
  })

  it('authorization: consent and browsers: a client signs in a user who consented to the same client before (GHSA-6x8h-498w-gv8c): the consent page is shown again', async () => {
    await tokensOf()
    await atConsent(facade, facade.authorizeUrl(client), browser)
  })

  it('authorization: consent and browsers: a pre-registered client with a loopback redirect URI whose user consented before: the consent page is shown again', async () => {
    const local = await startFacade({ clients: { static: [{ ...STATIC, redirectUris: [CALLBACK] }] } })
    const url = local.authorizeUrl({ client_id: 'desk' })
    await local.signIn(url, browser)
    await atConsent(local, url, browser)
    await local.close()
  })

  it('authorization: consent and browsers: a pre-registered client uses a remembered consent for another set of scopes: the consent page is shown for the other set, and not for the same set', async () => {
    const ask = (scope: string): Promise<Page> =>
      authorize({ redirect_uri: HTTPS_CALLBACK, scope }, { client_id: 'desk' })
    const isDone = (url: string): boolean => url.startsWith(HTTPS_CALLBACK)
    await browser.submit(await ask('mcp:read'), 'allow', isDone)
    expect((await ask('mcp:read')).url).to.contain(`${HTTPS_CALLBACK}?code=`)
    expect((await ask('mcp:read mcp:write')).status).to.equal(200)
    expect((await ask('mcp:write')).status).to.equal(200)
  })

  it('authorization: consent and browsers: the consent form is sent without its token: 400, and no code', async () => {
    const page = await atConsent(facade, facade.authorizeUrl(client), browser)
    isError(await browser.submit({ ...page, body: '' }, 'allow', toClient))
  })

  it('authorization: consent and browsers: the consent form is sent with the token of another request: 400, and no code', async () => {
    const other = await atConsent(facade, facade.authorizeUrl(client), browser)
    const page = await atConsent(facade, facade.authorizeUrl(client), browser)
    isError(await browser.submit({ ...page, body: other.body }, 'allow', toClient))
  })

  it('authorization: consent and browsers: the consent form is sent by a page of another origin: 400, and no code', async () => {
    const page = await atConsent(facade, facade.authorizeUrl(client), browser)
    isError(await browser.submit(page, 'allow', toClient, { origin: 'https://evil.example.com' }))
    isError(await browser.submit(page, 'allow', toClient, { origin: 'null' }))
    isError(await browser.submit(page, 'allow', toClient, { 'sec-fetch-site': 'cross-site' }))
  })

  it('authorization: consent and browsers: the consent form is sent without cookies: 400, and no code', async () => {
    const page = await atConsent(facade, facade.authorizeUrl(client), browser)
    isError(await new Browser().submit(page, 'allow', toClient))
  })

  it('authorization: consent and browsers: the consent form is sent with the cookies of the request, but not the cookie of the browser: 400, and no code', async () => {
    const page = await atConsent(facade, facade.authorizeUrl(client), browser)
    const other = new Browser()
    other.copyFrom(browser, /^mcp-gatekit-(?:signin|resume)/)
    isError(await other.submit(page, 'allow', toClient))
  })

  it('authorization: consent and browsers: the consent form has a body of 1 MiB: 413 without reading it all, and no code', async () => {
    const page = await atConsent(facade, facade.authorizeUrl(client), browser)
    const body = page.body.replace(/name="csrf" value="/, `$&${'x'.repeat(1_048_576)}`)
    const reply = await browser.submit({ ...page, body }, 'allow', toClient).catch(() => undefined)
    if (reply !== undefined) isError(reply, 413)
  })

  it('authorization: consent and browsers: a page frames the consent page: the policies forbid frames, scripts, and other form targets', async () => {
    const { headers, body } = await atConsent(facade, facade.authorizeUrl(client), browser)
    const policy = String(headers.get('content-security-policy'))
    expect(policy).to.contain("frame-ancestors 'none'").and.to.contain("default-src 'none'")
    expect(policy).to.contain("form-action 'self' http://127.0.0.1:53682").and.not.to.contain('script')
    expect(headers.get('x-frame-options')).to.equal('DENY')
    expect(headers.get('cache-control')).to.equal('no-store')
    expect(body).not.to.contain('<script')
  })

  it('authorization: consent and browsers: a client name with HTML, control characters, and changes of direction: the name is escaped and plain', async () => {
    const name = `<script>alert(1)</script>"'\u202e\u0000\u200b`
    const evil = await facade.register({ client_name: name })
    const { body } = await atConsent(facade, facade.authorizeUrl(evil), browser)
    expect(body).to.contain('&#60;script&#62;')
    for (const text of ['<script', '\u202e', '\u0000', '\u200b']) expect(body.includes(text)).to.equal(false)
  })

  it('authorization: consent and browsers: a client name of 200 characters: the page shows 80', async () => {
    const long = await facade.register({ client_name: 'n'.repeat(200) })
    const { body } = await atConsent(facade, facade.authorizeUrl(long), browser)
    expect(body)
      .to.match(/n{79}…/)
      .and.not.to.match(/n{80}/)
  })

  it('authorization: consent and browsers: the state of the provider is used twice: the second callback is 400', async () => {
    const { url } = await browser.open(facade.authorizeUrl(client).href, isCallback)
    expect((await browser.open(url, toClient)).status).to.equal(200)
    isError(await browser.open(url, toClient))
  })

  it('authorization: consent and browsers: the callback has a state of the attacker, none, or several: 400', async () => {
    for (const query of [
      '?code=x',
      '?code=x&state=',
      `?code=x&state=${'a'.repeat(43)}`,
      '?state=a&state=b&code=x',
    ])
      isError(await browser.open(`${facade.issuer}/signin/callback${query}`, toClient))
  })

  it('authorization: consent and browsers: the callback has the iss of another provider (mix-up): temporarily_unavailable, and no consent page', async () => {
    const callback = new URL((await browser.open(facade.authorizeUrl(client).href, isCallback)).url)
    callback.searchParams.set('iss', 'https://evil.example.com')
    expect(errorOf(await browser.open(callback.href, toClient))).to.equal('temporarily_unavailable')
  })

  it('authorization: consent and browsers: the callback has a code of another sign-in at the provider (code injection): temporarily_unavailable, and no consent page', async () => {
    const [mine, other] = await Promise.all(
      [browser, new Browser()].map(
        async (one) => new URL((await one.open(facade.authorizeUrl(client).href, isCallback)).url),
      ),
    )
    mine?.searchParams.set('code', String(other?.searchParams.get('code')))
    expect(errorOf(await browser.open(String(mine), toClient))).to.equal('temporarily_unavailable')
  })

  it('authorization: consent and browsers: the request to the identity provider has no PKCE: S256, with another challenge than that of the client', async () => {
    await authorize({})
    const { asked } = facade.provider as NonNullable<TestFacade['provider']>
    expect(asked.get('code_challenge_method')).to.equal('S256')
    expect(asked.get('code_challenge')).to.match(/^[\w-]{43}$/)
    expect(asked.get('code_challenge')).not.to.equal(
      facade.authorizeUrl(client).searchParams.get('code_challenge'),
    )
  })

  it('authorization: consent and browsers: the state at the identity provider carries an address, which an attacker changes: the state has 256 random bits, and a changed one is refused', async () => {
    const { url } = await browser.open(facade.authorizeUrl(client).href, isCallback)
    const callback = new URL(url)
    const state = String(callback.searchParams.get('state'))
    expect(Buffer.from(state, 'base64url').length).to.be.at.least(32)
    expect(Buffer.from(state, 'base64url').toString('latin1')).not.to.match(/http|127|callback/)
    const other = await new Browser().open(facade.authorizeUrl(client).href, isCallback)
    expect(new URL(other.url).searchParams.get('state')).not.to.equal(state)
    expect(facade.provider?.asked.get('redirect_uri')).to.equal(`${facade.issuer}/signin/callback`)
    const address = Buffer.from(JSON.stringify({ redirect_uri: HTTPS_CALLBACK })).toString('base64url')
    for (const changed of [`${state}x`, address, `${state}.${address}`]) {
      callback.searchParams.set('state', changed)
      isError(await browser.open(callback.href, toClient))
    }
  })

  it('authorization: consent and browsers: cookies with names of sessions are planted: the user must sign in and consent', async () => {
    const headers = { cookie: 'mcp-gatekit-session=planted; _session=planted' }
    const page = await browser.open(facade.authorizeUrl(client).href, toClient, { headers })
    expect(page.body).to.contain('name="csrf"')
  })

  it('authorization: consent and browsers: an unknown page of the sign-in is opened: 400 or 404 without details', async () => {
    isError(await browser.open(`${facade.issuer}/signin/unknown`))
    isError(await browser.open(`${facade.issuer}/signin/a/b`), 404)
    isError(await browser.open(`${facade.issuer}/signin/${'a'.repeat(10_000)}`), 404)
  })

  for (const [what = '', uri = ''] of [
    ['another path', 'http://127.0.0.1:53682/other'],
    ['another case of the path', 'http://127.0.0.1:53682/Callback'],
    ['a slash more', 'http://127.0.0.1:53682/callback/'],
    ['a dot segment', 'http://127.0.0.1:53682/x/../callback'],
    ['credentials', 'http://evil@127.0.0.1:53682/callback'],
    ['a host that looks like loopback', 'http://127.0.0.1.evil.example.com/callback'],
    ['localhost instead of 127.0.0.1', 'http://localhost:53682/callback'],
    ['https instead of http', 'https://127.0.0.1:53682/callback'],
    ['a query', 'http://127.0.0.1:53682/callback?next=x'],
    ['a fragment', 'http://127.0.0.1:53682/callback#x'],
    ['a backslash', 'http://127.0.0.1:53682\\@evil.example.com/callback'],
    ['a decimal address', 'http://2130706433:53682/callback'],
    ['a scheme that runs scripts', 'javascript:alert(1)'],
  ])
    it(`authorization: redirect URIs and requests: a redirect URI with ${what}: an HTML page with 400`, async () =>
      isError(await authorize({ redirect_uri: uri })))

  it('authorization: redirect URIs and requests: a loopback redirect URI with another port: accepted (RFC 8252 section 7.3)', async () => {
    const page = await authorize({ redirect_uri: 'http://127.0.0.1:1/callback' })
    expect(page.status).to.equal(200)
  })

  it('authorization: redirect URIs and requests: an unknown client with a redirect URI of the attacker (open redirect): an HTML page with 400', async () =>
    isError(await authorize({ redirect_uri: 'https://evil.example.com' }, { client_id: 'unknown' })))

  it('authorization: redirect URIs and requests: a link that sends users to a site of a registered client with an error (open redirect): an HTML page with 400', async () => {
    const uri = 'https://evil.example.com/cb'
    const evil = await facade.register({ redirect_uris: [uri] })
    for (const changes of [
      { prompt: 'none' },
      { code_challenge: undefined },
      { response_type: 'token' },
      { scope: 'openid' },
      { scope: 'openid offline_access' },
    ])
      isError(await authorize({ redirect_uri: uri, ...changes }, evil))
    const isSite = (url: string): boolean => url.startsWith(HTTPS_CALLBACK)
    const known = facade.authorizeUrl({ client_id: 'desk' }, { redirect_uri: HTTPS_CALLBACK, prompt: 'none' })
    expect((await browser.open(known.href, isSite)).url).to.contain('error=login_required')
  })

  it('authorization: redirect URIs and requests: a request without a client, and one with two: an HTML page with 400', async () => {
    isError(await authorize({ client_id: undefined }))
    isError(await browser.open(`${facade.authorizeUrl(client)}&client_id=other`))
  })

  for (const [what, changes, error] of [
    ['no PKCE', { code_challenge: undefined, code_challenge_method: undefined }, 'invalid_request'],
    ['PKCE plain', { code_challenge_method: 'plain' }, 'invalid_request'],
    ['PKCE without a method', { code_challenge_method: undefined }, 'invalid_request'],
    ['the implicit grant', { response_type: 'token' }, 'invalid_request'],
    ['a hybrid grant', { response_type: 'code id_token' }, 'invalid_request'],
    ['the response mode form_post', { response_mode: 'form_post' }, 'invalid_request'],
    ['the response mode fragment', { response_mode: 'fragment' }, 'invalid_request'],
    ['another resource', { resource: 'https://other.example.com/mcp' }, 'invalid_target'],
    ['a resource that is a prefix', { resource: 'http://127.0.0.1' }, 'invalid_target'],
  ])
    it(`authorization: redirect URIs and requests: a request with ${what}: ${String(error)}`, async () => {
      const page = await authorize(changes as Record<string, string | undefined>)
      const body = page.body + page.url
      expect(
        toClient(page.url) ? [errorOf(page)] : [...body.matchAll(/invalid_request/g)].map(String),
      ).to.include(error)
      expect(page.url).not.to.contain('code=')
    })

  for (const path of [
    '/authorize/',
    '/authorize/x',
    '/authorize/x/',
    '/authorize/x/y',
    '/authorize//',
    '/authorize/%2e',
  ])
    it(`authorization: redirect URIs and requests: a link to ${path} with a redirect URI of the attacker and another response mode: a page without a form, or 404`, async () => {
      const evil = await facade.register({ redirect_uris: ['https://evil.example.com/cb'] })
      for (const mode of ['form_post', 'fragment', 'query'])
        for (const prompt of ['none', 'login']) {
          const url = facade.authorizeUrl(evil, {
            redirect_uri: 'https://evil.example.com/cb',
            response_mode: mode,
            prompt,
          })
          url.pathname += path.slice('/authorize'.length)
          const response = await fetch(url, { redirect: 'manual' })
          expect(response.status).to.equal(path === '/authorize/x' ? 400 : 404)
          expect(response.headers.has('location')).to.equal(false)
          expect(await response.text()).not.to.match(/evil|<form/)
        }
    })

  it('authorization: redirect URIs and requests: a request with two resources: invalid_target', async () => {
    const url = `${facade.authorizeUrl(client)}&resource=${encodeURIComponent('https://other.example.com')}`
    const page = await browser.open(url, toClient)
    expect(errorOf(page)).to.equal('invalid_target')
  })

  it('authorization: redirect URIs and requests: a request object and a request URI: rejected, and nothing is fetched', async () => {
    for (const changes of [
      { request: 'eyJhbGciOiJub25lIn0.e30.' },
      { request_uri: `${documentOrigin}/request` },
    ]) {
      const page = await authorize(changes)
      expect(page.url).not.to.contain('code=')
      expect(errorOf(page)).to.match(/not_supported/)
    }
    expect(fetched).to.deep.equal([])
  })

  it('authorization: redirect URIs and requests: a Host header and forwarded headers of the attacker: the metadata and redirects name the issuer only', async () => {
    const { port } = new URL(facade.origin)
    const headers = [
      'Host: evil.example.com',
      'X-Forwarded-Host: evil.example.com',
      'X-Forwarded-Proto: https',
    ]
    for (const path of [
      '/.well-known/oauth-authorization-server',
      `/authorize?${facade.authorizeUrl(client).searchParams}`,
    ]) {
      const reply = await rawRequest(Number(port), {
        method: 'GET',
        target: path,
        headers: [...headers, 'Connection: close'],
      })
      expect(String(JSON.stringify(reply))).not.to.contain('evil.example.com')
    }
  })

  it('authorization: redirect URIs and requests: a client id of 100 000 characters: 400 or 431, and nothing is fetched', async () => {
    const id = `${documentOrigin}/${'a'.repeat(20_000)}`
    expect((await authorize({}, { client_id: id })).status).to.be.within(400, 431)
    expect(fetched).to.deep.equal([])
  })

  it('authorization: redirect URIs and requests: a client id of 501 characters that is registered in advance: it is unknown, and one of 500 characters is known', async () => {
    const [longest, tooLong] = LONG_IDS
    const at = (id: string | undefined) =>
      authorize({ redirect_uri: HTTPS_CALLBACK }, { client_id: String(id) })
    expect((await at(longest)).body).to.contain('decision')
    expect((await at(tooLong)).status).to.equal(400)
  })

  it('authorization: codes and tokens: a code is used twice: invalid_grant, and the first tokens are revoked', async () => {
    const code = await codeOf()
    const { body } = await facade.token(codeGrant(client, code))
    await refused(codeGrant(client, code), 'invalid_grant')
    await refused(refreshGrant(client, body.refresh_token), 'invalid_grant')
  })

  it('authorization: codes and tokens: a code is used by eight requests at the same time: one gets a token', async () => {
    const grant = codeGrant(client, await codeOf())
    const replies = await Promise.all(Array.from({ length: 8 }, () => facade.token(grant)))
    expect(replies.filter(({ status }) => status === 200)).to.have.length(1)
  })

  it('authorization: codes and tokens: a code is used by another client: invalid_grant', async () => {
    const other = await facade.register()
    await refused({ ...codeGrant(client, await codeOf()), client_id: other.client_id }, 'invalid_grant')
  })

  it('authorization: codes and tokens: a code is used with another verifier, and without one: invalid_grant', async () => {
    const grant = codeGrant(client, await codeOf())
    await refused({ ...grant, code_verifier: 'a'.repeat(43) }, 'invalid_grant')
    await refused({ ...grant, code_verifier: CHALLENGE }, 'invalid_grant')
    const { code_verifier: _, ...without } = grant
    await refused(without, 'invalid_grant')
  })

  it('authorization: codes and tokens: a code is used with another redirect URI: invalid_grant', async () =>
    refused(
      { ...codeGrant(client, await codeOf()), redirect_uri: 'http://127.0.0.1:1/callback' },
      'invalid_grant',
    ))

  it('authorization: codes and tokens: a code is used for another resource: invalid_target', async () =>
    refused(
      { ...codeGrant(client, await codeOf()), resource: 'https://other.example.com' },
      'invalid_target',
    ))

  it('authorization: codes and tokens: a refresh token is used after its successor was used: invalid_grant, and the newest token is revoked', async () => {
    const { refresh_token: first } = await tokensOf()
    const { body: second } = await facade.token(refreshGrant(client, first))
    expect(second.refresh_token).to.be.a('string').and.not.to.equal(first)
    const { body: third } = await facade.token(refreshGrant(client, second.refresh_token))
    await refused(refreshGrant(client, first), 'invalid_grant')
    await refused(refreshGrant(client, third.refresh_token), 'invalid_grant')
  })

  it('authorization: codes and tokens: a refresh token is used by eight requests at the same time: all get the same successor, and no second line of tokens begins', async () => {
    const { refresh_token: token } = await tokensOf()
    const replies = await Promise.all(
      Array.from({ length: 8 }, () => facade.token(refreshGrant(client, token))),
    )
    expect(new Set(replies.map(({ body }) => body.refresh_token)).size).to.equal(1)
  })

  it('authorization: codes and tokens: a refresh token is used by another client: invalid_grant', async () => {
    const other = await facade.register()
    const { refresh_token: token } = await tokensOf()
    await refused({ ...refreshGrant(client, token), client_id: other.client_id }, 'invalid_grant')
  })

  it('authorization: codes and tokens: a refresh asks for more scopes, and for another resource: invalid_scope and invalid_target', async () => {
    const { refresh_token: token } = await tokensOf()
    await refused({ ...refreshGrant(client, token), scope: 'mcp:read mcp:write' }, 'invalid_scope')
    await refused({ ...refreshGrant(client, token), resource: 'https://other.example.com' }, 'invalid_target')
  })

  it('authorization: codes and tokens: a revoked refresh token is used: invalid_grant', async () => {
    const { refresh_token: token } = await tokensOf()
    const body = new URLSearchParams({ token, client_id: client.client_id })
    expect((await fetch(`${facade.issuer}/revoke`, { method: 'POST', body })).status).to.equal(200)
    await refused(refreshGrant(client, token), 'invalid_grant')
  })

  it('authorization: codes and tokens: another client revokes a refresh token: the token stays valid', async () => {
    const other = await facade.register()
    const { refresh_token: token } = await tokensOf()
    const body = new URLSearchParams({ token, client_id: other.client_id })
    await fetch(`${facade.issuer}/revoke`, { method: 'POST', body })
    expect((await facade.token(refreshGrant(client, token))).status).to.equal(200)
  })

  it('authorization: codes and tokens: an unknown client asks for a token: 401 invalid_client', async () => {
    served = () => ({ status: 404, body: '' })
    await refused(codeGrant({ client_id: 'unknown' }, 'x'), 'invalid_client', 401)
    await refused(codeGrant({ client_id: `${documentOrigin}/unknown` }, 'x'), 'invalid_client', 401)
    await refused({ ...refreshGrant(client, 'x'), client_id: 'unknown' }, 'invalid_client', 401)
  })

  it('authorization: codes and tokens: other grants: client credentials, password, device code: unsupported_grant_type', async () => {
    for (const grant of ['client_credentials', 'password', 'urn:ietf:params:oauth:grant-type:device_code'])
      await refused({ grant_type: grant, client_id: client.client_id }, 'unsupported_grant_type')
  })

  it('authorization: codes and tokens: the response and the token are searched for the token of the provider: neither contains it', async () => {
    const body = await tokensOf()
    expect(Object.keys(body).sort()).to.deep.equal([
      'access_token',
      'expires_in',
      'refresh_token',
      'refresh_token_expires_in',
      'scope',
      'token_type',
    ])
    expect(Object.keys(decodeJwt(body.access_token)).sort()).to.deep.equal([
      'aud',
      'client_id',
      'exp',
      'gid',
      'iat',
      'iss',
      'jti',
      'scope',
      'sub',
    ])
  })

  it('authorization: codes and tokens: an access token of this server with another audience, type, or key calls the MCP server: 401', async () => {
    const { access_token: token } = await tokensOf()
    const call = async (bearer: string): Promise<number> =>
      (await fetch(facade.resource, { method: 'POST', headers: { authorization: `Bearer ${bearer}` } }))
        .status
    expect(await call(token)).not.to.equal(401)
    const { privateKey } = await generateKeyPair('ES256')
    const forged = await new SignJWT(decodeJwt(token))
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt' })
      .sign(privateKey)
    expect(await call(forged)).to.equal(401)
    const [, payload] = token.split('.')
    const none = `${Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url')}.${payload}.`
    expect(await call(none)).to.equal(401)
  })

  it('authorization: codes and tokens: a DPoP proof is replayed at the token endpoint: the second is rejected', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256')
    const jwk = await exportJWK(publicKey)
    const proof = await new SignJWT({
      htm: 'POST',
      htu: `${facade.issuer}/token`,
      jti: crypto.randomUUID(),
    })
      .setProtectedHeader({ alg: 'ES256', typ: 'dpop+jwt', jwk })
      .setIssuedAt()
      .sign(privateKey)
    const [one, two] = [await codeOf(), await codeOf()]
    const first = await facade.token(codeGrant(client, one), { dpop: proof })
    expect(first.body.token_type).to.equal('DPoP')
    expect(decodeJwt(first.body.access_token).cnf).to.deep.equal({
      jkt: await calculateJwkThumbprint(jwk),
    })
    const second = await facade.token(codeGrant(client, two), { dpop: proof })
    expect(second.status).to.equal(400)
  })

  for (const [what = '', uri = ''] of [
    ['a script', 'javascript:alert(1)'],
    ['a data URI', 'data:text/html,x'],
    ['http on another host', 'http://evil.example.com/cb'],
    ['http on a private address', 'http://10.0.0.1/cb'],
    ['credentials', 'https://user:password@example.com/cb'],
    ['a fragment', 'https://example.com/cb#x'],
    ['an unknown private scheme', 'evil-app://callback'],
    ['a host that injects a policy', "https://a;script-src'unsafe-inline'.example.com/cb"],
    ['a space', 'https://example.com/a b'],
    ['2 001 characters', `https://example.com/${'a'.repeat(2_000)}`],
  ])
    it(`authorization: registration: a redirect URI with ${what}: invalid_redirect_uri`, async () => {
      expect((await facade.register({ redirect_uris: [CALLBACK, uri] })).error).to.equal(
        'invalid_redirect_uri',
      )
    })

  it('authorization: registration: metadata with URLs to fetch: logo, sector identifier, policies, request URIs: nothing is fetched, and nothing of it is kept', async () => {
    const url = `${documentOrigin}/x`
    const registered = await facade.register({
      logo_uri: url,
      sector_identifier_uri: url,
      policy_uri: url,
      tos_uri: url,
      request_uris: [url],
      client_uri: url,
    })
    expect(registered.client_id).to.be.a('string')
    expect(JSON.stringify(registered)).not.to.contain(url)
    expect(fetched).to.deep.equal([])
  })

  it('authorization: registration: a body of 1 MiB, 21 redirect URIs, a name of 201 characters, a name that is an object: 400', async () => {
    for (const metadata of [
      { contacts: ['x'.repeat(1_048_576)] },
      { redirect_uris: Array.from({ length: 21 }, (_, index) => `https://example.com/${index}`) },
      { client_name: 'n'.repeat(201) },
      { client_name: { toString: 'x' } },
      { redirect_uris: 'https://example.com' },
      { redirect_uris: [] },
    ]) {
      const { error, client_id: id } = await facade.register(metadata)
      expect(error, JSON.stringify(metadata).slice(0, 60)).to.match(/^invalid_/)
      expect(id).to.equal(undefined)
    }
  })

  for (const [what, member, json, status] of [
    ['keys that are nested 25 000 times', 'jwks', nested(25_000), 400],
    ['unknown metadata that is nested 25 000 times', 'any_metadata', nested(25_000), 201],
    ['unknown metadata of 50 000 characters', 'any_metadata', JSON.stringify('x'.repeat(50_000)), 201],
  ] as const)
    it(`authorization: registration: ${what}: ${status === 400 ? '400 invalid_client_metadata' : 'it is not kept'}`, async () => {
      const response = await fetch(`${facade.issuer}/register`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: `{"redirect_uris":["${CALLBACK}"],"${member}":${json}}`,
      })
      const registered = (await response.json()) as Record<string, unknown>
      expect([response.status, registered.error]).to.deep.equal([
        status,
        status === 400 ? 'invalid_client_metadata' : undefined,
      ])
      expect(registered).not.to.have.property(member)
    })

  it('authorization: registration: a client chooses its own id and secret: the server chooses others', async () => {
    const registered = await facade.register({
      client_id: 'desk',
      client_secret: 'chosen',
      token_endpoint_auth_method: 'client_secret_basic',
    })
    expect(registered.client_id).not.to.equal('desk')
    expect(registered.client_secret).not.to.equal('chosen')
  })

  it('authorization: registration: a client asks for other grants and response types: it gets the code grant only', async () => {
    const registered = await facade.register({
      grant_types: ['implicit', 'client_credentials', 'password'],
      response_types: ['token', 'code id_token'],
    })
    expect(registered).to.deep.include({ grant_types: ['authorization_code'], response_types: ['code'] })
  })

  it('authorization: registration: a client with a secret asks for a token without it, and with a wrong one: 401 invalid_client', async () => {
    const confidential = await facade.register({ token_endpoint_auth_method: 'client_secret_post' })
    await refused(codeGrant(confidential, 'x'), 'invalid_client', 401)
    await refused({ ...codeGrant(confidential, 'x'), client_secret: 'wrong' }, 'invalid_client', 401)
  })

  it('authorization: registration: the registration of a client is read, changed, and deleted: 404', async () => {
    for (const method of ['GET', 'PUT', 'DELETE'])
      expect((await fetch(`${facade.issuer}/register/${client.client_id}`, { method })).status).to.equal(404)
  })

  it('authorization: metadata documents: a valid document: its client is shown with the host of the document, at every sign-in', async () => {
    served = (path) => ({ body: documentOf(path) })
    const id = `${documentOrigin}/valid`
    for (const _ of [1, 2]) {
      const { body } = await atConsent(facade, facade.authorizeUrl({ client_id: id }), browser)
      expect(body).to.contain('Document').and.to.contain(new URL(documentOrigin).host)
      await facade.signIn(facade.authorizeUrl({ client_id: id }), browser)
    }
    expect(fetched).to.deep.equal(['/valid'])
  })

  for (const [what, changes] of [
    ['another client_id', { client_id: 'https://example.com/other' }],
    ['a client secret', { client_secret: 'x' }],
    ['authentication with a secret', { token_endpoint_auth_method: 'client_secret_post' }],
    ['a redirect URI of another scheme', { redirect_uris: ['evil-app://callback'] }],
    ['no redirect URI', { redirect_uris: [] }],
  ] as const)
    it(`authorization: metadata documents: a document with ${what}: an HTML page with 400`, async () => {
      served = (path) => ({ body: documentOf(path, changes) })
      isError(await authorize({}, { client_id: `${documentOrigin}/${encodeURIComponent(what)}` }))
    })

  it('authorization: metadata documents: a request with a redirect URI that its document does not contain: an HTML page with 400', async () => {
    served = (path) => ({ body: documentOf(path) })
    const changes = { redirect_uri: 'https://evil.example.com/cb' }
    isError(await authorize(changes, { client_id: `${documentOrigin}/other-redirect` }))
    expect(fetched).to.deep.equal(['/other-redirect'])
  })

  it('authorization: metadata documents: a document that redirects, is too large, is not JSON, or is missing: an HTML page with 400, and the redirect is not followed', async () => {
    const ways: Record<string, ReturnType<typeof served>> = {
      '/redirect': { status: 302, headers: { location: '/target' }, body: '' },
      '/large': { body: documentOf('/large', { client_uri: 'x'.repeat(100_000) }) },
      '/text': { body: '<html>' },
      '/missing': { status: 404, body: '{}' },
      '/array': { body: '[]' },
    }
    served = (path) => ways[path] ?? { body: documentOf(path) }
    for (const path of Object.keys(ways)) isError(await authorize({}, { client_id: documentOrigin + path }))
    expect([...new Set(fetched)]).to.deep.equal(Object.keys(ways))
  })

  it('authorization: metadata documents: a document of 70 000 bytes in many chunks: reading stops at 65 536 bytes', async () => {
    served = () => ({ headers: { 'transfer-encoding': 'chunked' }, body: 'x'.repeat(70_000) })
    const safeFetch = createSafeFetch({ isAllowed: (address) => address === '127.0.0.1', ca })
    const error = await safeFetch(`${documentOrigin}/long`).catch((reason: Error) => reason)
    expect((error as Error).message).to.contain('larger than 65536 bytes')
  })

  it('authorization: metadata documents: eight users begin at the same time with a client whose document is slow: all get the consent page, and the document is fetched once', async () => {
    served = (path) => ({ body: documentOf(path), delayMs: 50 })
    const id = `${documentOrigin}/slow`
    const pages = await Promise.all(
      Array.from({ length: 8 }, () =>
        new Browser().open(facade.authorizeUrl({ client_id: id }).href, toClient),
      ),
    )
    expect(pages.map(({ status }) => status)).to.deep.equal(Array(8).fill(200))
    expect(fetched).to.deep.equal(['/slow'])
  })

  it('authorization: metadata documents: ten requests of clients that name the same key set of a victim (jwks_uri): 503, and it is fetched once', async () => {
    served = () => ({ status: 500, body: '', delayMs: 20 })
    const { privateKey } = await generateKeyPair('ES256')
    const ask = async (): Promise<void> => {
      const { client_id: id } = await facade.register({
        token_endpoint_auth_method: 'private_key_jwt',
        jwks_uri: `${documentOrigin}/keys`,
      })
      const claims = { iss: id, sub: id, aud: facade.issuer, jti: crypto.randomUUID() }
      const assertion = await new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256' })
        .setIssuedAt()
        .setExpirationTime('1m')
        .sign(privateKey)
      const grant = {
        ...codeGrant({ client_id: id }, 'x'),
        client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        client_assertion: assertion,
      }
      await refused(grant, 'temporarily_unavailable', 503)
    }
    await Promise.all([ask(), ask(), ask(), ask(), ask()])
    for (let i = 0; i < 5; i++) await ask()
    expect(fetched).to.deep.equal(['/keys'])
  })

  it('authorization: metadata documents: a failing document is requested ten times: 503, and it is fetched once', async () => {
    served = () => ({ status: 500, body: '' })
    for (let i = 0; i < 10; i++) isError(await authorize({}, { client_id: `${documentOrigin}/failing` }), 503)
    expect(fetched).to.deep.equal(['/failing'])
  })

  for (const url of [
    'http://example.com/client',
    'https://127.0.0.1/client',
    'https://localhost/client',
    'https://2130706433/client',
    'https://0x7f.1/client',
    'https://0177.0.0.1/client',
    'https://[::1]/client',
    'https://[::ffff:127.0.0.1]/client',
    'https://[::ffff:7f00:1]/client',
    'https://[64:ff9b::7f00:1]/client',
    'https://[fd00::1]/client',
    'https://[fe80::1]/client',
    'https://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/client',
    'https://100.64.0.1/client',
    'https://0.0.0.0/client',
    'https://user@example.com/client',
  ])
    it(`authorization: metadata documents: a document at ${url}: no connection is made`, async () => {
      const safeFetch = createSafeFetch({
        lookup: (_host, _options, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }]),
      })
      const error = await safeFetch(url).then(
        () => undefined,
        (reason: unknown) => reason as Error,
      )
      expect(error?.message).to.match(/public address|https URL|credentials/)
    })

  it('authorization: metadata documents: a host that resolves to a public and a private address (DNS rebinding): no connection is made, and the host is resolved once', async () => {
    let lookups = 0
    const safeFetch = createSafeFetch({
      lookup: (_host, _options, callback) => {
        lookups++
        callback(null, [
          { address: '93.184.215.14', family: 4 },
          { address: '10.0.0.1', family: 4 },
        ])
      },
    })
    const error = await safeFetch('https://rebind.example.com/x').catch((reason: Error) => reason)
    expect((error as Error).message).to.contain('public address')
    expect(lookups).to.equal(1)
  })

  it('authorization: metadata documents: addresses at the borders of private networks: private ones are rejected, public ones are accepted', () => {
    for (const address of [
      '172.16.0.0',
      '172.31.255.255',
      '192.168.255.255',
      '224.0.0.1',
      '255.255.255.255',
      '::',
      'ff02::1',
      '2001:db8::1',
      '2002:7f00:1::',
    ])
      expect(isPublicAddress(address), address).to.equal(false)
    for (const address of ['172.15.255.255', '172.32.0.0', '8.8.8.8', '2606:4700::1111'])
      expect(isPublicAddress(address), address).to.equal(true)
  })
})
