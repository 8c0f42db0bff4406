import { expect } from 'chai'
import { readableContext, statesDiffer } from '../../cli/doctor/checks/sign-in-flaws.ts'
import { CHECKS } from '../../cli/doctor/checks.ts'
import { startFacade } from '../support/authorization/facade.ts'
import { findingOf, look, problemsOf } from '../support/cli/doctor-target.ts'
import {
  CODE,
  examineSignIn,
  type SignInRules,
  upstreamRequest,
  visitWithCode,
} from '../support/cli/sign-in-server.ts'

const FLAWS = CHECKS.map(({ id }) => id).filter((id) => id.startsWith('flaw.'))

/** Returns the redirect URI of a request with a code. */
const withCode = (request: URLSearchParams): string => `${request.get('redirect_uri')}?code=${CODE}`
const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
let requests = 0

interface Row {
  readonly what: string
  readonly flaw: Partial<SignInRules>
  /** The finding. `result` is `id: status`. */
  readonly finds: readonly [result: string, seen: RegExp, hint?: RegExp]
}

const ROWS: readonly Row[] = [
  {
    what: 'a server that registers every redirect URI',
    flaw: { registers: () => true },
    finds: [
      'flaw.registration: fail',
      /^anybody can register javascript:alert\(1\), data:text\/html.*, http:\/\/mcp-gatekit-doctor\.invalid/,
      /accept only https, http on loopback/,
    ],
  },
  {
    what: 'a server that registers https addresses only',
    flaw: {},
    finds: [
      'flaw.registration: ok',
      /anybody can register an https address, so the consent page must name its host$/,
    ],
  },
  {
    what: 'a server that registers loopback addresses only',
    flaw: { registers: (uri) => uri.startsWith('http://127.0.0.1') || uri.startsWith('http://localhost') },
    finds: ['flaw.registration: ok', /addresses of strangers are refused$/],
  },
  {
    what: 'a server that starts a sign-in for every client_id',
    flaw: { knowsClient: () => true, allowsRedirect: () => true },
    finds: [
      'flaw.unknown-client: fail',
      /^a client_id that does not exist is accepted$/,
      /not registered \(RFC 6749/,
    ],
  },
  {
    what: 'a server that shows its sign-in page for every client_id',
    flaw: { knowsClient: () => true, allowsRedirect: () => true, answer: () => '<title>Sign in</title>' },
    finds: [
      'flaw.unknown-client: warn',
      /^a client_id that does not exist gets the same page as a correct request$/,
      /before the sign-in$/,
    ],
  },
  {
    what: 'a server that shows errors on a page with the status 200',
    flaw: { answer: () => '<title>Sign in</title>', refusal: () => '<title>Error</title>' },
    finds: ['flaw.unknown-client: ok', /refused/],
  },
  {
    what: 'a server that sends every request to the sign-in of another host',
    flaw: {
      knowsClient: () => true,
      allowsRedirect: () => true,
      answer: (_request, host) => `${host}/login`,
    },
    finds: ['flaw.unknown-client: warn', /gets the same page as a correct request$/],
  },
  {
    what: 'a server that sends errors to a page of another host',
    flaw: { answer: (_request, host) => `${host}/login`, refusal: () => 'http://127.0.0.1:9/error' },
    finds: ['flaw.unknown-client: ok', /refused/],
  },
  {
    what: 'a server that redirects to itself without an end',
    flaw: { answer: (request) => `/authorize?${request}` },
    finds: ['flaw.unknown-client: ok', /refused/],
  },
  {
    what: 'a server that responds with 429',
    flaw: { refusalStatus: 429 },
    finds: ['flaw.unknown-client: skip', /responded with 429: run doctor again later$/],
  },
  {
    what: 'a server that refuses registered clients, too',
    flaw: { knowsClient: () => false },
    finds: ['flaw.consent: skip', /^the request of a registered client gets 400/],
  },
  {
    what: 'a server that registers no client',
    flaw: { registers: () => false },
    finds: ['flaw.consent: skip', /^doctor could not register a client: see issuer\.register$/],
  },
  {
    what: 'a server without dynamic registration',
    flaw: { metadata: (document) => delete document.registration_endpoint },
    finds: ['flaw.consent: skip', /does not support dynamic registration$/],
  },
  {
    what: 'a request to the identity provider without a code_challenge',
    flaw: {
      answer: (_request, provider) =>
        upstreamRequest(provider, { code_challenge: null, code_challenge_method: null }),
    },
    finds: [
      'flaw.upstream-pkce: warn',
      /^the request to 127\.0\.0\.1:\d+ has no code_challenge$/,
      /to the identity provider as well/,
    ],
  },
  {
    what: 'a request to the identity provider with the method plain',
    flaw: { answer: (_request, provider) => upstreamRequest(provider, { code_challenge_method: null }) },
    finds: ['flaw.upstream-pkce: warn', /has the method plain$/],
  },
  {
    what: 'a request to the identity provider that was pushed',
    flaw: {
      answer: (_request, provider) =>
        upstreamRequest(provider, { code_challenge: null, request_uri: 'urn:example:1' }),
    },
    finds: ['flaw.upstream-pkce: skip', /not visible$/],
  },
  {
    what: 'a state that contains the redirect URI of the client',
    flaw: {
      answer: (request, provider) =>
        upstreamRequest(provider, { state: base64({ to: request.get('redirect_uri'), at: Math.random() }) }),
    },
    finds: [
      'flaw.upstream-context: warn',
      /^anybody can read 127\.0\.0\.1:33418 in the state at 127/,
      /random state/,
    ],
  },
  {
    what: 'a server that signs users in on its own page',
    flaw: { answer: () => '<title>Sign in</title>' },
    finds: ['flaw.upstream-context: skip', /does not lead to another authorization server at once$/],
  },
  {
    what: 'a server that accepts a request without PKCE',
    flaw: { allowsPkce: () => true },
    finds: [
      'flaw.pkce: fail',
      /^a request without code_challenge is accepted; a request with the method plain is accepted$/,
      /RFC 9700 §2\.1\.1/,
    ],
  },
  {
    what: 'a server that accepts the method plain',
    flaw: { allowsPkce: (challenge) => challenge !== null },
    finds: ['flaw.pkce: fail', /^a request with the method plain is accepted$/],
  },
  {
    what: 'metadata that contains plain',
    flaw: { metadata: (document) => (document.code_challenge_methods_supported = ['S256', 'plain']) },
    finds: ['flaw.pkce: warn', /contains plain$/, /other than S256/],
  },
  {
    what: 'an error that is sent to the registered redirect URI',
    flaw: { refusal: (request) => `${request.get('redirect_uri')}?error=invalid_request` },
    finds: ['flaw.pkce: ok', /^only S256 is accepted$/],
  },
  {
    what: 'a server that issues a code at once',
    flaw: { answer: withCode },
    finds: [
      'flaw.consent: fail',
      /gets a code at once, without a sign-in and without a consent$/,
      /names the client and the host/,
    ],
  },
  {
    what: 'a server that redirects unknown clients',
    flaw: { refusal: (request) => `${request.get('redirect_uri')}?error=invalid_client` },
    finds: [
      'flaw.redirect: fail',
      /^an unknown client is redirected to an address of its choice$/,
      /compare the whole string/,
    ],
  },
  {
    what: 'a server that compares the beginning of a redirect URI',
    flaw: {
      allowsRedirect: (uri, registered) =>
        registered.some((one) => uri.startsWith(one.replace(/:\d+.*/, '').replace(/\/callback$/, ''))),
    },
    finds: [
      'flaw.redirect: fail',
      /^http:\/\/127\.0\.0\.1\.mcp-gatekit-doctor\.invalid:33418\/callback is accepted; .*\/callback\/other is accepted$/,
    ],
  },
  {
    what: 'a request to the identity provider without a state',
    flaw: { answer: (_request, provider) => upstreamRequest(provider, { state: null }) },
    finds: ['flaw.upstream-state: fail', /has no state$/, /128 random bits/],
  },
  {
    what: 'a state that is always the same',
    flaw: { answer: (_request, provider) => upstreamRequest(provider, { state: 'fixed' }) },
    finds: ['flaw.upstream-state: fail', /^each request to 127\.0\.0\.1:\d+ has the same state$/],
  },
  {
    what: 'a state that counts',
    flaw: {
      answer: (_request, provider) =>
        upstreamRequest(provider, { state: `sign-in-${1_000_000 + requests++}` }),
    },
    finds: ['flaw.upstream-state: fail', /^the states of two sign-ins differ in a few characters only$/],
  },
]

describe('doctor, for the nine flaws of remote MCP servers,', () => {
  for (const { what, flaw, finds } of ROWS) {
    const [result, seen, hint] = finds
    it(`reports "${result}" for ${what}`, async () => {
      const id = result.replace(/:.*/, '')
      const finding = (await examineSignIn(flaw))(id)
      expect(finding.seen).to.match(seen)
      expect(`${id}: ${finding.status}`).to.equal(result)
      if (hint !== undefined) expect(finding.hint).to.match(hint)
    })
  }

  it('no check of a flaw reports a problem for an authorization server without flaws', async () => {
    const finding = await examineSignIn({})
    for (const id of FLAWS)
      expect(finding(id), id).to.include({ status: id === 'flaw.code-replay' ? 'skip' : 'ok' })
  })

  it('without --register, no client is registered, and the checks that need one are skipped', async () => {
    const registered: string[] = []
    const registers = (uri: string) => registered.push(uri) > 0
    const finding = await examineSignIn({ registers }, {})
    // Another check sends a registration without a body, which a page would.
    expect(registered.filter((uri) => uri !== '')).to.deep.equal([])
    expect(finding('flaw.pkce')).to.include({
      status: 'skip',
      seen: 'only with --register, because it registers clients',
    })
    expect(finding('flaw.unknown-client')).to.include({ status: 'ok' })
    expect(finding('flaw.redirect')).to.include({ status: 'ok' })
  })

  it('without --register, a page for an unknown client is neither called an error nor a sign-in', async () => {
    const page = () => '<title>Sign in</title>'
    const finding = await examineSignIn({ refusal: page, answer: page }, {})
    expect(finding('flaw.unknown-client')).to.include({ status: 'skip' })
  })

  for (const [what, exchange, status, seen] of [
    ['a server that exchanges a code twice', () => 200, 'fail', /^200 for a code that was used before$/],
    [
      'a server that exchanges a code once',
      (before: number) => (before === 0 ? 200 : 400),
      'ok',
      /^400 for a code that was used before$/,
    ],
    ['a sign-in that failed', () => 400, 'skip', /^see token\.login$/],
  ] as const) {
    it(`flaw.code-replay is "${status}" for ${what}`, async () => {
      const visits: Promise<void>[] = []
      const login = { redirectPort: 0, clientId: 'doctor' }
      const print = (text: string) => visits.push(visitWithCode(text))
      const finding = await examineSignIn({ exchange }, { login, print })
      await Promise.all(visits)
      expect(finding('flaw.code-replay')).to.include({ status })
      expect(finding('flaw.code-replay').seen).to.match(seen)
      if (status === 'fail') expect(finding('flaw.code-replay').hint).to.match(/RFC 6749 §4\.1\.2/)
    })
  }

  it('the authorization facade passes every check of a flaw', async () => {
    const facade = await startFacade()
    try {
      const report = await look(new URL(facade.resource), { register: true })
      for (const id of FLAWS)
        expect(findingOf(report, id), id).to.include({ status: id === 'flaw.code-replay' ? 'skip' : 'ok' })
      expect(problemsOf(report).filter((problem) => problem.endsWith('fail'))).to.deep.equal([])
    } finally {
      await facade.close()
    }
  })
})

describe('the state at an identity provider', () => {
  for (const [what, state] of [
    ['plain text', 'to=http%3A%2F%2F127.0.0.1%3A33418'],
    ['Base64', Buffer.from('127.0.0.1:33418').toString('base64')],
    ['Base64 of percent-encoded text', Buffer.from('127.0.0.1%3A33418').toString('base64url')],
  ] as const)
    it(`an address in ${what} is readable`, () => {
      expect(readableContext(state, ['127.0.0.1:33418'])).to.equal('127.0.0.1:33418')
    })

  for (const [what, state] of [
    ['a random state', 'q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ'],
    ['a signed state', `${base64({ to: '127.0.0.1:33418' })}.q83vEjRWeJCrze8SNFZ4kA`],
    ['text that is not valid percent-encoding', '%E0%A4%A'],
  ] as const)
    it(`an address in ${what} is not readable`, () => {
      expect(readableContext(state, ['127.0.0.1:33418'])).to.equal(undefined)
    })

  it('random states of 64 bits differ, and times do not', () => {
    expect(statesDiffer('0f1e2d3c4b5a6978', 'a1b2c3d4e5f60718')).to.equal(true)
    expect(statesDiffer('1764169200123', '1764169200456')).to.equal(false)
  })
})
