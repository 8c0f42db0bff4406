import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import express from 'express'
import type { JWK } from 'jose'
import { createFacade } from '../../src/authorization/facade.ts'
import { type AuthorizationFacadeOptions, memoryStore, oidc } from '../../src/authorization/index.ts'
import { Records } from '../../src/authorization/records.ts'
import { Browser, type Page } from '../support/authorization/browser.ts'
import { SCOPES, startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { interruptedStore } from '../support/authorization/interrupted-store.ts'
import { listen } from '../support/listen.ts'

const keyOf = (kid: string): JWK => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { ...(privateKey.export({ format: 'jwk' }) as JWK), kid }
}
const KEYS = { signing: [keyOf('one')], encryption: [randomBytes(32).toString('base64url')] }

const COOKIE = 'mcp-gatekit-account'

/** Returns the value of a hidden field or of the first button with a name. */
function fieldOf(page: Page, name: string): string {
  return new RegExp(`name="${name}" value="([^"]*)"`).exec(page.body)?.[1] ?? ''
}

async function post(
  browser: Browser,
  page: Page,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<Page> {
  const { origin } = new URL(page.url)
  return await browser.open(page.url, undefined, {
    method: 'POST',
    body: new URLSearchParams(fields),
    headers: { origin, 'sec-fetch-site': 'same-origin', ...headers },
  })
}

describe('facade.account', () => {
  async function start(options: Partial<AuthorizationFacadeOptions> = {}): Promise<TestFacade> {
    return await startFacade({ keys: KEYS, ...options }, { mountsAccount: true })
  }

  async function connect(
    facade: TestFacade,
    name = 'Desk',
  ): Promise<{ id: string; refresh(): Promise<number> }> {
    const { client, body } = await facade.connect(await facade.register({ client_name: name }))
    const [grant] = await facade.facade.grants.list('oidc|ada')
    return {
      id: String(grant?.id),
      async refresh() {
        const { status } = await facade.refresh(client, body.refresh_token)
        return status
      },
    }
  }

  it('the page does not exist unless it is mounted', async () => {
    const facade = await startFacade()
    expect((await fetch(`${facade.issuer}/account`)).status).to.equal(404)
  })

  it('a user signs in, sees the connected applications, and disconnects one', async () => {
    const facade = await start()
    const [one, two] = [await connect(facade, 'Desk'), await connect(facade, 'Phone')]
    const browser = new Browser()
    const page = await browser.open(`${facade.issuer}/account`)
    expect([page.status, page.url]).to.deep.equal([200, `${facade.issuer}/account`])
    expect(browser.history.some((url) => url.startsWith(`${facade.issuer}/signin/callback?`))).to.equal(true)
    for (const text of ['Desk', 'Phone', '127.0.0.1:53682', 'Read your notes', 'ada'])
      expect(page.body).to.contain(text)
    const after = await post(browser, page, { csrf: fieldOf(page, 'csrf'), revoke: two.id })
    expect([after.status, after.url]).to.deep.equal([200, page.url])
    expect(after.body).to.contain('Desk').and.not.to.contain('Phone')
    expect(await two.refresh()).to.equal(400)
    expect(await one.refresh()).to.equal(200)
  })

  it('the page has no script, a strict policy, and a cookie of 10 minutes', async () => {
    const facade = await start()
    const browser = new Browser()
    const page = await browser.open(`${facade.issuer}/account`)
    expect(page.body).not.to.match(/<script|javascript:|\son\w+=/i)
    const policy = String(page.headers.get('content-security-policy'))
    for (const directive of ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"])
      expect(policy.split('; ')).to.include(directive)
    expect(page.headers.get('cache-control')).to.equal('no-store')
    const [cookie = ''] = (await fetch(`${facade.issuer}/account`, { redirect: 'manual' })).headers
      .getSetCookie()
      .filter((one) => one.startsWith(`${COOKIE}=`))
    expect(cookie.toLowerCase()).to.contain('httponly').and.contain('samesite=lax').and.contain('path=/')
    const seconds = (Date.parse(/expires=([^;]*)/i.exec(cookie)?.[1] ?? '') - Date.now()) / 1000
    expect(seconds).to.be.within(590, 601)
  })

  it('the cookie of an https facade has the prefix __Host- and is Secure', async () => {
    const first = await start()
    const { issuer = '', clientId = '', clientSecret = '' } = first.provider ?? {}
    const facade = createFacade(
      {
        url: 'https://mcp.example.com',
        resource: 'https://mcp.example.com/mcp',
        upstream: oidc({ issuer, clientId, clientSecret }),
        scopes: SCOPES,
        allow: 'everyone',
        keys: KEYS,
        store: memoryStore(),
      },
      {},
    )
    const { origin } = await listen(express().use(facade.account))
    const response = await fetch(`${origin}/account`, { redirect: 'manual' })
    const cookies = response.headers
      .getSetCookie()
      .filter((one) => one.startsWith('__Host-mcp-gatekit-account='))
    expect(cookies).to.have.length(1)
    expect(String(cookies[0]).toLowerCase()).to.contain('; secure').and.not.contain('domain=')
  })

  const forged: Record<
    string,
    [fields: (csrf: string) => Record<string, string>, headers: Record<string, string>]
  > = {
    'without a CSRF token': [() => ({}), {}],
    'with another CSRF token': [() => ({ csrf: 'x'.repeat(43) }), {}],
    'from another origin': [(csrf) => ({ csrf }), { origin: 'https://evil.example' }],
    'from a page without an origin': [(csrf) => ({ csrf }), { origin: 'null' }],
    'from another origin of the same site': [(csrf) => ({ csrf }), { 'sec-fetch-site': 'same-site' }],
  }
  for (const [what, [fields, headers]] of Object.entries(forged))
    it(`a form ${what} disconnects nothing`, async () => {
      const facade = await start()
      const grant = await connect(facade)
      const browser = new Browser()
      const page = await browser.open(`${facade.issuer}/account`)
      const body = { ...fields(fieldOf(page, 'csrf')), revoke: grant.id }
      expect((await post(browser, page, body, headers)).status).to.equal(403)
      expect(await grant.refresh()).to.equal(200)
    })

  it('a form of a user who is not signed in disconnects nothing, and leads to no other site', async () => {
    const facade = await start()
    const grant = await connect(facade)
    const page = await new Browser().open(`${facade.issuer}/account`)
    const reply = await post(new Browser(), page, { csrf: fieldOf(page, 'csrf'), revoke: grant.id })
    expect(reply.status).to.equal(403)
    expect(await grant.refresh()).to.equal(200)
  })

  it('a user cannot disconnect the grant of another user, and does not see it', async () => {
    const store = memoryStore()
    const facade = await start({ store })
    const grant = await connect(facade)
    // Another user is a session with another subject.
    const id = 'g'.repeat(43)
    await new Records(store, KEYS.encryption).set(
      'AccountSession',
      id,
      { url: facade.issuer, sub: 'oidc|grace', name: 'grace', csrf: 'c'.repeat(43) },
      600,
    )
    const headers = { cookie: `${COOKIE}=${id}`, origin: facade.origin }
    const page = await fetch(`${facade.issuer}/account`, { headers })
    expect(page.status).to.equal(200)
    expect(await page.text()).to.contain('No application has access')
    const body = new URLSearchParams({ csrf: 'c'.repeat(43), revoke: grant.id })
    await fetch(`${facade.issuer}/account`, { method: 'POST', headers, body, redirect: 'manual' })
    expect(await grant.refresh()).to.equal(200)
  })

  it('the callback in another browser is refused, and its code cannot be used afterwards', async () => {
    const facade = await start()
    const attacker = new Browser()
    const stopped = await attacker.open(`${facade.issuer}/account`, (url) => url.includes('/signin/callback'))
    const victim = new Browser()
    const page = await victim.open(stopped.url)
    expect(page.status).to.equal(400)
    expect(victim.cookiesFor(facade.issuer)).not.to.contain(COOKIE)
    expect((await attacker.open(stopped.url)).status).to.equal(400)
  })

  it('the sign-in changes the cookie, so that a cookie from before it is worth nothing', async () => {
    const facade = await start()
    const browser = new Browser()
    const stopped = await browser.open(`${facade.issuer}/account`, (url) => url.includes('/signin/callback'))
    const before = browser.cookiesFor(facade.issuer)
    await browser.open(stopped.url)
    const response = await fetch(`${facade.issuer}/account`, {
      headers: { cookie: before },
      redirect: 'manual',
    })
    expect(response.status).to.equal(303)
  })

  it('the cookie of another facade with the same store and keys is worth nothing', async () => {
    const store = memoryStore()
    const [one, two] = [await start({ store }), await start({ store })]
    const browser = new Browser()
    await browser.open(`${one.issuer}/account`)
    const headers = { cookie: browser.cookiesFor(one.issuer) }
    expect((await fetch(`${one.issuer}/account`, { headers, redirect: 'manual' })).status).to.equal(200)
    expect((await fetch(`${two.issuer}/account`, { headers, redirect: 'manual' })).status).to.equal(303)
  })

  it('sign-out ends the session, also for a copy of its cookie', async () => {
    const facade = await start()
    const browser = new Browser()
    const page = await browser.open(`${facade.issuer}/account`)
    const headers = { cookie: browser.cookiesFor(facade.issuer) }
    const out = await post(browser, page, { csrf: fieldOf(page, 'csrf'), action: 'sign-out' })
    expect(out.status).to.equal(200)
    expect(out.body).to.contain('signed out')
    expect(browser.cookiesFor(facade.issuer)).not.to.contain(`${COOKIE}=`)
    expect((await fetch(`${facade.issuer}/account`, { headers, redirect: 'manual' })).status).to.equal(303)
  })

  it('a user whom allow denies sees the reason, and nothing else', async () => {
    const facade = await start({ allow: () => ({ deny: 'Use your work account' }) })
    const page = await new Browser().open(`${facade.issuer}/account`)
    expect(page.status).to.equal(403)
    expect(page.body).to.contain('Use your work account')
  })

  it('names of clients are shown as text', async () => {
    const facade = await start()
    await connect(facade, '<img src=x onerror=alert(1)>"\'&')
    const page = await new Browser().open(`${facade.issuer}/account`)
    expect(page.body).to.contain('&#60;img src=x onerror=alert(1)&#62;').and.not.to.contain('<img')
  })

  it('while the store is down, the page is 503, and works afterwards', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await start({ store })
    const browser = new Browser()
    const page = await browser.open(`${facade.issuer}/account`)
    store.isDown = true
    const down = await browser.open(page.url)
    expect([down.status, down.headers.get('retry-after')]).to.deep.equal([503, '5'])
    expect((await post(browser, page, { csrf: fieldOf(page, 'csrf'), revoke: 'x' })).status).to.equal(503)
    store.isDown = false
    expect((await browser.open(page.url)).status).to.equal(200)
  })

  for (const method of ['PUT', 'DELETE', 'OPTIONS'])
    it(`the method ${method} is 405`, async () => {
      const facade = await start()
      const { status, headers } = await fetch(`${facade.issuer}/account`, { method })
      expect([status, headers.get('allow')]).to.deep.equal([405, 'GET, HEAD, POST'])
    })
})
