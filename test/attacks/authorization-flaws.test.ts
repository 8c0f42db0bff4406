import { expect } from 'chai'
import { attackTable } from '../support/attacks/attack-table.ts'
import { Browser, type Page } from '../support/authorization/browser.ts'
import {
  CALLBACK,
  codeGrant,
  type RegisteredClient,
  startFacade,
  type TestFacade,
  toClient,
} from '../support/authorization/facade.ts'

const STRANGER = 'https://evil.example.com/cb'

/** Redirect URIs that lead to another address than the registered one. */
const MUTATIONS: readonly string[] = [
  STRANGER,
  `${CALLBACK}/../other`,
  `${CALLBACK}?next=${STRANGER}`,
  `${CALLBACK}#${STRANGER}`,
  CALLBACK.replace('127.0.0.1', '127.0.0.1.evil.example.com'),
  CALLBACK.replace('127.0.0.1', '127.0.0.1@evil.example.com'),
  '//evil.example.com/cb',
]

/**
 * The nine flaws of servers with OAuth in "A First Measurement Study on Authentication Security in Real-World Remote MCP Servers"
 * (arXiv 2605.22333, table 5), against a facade with its defaults.
 */
describe('the nine flaws of remote MCP servers at the authorization facade', () => {
  let facade: TestFacade
  let client: RegisteredClient
  let browser: Browser
  beforeEach(async () => {
    facade = await startFacade()
    client = await facade.register()
    browser = new Browser()
  })
  afterEach(() => facade.close())

  const isClient = (url: string): boolean => toClient(url) || url.startsWith(STRANGER)
  const open = (changes: Record<string, string | undefined> = {}, of = client): Promise<Page> =>
    browser.open(facade.authorizeUrl(of, changes).href, isClient)
  function isRefused({ status, headers, url }: Page): void {
    expect([status, headers.get('location')], url).to.deep.equal([400, null])
  }
  /** The error that a loopback client gets, without a sign-in. */
  function errorAt({ url }: Page): string | null {
    return new URL(url).searchParams.get('error')
  }

  attackTable('authorization: nine flaws of remote MCP servers', [
    {
      attack:
        'F1: a client registers a redirect URI that runs code, has no TLS, or does something in another program',
      outcome: '400, and no client',
      run: async () => {
        for (const uri of [
          'javascript:alert(1)',
          'data:text/html,x',
          'http://evil.example.com/cb',
          'https://a:b@evil.example.com/cb',
          'vscode://evil.extension/cb',
          'cursor://anysphere.cursor-mcp.evil/cb',
        ]) {
          const refused = await facade.register({ redirect_uris: [uri] })
          expect(refused, uri).to.not.have.property('client_id')
        }
      },
    },
    {
      attack: 'F1: a stranger registers an https redirect URI with the name of a known client',
      outcome: 'the consent page names the host, and says that the client chose its name',
      run: async () => {
        const evil = await facade.register({ client_name: 'Claude', redirect_uris: [STRANGER] })
        const page = await open({ redirect_uri: STRANGER }, evil)
        expect(page.body).to.contain('<bdi>evil.example.com</bdi>')
        expect(page.body).to.contain('The application chose its name itself.')
      },
    },
    {
      attack: 'F2: a request with the id of a client that never registered',
      outcome: 'a page with 400',
      run: async () => isRefused(await open({}, { client_id: 'evil_client_id' })),
    },
    {
      attack: 'F3: the request to the identity provider has no PKCE',
      outcome: 'S256, with another challenge than that of the client',
      run: async () => {
        await open()
        const { asked } = facade.provider as NonNullable<TestFacade['provider']>
        expect(asked.get('code_challenge_method')).to.equal('S256')
        expect(asked.get('code_challenge')).to.match(/^[\w-]{43}$/)
        expect(asked.get('code_challenge')).not.to.equal(
          facade.authorizeUrl(client).searchParams.get('code_challenge'),
        )
      },
    },
    {
      attack: 'F4: the state at the identity provider carries an address, which an attacker changes',
      outcome: 'the state is random, and a changed one is refused',
      run: async () => {
        const stops = (url: string) => url.includes('/signin/callback')
        const { url } = await browser.open(facade.authorizeUrl(client).href, stops)
        const callback = new URL(url)
        const state = String(callback.searchParams.get('state'))
        expect(Buffer.from(state, 'base64url').toString('latin1')).not.to.match(/http|127|callback/)
        expect(facade.provider?.asked.get('redirect_uri')).to.equal(`${facade.issuer}/signin/callback`)
        const address = Buffer.from(JSON.stringify({ redirect_uri: STRANGER })).toString('base64url')
        for (const changed of [`${state}x`, address, `${state}.${address}`]) {
          callback.searchParams.set('state', changed)
          isRefused(await browser.open(callback.href, isClient))
        }
      },
    },
    {
      attack: 'F5: PKCE is left out, or has the method plain, at the authorization or the token endpoint',
      outcome: 'invalid_request, and invalid_grant',
      run: async () => {
        const without = { code_challenge: undefined, code_challenge_method: undefined }
        for (const changes of [without, { code_challenge_method: 'plain' }, { code_challenge_method: '' }])
          expect(errorAt(await open(changes))).to.equal('invalid_request')
        const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
        const { code_verifier: _verifier, ...grant } = codeGrant(client, code)
        expect((await facade.token(grant)).body.error).to.equal('invalid_grant')
      },
    },
    {
      attack:
        'F6: the consent page is left out: a second sign-in, prompt=none, a link into the middle, and a form without its token',
      outcome: 'no code',
      run: async () => {
        await facade.signIn(facade.authorizeUrl(client), browser)
        const second = await open()
        expect(second.body).to.contain('value="allow"').and.contain('127.0.0.1:53682')
        expect(errorAt(await open({ prompt: 'none' }))).to.equal('login_required')
        const [, uid = ''] = /\/signin\/([\w-]+)\/consent/.exec(second.url) ?? []
        const middle = await browser.open(`${facade.issuer}/authorize/${uid}`, isClient)
        expect(toClient(middle.url), middle.url).to.equal(false)
        const forged = await browser.open(second.url, isClient, {
          method: 'POST',
          body: new URLSearchParams({ decision: 'allow' }),
        })
        isRefused(forged)
      },
    },
    {
      attack: 'F7: the redirect URI of a request is changed',
      outcome: 'a page with 400',
      run: async () => {
        for (const uri of MUTATIONS) isRefused(await open({ redirect_uri: uri }))
      },
    },
    {
      attack: 'F8: the state at the identity provider can be guessed, or belongs to another browser',
      outcome: 'at least 256 random bits, and a page with 400',
      run: async () => {
        const states: string[] = []
        const stops = (url: string) => url.includes('/signin/callback')
        let callback = ''
        for (let times = 0; times < 3; times++) {
          callback = (await new Browser().open(facade.authorizeUrl(client).href, stops)).url
          states.push(String(new URL(callback).searchParams.get('state')))
        }
        expect(new Set(states)).to.have.length(3)
        for (const state of states) expect(Buffer.from(state, 'base64url').length).to.be.at.least(32)
        isRefused(await browser.open(callback, isClient))
      },
    },
    {
      attack: 'F9: a code is used again',
      outcome: 'invalid_grant, and the refresh token of the first use is dead',
      run: async () => {
        const grant = codeGrant(client, (await facade.signIn(facade.authorizeUrl(client))).get('code'))
        const first = await facade.token(grant)
        expect(first.status).to.equal(200)
        expect((await facade.token(grant)).body.error).to.equal('invalid_grant')
        const refresh = { grant_type: 'refresh_token', client_id: client.client_id }
        const after = await facade.token({ ...refresh, refresh_token: first.body.refresh_token })
        expect(after.body.error).to.equal('invalid_grant')
      },
    },
  ])
})
