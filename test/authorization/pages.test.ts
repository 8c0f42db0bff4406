import { expect } from 'chai'
import type { AuthorizationFacadeOptions } from '../../src/authorization/index.ts'
import { Browser, type Page } from '../support/authorization/browser.ts'
import {
  CALLBACK,
  codeGrant,
  startFacade,
  type TestFacade,
  toClient,
} from '../support/authorization/facade.ts'
import { UPSTREAMS } from '../support/authorization/upstreams.ts'

const HTTPS = 'https://app.example.com/cb'

interface ErrorCase {
  readonly status: number
  readonly heading: string
  readonly next: string
  /** The OAuth error in small print. */
  readonly code?: string
  readonly options?: Partial<AuthorizationFacadeOptions>
  readonly open: (facade: TestFacade, browser: Browser) => Promise<Page>
}

const AGAIN = 'Start again from your application.'

/** Sends an authorization request of a client with an https redirect URI, which gets no errors. */
const request =
  (changes: Record<string, string | undefined> = {}) =>
  async (facade: TestFacade, browser: Browser): Promise<Page> => {
    const client = await facade.register({ redirect_uris: [HTTPS] })
    return await browser.open(facade.authorizeUrl(client, { redirect_uri: HTTPS, ...changes }).href, (url) =>
      url.startsWith(HTTPS),
    )
  }

const ERRORS: Readonly<Record<string, ErrorCase>> = {
  'a client that the store has forgotten': {
    status: 400,
    heading: 'This server does not know the application',
    next: 'Remove this server in your application and add it again.',
    code: 'invalid_client: client is invalid',
    open: (facade, browser) => browser.open(facade.authorizeUrl({ client_id: 'forgotten' }).href),
  },
  'an unknown redirect URI': {
    status: 400,
    heading: 'This server does not accept the application',
    next: 'Remove this server in your application and add it again.',
    code: 'invalid_redirect_uri',
    open: request({ redirect_uri: 'https://other.example.com/cb' }),
  },
  'a request without PKCE': {
    status: 400,
    heading: 'The application cannot be connected',
    next: 'update the application, or ask its makers for help.',
    code: 'invalid_request',
    open: request({ code_challenge: undefined, code_challenge_method: undefined }),
  },
  'another server as the resource': {
    status: 400,
    heading: 'The application requests access to another server',
    next: 'Check the address of this server in your application.',
    code: 'invalid_target',
    open: request({ resource: 'https://other.example.com/mcp' }),
  },
  'unknown scopes': {
    status: 400,
    heading: 'You do not have the access that the application requests',
    next: 'Ask the operator of this server for access.',
    code: 'invalid_scope',
    open: request({ scope: 'unknown' }),
  },
  'no sign-in for prompt=none': {
    status: 400,
    heading: 'You must sign in',
    next: AGAIN,
    code: 'login_required',
    open: request({ prompt: 'none' }),
  },
  'an account that allow denies': {
    status: 400,
    heading: 'The sign-in was denied',
    next: 'Use another account, or ask the operator of this server for access.',
    code: 'access_denied',
    options: { allow: () => ({ deny: 'Use your work account' }) },
    open: request(),
  },
  'a client that clients.allow denies': {
    status: 403,
    heading: 'This application is not allowed',
    next: 'Use another application, or ask the operator of this server to allow this one.',
    code: 'access_denied',
    options: { clients: { static: [{ clientId: 'desk', redirectUris: [HTTPS] }], allow: () => false } },
    open: (facade, browser) =>
      browser.open(facade.authorizeUrl({ client_id: 'desk' }, { redirect_uri: HTTPS }).href),
  },
  'too many requests': {
    status: 429,
    heading: 'Too many sign-ins were started',
    next: 'Wait a minute. Then start again from your application.',
    code: 'too_many_requests',
    options: { clients: { maxRegistrationsPerMinute: 1 } },
    async open(facade, browser) {
      await browser.open(facade.authorizeUrl({ client_id: 'x' }).href)
      return await browser.open(facade.authorizeUrl({ client_id: 'x' }).href)
    },
  },
  'a provider that is down': {
    status: 503,
    heading: 'This service is temporarily unavailable',
    next: 'Wait a few seconds. Then start again from your application.',
    code: 'temporarily_unavailable',
    async open(facade, browser) {
      await facade.provider?.close()
      return await request()(facade, browser)
    },
  },
  'a sign-in that is unknown': {
    status: 400,
    heading: 'This sign-in has expired',
    next: AGAIN,
    open: (facade, browser) => browser.open(`${facade.issuer}/signin/unknown`),
  },
  'an answer to a sign-in that is unknown': {
    status: 400,
    heading: 'This sign-in has expired',
    next: AGAIN,
    code: 'invalid_request',
    open: (facade, browser) => browser.open(`${facade.issuer}/authorize/unknown`),
  },
  'a callback without a sign-in': {
    status: 400,
    heading: 'This sign-in has expired',
    next: AGAIN,
    open: (facade, browser) => browser.open(`${facade.issuer}/signin/callback?state=x&code=y`),
  },
}

describe('pages of authorizationFacade', () => {
  for (const [what, { status, heading, next, code, options, open: visit }] of Object.entries(ERRORS))
    it(`the error page for ${what} says what to do next`, async () => {
      const facade = await startFacade({ page: { title: 'Notes & more' }, ...options })
      const page = await visit(facade, new Browser())
      expect([page.status, page.headers.get('location')], page.body).to.deep.equal([status, null])
      const main = page.body.slice(page.body.indexOf('<main>'))
      const [small = ''] = /<p class="small">.*<\/p>/.exec(main) ?? []
      expect(main).to.contain(`<h1>${heading}</h1>`).and.contain('Notes &#38; more')
      expect(page.body).to.contain(`<title>${heading} – Notes &#38; more</title>`)
      expect(main.replace(small, '')).to.contain(next)
      expect(small).to.contain(code ?? '')
      expect(main.replace(small, '')).not.to.match(/[a-z]_[a-z]/)
    })

  it('the redirects of a sign-in have no body, are not stored, and send no referrer', async () => {
    const facade = await startFacade()
    const browser = new Browser()
    const followed: string[] = []
    /** Follows redirects up to a page. */
    const follow = async (page: Page): Promise<Page> => {
      if (page.status < 300 || page.status > 399 || page.url.startsWith(CALLBACK)) return page
      const [{ origin, pathname } = expect.fail()] = [new URL(browser.history.at(-1) ?? '')]
      if (origin === facade.origin && pathname.startsWith('/signin/')) {
        followed.push(pathname.replace(/[^/]{20,}/, 'id'))
        expect([page.status, page.body]).to.deep.equal([303, ''])
        expect(page.headers.get('cache-control')).to.equal('no-store')
        expect(page.headers.get('referrer-policy')).to.equal('no-referrer')
      }
      return await follow(await browser.open(page.url, () => true))
    }
    const client = await facade.register()
    const page = await follow(await browser.open(facade.authorizeUrl(client).href, () => true))
    const end = await follow(await browser.submit(page, 'allow', () => true))
    expect(end.url).to.contain(`${CALLBACK}?code=`)
    expect(followed).to.deep.equal(['/signin/id', '/signin/callback', '/signin/id/consent'])
  })

  it('the page for a denied account shows a reason of 300 characters as text', async () => {
    const facade = await startFacade({ allow: () => ({ deny: 'Use <b>your</b> account'.padEnd(300, '.') }) })
    const page = await request()(facade, new Browser())
    expect(page.body).to.match(/<p>Use &#60;b&#62;your&#60;\/b&#62; account\.{277}<\/p>/)
  })

  it('without page.title, pages show the host of url', async () => {
    const facade = await startFacade()
    const page = await new Browser().open(`${facade.issuer}/signin/unknown`)
    expect(page.body).to.contain(`<p class="brand"><bdi>${new URL(facade.issuer).host}</bdi></p>`)
  })

  it('the consent page names the account that allow has checked, by login and by address', async () => {
    const [, hub] = UPSTREAMS
    const upstream = hub?.create()
    const facade = await startFacade({}, upstream?.settings)
    const page = await new Browser().open(facade.authorizeUrl(await facade.register()).href, toClient)
    expect(page.body).to.contain('<dt>You are signed in as</dt><dd><bdi>ada (ada@example.com)</bdi>')
    await upstream?.close()
  })

  it('the consent page says that a loopback redirect URI leads to a program on this device', async () => {
    const facade = await startFacade()
    const callback = 'https://app.example.com/callback'
    const [local, remote] = [
      await facade.register(),
      await facade.register({ redirect_uris: [callback] }),
    ] as const
    const open = async (url: URL) => (await new Browser().open(url.href, toClient)).body
    const note = ' (a program on this device)</bdi>'
    expect(await open(facade.authorizeUrl(local))).to.contain(`<bdi>127.0.0.1:53682${note}`)
    expect(await open(facade.authorizeUrl(remote, { redirect_uri: callback })))
      .to.contain('<bdi>app.example.com</bdi>')
      .and.not.contain(note)
  })

  /** Follows the link to another account. */
  async function chooseAnother(page: Page, browser: Browser): Promise<Page> {
    const [, path = ''] = /href="([^"]+)">Use another account<\/a>/.exec(page.body) ?? []
    return await browser.open(new URL(path, page.url).href, toClient, {
      headers: { 'sec-fetch-site': 'same-origin' },
    })
  }

  for (const path of ['', '/auth'])
    it(`a user chooses another account on the consent page${path && ' below a path'}, and the tokens are for this one`, async () => {
      const asked: string[] = []
      const facade = await startFacade(
        {
          allow({ claims }) {
            asked.push(claims.sub)
            return true
          },
        },
        { path },
      )
      const client = await facade.register()
      const browser = new Browser()
      const first = await browser.open(facade.authorizeUrl(client).href, toClient)
      expect(facade.provider?.asked.get('prompt')).to.equal(null)
      facade.provider?.signInAs('grace')
      // The provider would sign the first user out with a script.
      browser.forget(/^_session/)
      const second = await chooseAnother(first, browser)
      expect(facade.provider?.asked.get('prompt')).to.equal('login')
      expect(asked).to.deep.equal(['ada', 'grace'])
      expect(second.body).to.contain('<bdi>grace</bdi>')
      const stale = await browser.submit(first, 'allow', toClient)
      expect([stale.status, stale.headers.get('location')]).to.deep.equal([400, null])
      const end = await browser.submit(second, 'allow', toClient)
      const { body } = await facade.token(codeGrant(client, new URL(end.url).searchParams.get('code')))
      const [, payload = ''] = String(body.access_token).split('.')
      expect(JSON.parse(Buffer.from(payload, 'base64url').toString()).sub).to.equal('oidc|grace')
    })

  it('GitHub is asked to let the user choose another account', async () => {
    const [, hub] = UPSTREAMS
    const upstream = hub?.create()
    const facade = await startFacade({}, upstream?.settings)
    const browser = new Browser()
    const page = await browser.open(facade.authorizeUrl(await facade.register()).href, toClient)
    expect((await chooseAnother(page, browser)).body).to.contain('Use another account')
    const visited = browser.history.filter((url) => url.includes('/login/oauth/authorize'))
    expect(visited.map((url) => new URL(url).searchParams.get('prompt'))).to.deep.equal([
      null,
      'select_account',
    ])
    await upstream?.close()
  })

  it('another site cannot restart a sign-in, and neither can another browser', async () => {
    const facade = await startFacade()
    const browser = new Browser()
    const page = await browser.open(facade.authorizeUrl(await facade.register()).href, toClient)
    const account = page.url.replace(/consent$/, 'account')
    for (const [visitor, site] of [
      [browser, 'cross-site'],
      [browser, 'same-site'],
      [new Browser(), 'same-origin'],
    ] as const) {
      const refused = await visitor.open(account, toClient, { headers: { 'sec-fetch-site': site } })
      expect(refused.status).to.equal(400)
    }
    const end = await browser.submit(page, 'allow', toClient)
    expect(new URL(end.url).searchParams.has('code')).to.equal(true)
  })
})
