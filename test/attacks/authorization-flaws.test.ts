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
 * Those of the nine flaws of servers with OAuth in "A First Measurement Study on Authentication Security in Real-World Remote MCP
 * Servers" (arXiv 2605.22333, table 5) that `authorization.test.ts` does not attack, against a facade with its defaults.
 */
describe('flaws of remote MCP servers at the authorization facade', () => {
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

  attackTable('authorization: flaws of remote MCP servers', [
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
  ])
})
