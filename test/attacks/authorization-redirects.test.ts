import { expect } from 'chai'
import { type AuthorizationFacadeOptions, memoryStore } from '../../src/authorization/index.ts'
import { Browser, type Page } from '../support/authorization/browser.ts'
import { CALLBACK, codeGrant, startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { interruptedStore } from '../support/authorization/interrupted-store.ts'

const HTTPS = 'https://evil.example.com/cb'
const PRIVATE = 'cursor://anysphere.cursor-mcp/oauth/callback'
const KNOWN = 'https://desk.example.com/cb'

/** The clients of the table, by the kind of their redirect URI. */
const CLIENTS = { https: HTTPS, private: PRIVATE, loopback: CALLBACK, static: KNOWN } as const

type Kind = keyof typeof CLIENTS

/** The ways in which a request fails, with the kinds of clients that get the error by a redirect. */
const FAILURES: Readonly<
  Record<
    string,
    {
      readonly error: string
      readonly redirected: readonly Kind[]
      readonly status?: number
      readonly options?: Partial<AuthorizationFacadeOptions>
      readonly changes?: Record<string, string | undefined>
      readonly decision?: string
      readonly isDown?: boolean
    }
  >
> = {
  'no interaction is allowed': {
    error: 'login_required',
    redirected: ['loopback', 'static'],
    changes: { prompt: 'none' },
  },
  'no requested scope is known': {
    error: 'invalid_scope',
    redirected: ['loopback', 'static'],
    changes: { scope: 'unknown' },
  },
  'the provider is down': {
    error: 'temporarily_unavailable',
    status: 503,
    redirected: ['loopback', 'static'],
    isDown: true,
  },
  'allow denies the account': {
    error: 'access_denied',
    redirected: ['private', 'loopback', 'static'],
    options: { allow: () => false },
  },
  'grantScopes grants no scope': {
    error: 'invalid_scope',
    redirected: ['private', 'loopback', 'static'],
    options: { grantScopes: () => [] },
  },
  'allow throws': {
    error: 'temporarily_unavailable',
    status: 503,
    redirected: ['private', 'loopback', 'static'],
    options: {
      allow: () => {
        throw new Error('down')
      },
    },
  },
  'the user denies': {
    error: 'access_denied',
    redirected: ['https', 'private', 'loopback', 'static'],
    decision: 'deny',
  },
}

describe('attacks on the redirects of the authorization facade', () => {
  async function start(options: Partial<AuthorizationFacadeOptions> = {}): Promise<TestFacade> {
    return await startFacade({
      clients: { static: [{ clientId: 'desk', redirectUris: [KNOWN] }] },
      ...options,
    })
  }
  const isClient = (url: string): boolean => Object.values(CLIENTS).some((uri) => url.startsWith(uri))
  async function clientOf(facade: TestFacade, kind: Kind): Promise<{ client_id: string }> {
    return kind === 'static'
      ? { client_id: 'desk' }
      : await facade.register({ redirect_uris: [CLIENTS[kind]] })
  }
  function isErrorPage(page: Page, error: string, status: number): void {
    expect([page.status, page.headers.get('location')], page.url).to.deep.equal([status, null])
    expect(page.headers.get('content-type')).to.contain('text/html')
    expect(page.body).to.contain(error)
    expect(page.headers.get('retry-after')).to.equal(status === 503 ? '5' : null)
  }

  for (const [
    what,
    { error, redirected, status = 400, options, changes, decision, isDown = false },
  ] of Object.entries(FAILURES))
    for (const [kind, uri] of Object.entries(CLIENTS)) {
      const isRedirected = redirected.includes(kind as Kind)
      it(`redirects: a link that leads users to an address that a stranger has chosen: a request of a ${kind} client fails because ${what}: ${isRedirected ? `the client gets ${error}` : `an HTML page with ${status}`}`, async () => {
        const facade = await start(options)
        const client = await clientOf(facade, kind as Kind)
        if (isDown) await facade.provider?.close()
        const browser = new Browser()
        const url = facade.authorizeUrl(client, { redirect_uri: uri, ...changes })
        const page = await browser.open(url.href, isClient)
        const end = decision === undefined ? page : await browser.submit(page, decision, isClient)
        if (!isRedirected) return isErrorPage(end, error, status)
        expect(end.url.startsWith(uri), `${end.status} ${end.url}`).to.equal(true)
        expect(new URL(end.url).searchParams.get('error')).to.equal(error)
      })
    }

  it('redirects: other ways: a redirect URI of a stranger has the parameters code and error itself: errors are shown on a page, and codes are sent', async () => {
    const facade = await start()
    const uri = `${HTTPS}?code=x&error=y`
    const client = await facade.register({ redirect_uris: [uri] })
    const url = (changes: object): string =>
      facade.authorizeUrl(client, { redirect_uri: uri, ...changes }).href
    isErrorPage(await new Browser().open(url({ prompt: 'none' }), isClient), 'login_required', 400)
    const browser = new Browser()
    const page = await browser.submit(await browser.open(url({}), isClient), 'allow', isClient)
    const codes = new URL(page.url).searchParams.getAll('code')
    const { status } = await facade.token({
      ...codeGrant(client, String(codes.at(-1))),
      redirect_uri: uri,
    })
    expect(status).to.equal(200)
  })

  it('redirects: other ways: the store fails when the response is made for an https client of a stranger: a page with 503, and the same address gives a code afterwards', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await start({ store })
    const client = await facade.register({ redirect_uris: [HTTPS] })
    const browser = new Browser()
    const page = await browser.open(facade.authorizeUrl(client, { redirect_uri: HTTPS }).href, isClient)
    const isResponse = (url: string): boolean => url.startsWith(`${facade.issuer}/authorize/`)
    const { url } = await browser.submit(page, 'allow', isResponse)
    const set = store.set
    store.set = async (key, ...rest) => {
      if (key.startsWith('AuthorizationCode:')) throw new Error('down')
      await set(key, ...rest)
    }
    isErrorPage(await browser.open(url, isClient), 'temporarily_unavailable', 503)
    store.set = set
    const end = await browser.open(url, isClient)
    expect(new URL(end.url).searchParams.get('code')).to.be.a('string')
  })

  for (const [uri, isAccepted] of [
    ['vscode://vscode.git/clone?url=https://evil.example.com', false],
    ['vscode://saoudrizwan.claude-dev/task?prompt=evil', false],
    ['vscode://saoudrizwan.claude-dev/mcp-auth/../task', false],
    ['vscode://saoudrizwan.claude-dev/mcp-auth/%2e%2e/task', false],
    ['vscode://saoudrizwan.claude-dev.evil/mcp-auth/callback', false],
    ['cursor://anysphere.cursor-deeplink/mcp/install?name=evil', false],
    ['cursor://anysphere.cursor-mcp.evil/oauth/callback', false],
    ['cursor://anysphere.cursor-mcp:1/oauth/callback', false],
    ['goose://extension?cmd=npx', false],
    ['warp://action/new_tab', false],
    ['raycast://extensions/evil', false],
    ['raycast://oauthevil?package_name=x', false],
    ['com.raycast:/other', false],
    [PRIVATE, true],
    ['vscode://saoudrizwan.claude-dev/mcp-auth/callback/0a1b', true],
    ['vscode-insiders://saoudrizwan.claude-dev/mcp-auth/callback/0a1b', true],
    ['warp://mcp/oauth2callback', true],
    ['raycast://oauth?package_name=notes', true],
    ['com.raycast:/oauth?package_name=notes', true],
  ] as const)
    it(`redirects: other ways: a client registers ${uri}: ${isAccepted ? 'accepted, because a known client uses it' : 'invalid_redirect_uri'}`, async () => {
      const facade = await start()
      const { error } = await facade.register({ redirect_uris: [uri] })
      expect(error).to.equal(isAccepted ? undefined : 'invalid_redirect_uri')
    })

  it('redirects: other ways: a client registers while clients.redirectUris returns a promise: invalid_redirect_uri, and a rejection does not end the process', async () => {
    const rejections: unknown[] = []
    const listener = (reason: unknown): void => void rejections.push(reason)
    process.on('unhandledRejection', listener)
    for (const decided of [Promise.resolve(true), () => Promise.reject(new Error('down'))]) {
      const redirectUris = (): boolean => (typeof decided === 'function' ? decided() : decided) as never
      const facade = await start({ clients: { redirectUris } })
      expect((await facade.register()).error).to.equal('invalid_redirect_uri')
    }
    process.off('unhandledRejection', listener)
    expect(rejections).to.deep.equal([])
  })

  it('redirects: other ways: a request to every endpoint that the metadata announces: the facade responds, and no endpoint for pushed requests is announced', async () => {
    const facade = await start()
    const response = await fetch(`${facade.issuer}/.well-known/oauth-authorization-server`)
    const metadata = (await response.json()) as Record<string, unknown>
    const names = Object.keys(metadata).filter((name) => /_endpoint$|_uri$/.test(name))
    expect(names.sort()).to.deep.equal([
      'authorization_endpoint',
      'jwks_uri',
      'registration_endpoint',
      'revocation_endpoint',
      'token_endpoint',
    ])
    for (const name of names) {
      const method = /authorization|jwks/.test(name) ? 'GET' : 'POST'
      const { status } = await fetch(String(metadata[name]), { method, redirect: 'manual' })
      expect(status, name).not.to.equal(404)
    }
  })

  it('redirects: other ways: fifty requests with unknown scopes, without PKCE, or with another resource: nothing is stored', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await start({ store })
    const client = await facade.register()
    store.interrupt()
    for (const changes of [
      { scope: 'unknown' },
      { scope: 'openid' },
      { scope: 'unknown', resource: undefined },
      { code_challenge: undefined },
      { resource: 'https://other.example.com' },
    ])
      for (let index = 0; index < 10; index++)
        await new Browser().open(facade.authorizeUrl(client, changes).href, isClient)
    expect(store.commands.filter((command) => !command.startsWith('get '))).to.deep.equal([])
  })

  it('redirects: other ways: a client id that is a URL without a path names a metadata document: an HTML page with 400, and the document is not fetched', async () => {
    const facade = await start()
    for (const id of ['https://example.com', 'https://example.com/', 'https://example.com?a=/b']) {
      const page = await new Browser().open(facade.authorizeUrl({ client_id: id }).href, isClient)
      isErrorPage(page, 'not allowed', 400)
    }
  })
})
