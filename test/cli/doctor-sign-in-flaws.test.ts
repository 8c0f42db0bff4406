import { expect } from 'chai'
import { readableContext, statesDiffer } from '../../cli/doctor/checks/sign-in-flaws.ts'
import { CHECKS } from '../../cli/doctor/checks.ts'
import { startFacade } from '../support/authorization/facade.ts'
import { findingOf, look, problemsOf } from '../support/cli/doctor-target.ts'
import { Findings } from '../support/cli/recorded.ts'
import {
  CODE,
  examineSignIn,
  reportOfSignIn,
  type SignInRules,
  upstreamRequest,
  visitWithCode,
} from '../support/cli/sign-in-server.ts'

const FLAWS = CHECKS.map(({ id }) => id).filter((id) => id.startsWith('flaw.'))

/** Returns the redirect URI of a request with a code. */
const withCode = (request: URLSearchParams): string => `${request.get('redirect_uri')}?code=${CODE}`
const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
let requests = 0

/** The servers with a flaw, by the check of the flaw. */
const SERVERS: Readonly<Record<string, Readonly<Record<string, Partial<SignInRules>>>>> = {
  'flaw.registration': {
    'a server that registers every redirect URI': { registers: () => true },
    'a server that registers https addresses only': {},
    'a server that registers loopback addresses only': {
      registers: (uri) => uri.startsWith('http://127.0.0.1') || uri.startsWith('http://localhost'),
    },
  },
  'flaw.unknown-client': {
    'a server that starts a sign-in for every client_id': {
      knowsClient: () => true,
      allowsRedirect: () => true,
    },
    'a server that shows its sign-in page for every client_id': {
      knowsClient: () => true,
      allowsRedirect: () => true,
      answer: () => '<title>Sign in</title>',
    },
    'a server that shows errors on a page with the status 200': {
      answer: () => '<title>Sign in</title>',
      refusal: () => '<title>Error</title>',
    },
    'a server that sends every request to the sign-in of another host': {
      knowsClient: () => true,
      allowsRedirect: () => true,
      answer: (_request, host) => `${host}/login`,
    },
    'a server that sends errors to a page of another host': {
      answer: (_request, host) => `${host}/login`,
      refusal: () => 'http://127.0.0.1:9/error',
    },
    'a server that redirects to itself without an end': { answer: (request) => `/authorize?${request}` },
    'a server that responds with 429': { refusalStatus: 429 },
  },
  'flaw.consent': {
    'a server that refuses registered clients, too': { knowsClient: () => false },
    'a server that registers no client': { registers: () => false },
    'a server without dynamic registration': {
      metadata: (document) => delete document.registration_endpoint,
    },
    'a server that issues a code at once': { answer: withCode },
  },
  'flaw.upstream-pkce': {
    'a request to the identity provider without a code_challenge': {
      answer: (_request, provider) =>
        upstreamRequest(provider, { code_challenge: null, code_challenge_method: null }),
    },
    'a request to the identity provider with the method plain': {
      answer: (_request, provider) => upstreamRequest(provider, { code_challenge_method: null }),
    },
    'a request to the identity provider that was pushed': {
      answer: (_request, provider) =>
        upstreamRequest(provider, { code_challenge: null, request_uri: 'urn:example:1' }),
    },
  },
  'flaw.upstream-context': {
    'a state that contains the redirect URI of the client': {
      answer: (request, provider) =>
        upstreamRequest(provider, { state: base64({ to: request.get('redirect_uri'), at: Math.random() }) }),
    },
    'a server that signs users in on its own page': { answer: () => '<title>Sign in</title>' },
  },
  'flaw.pkce': {
    'a server that accepts a request without PKCE': { allowsPkce: () => true },
    'a server that accepts the method plain': { allowsPkce: (challenge) => challenge !== null },
    'metadata that contains plain': {
      metadata: (document) => (document.code_challenge_methods_supported = ['S256', 'plain']),
    },
    'an error that is sent to the registered redirect URI': {
      refusal: (request) => `${request.get('redirect_uri')}?error=invalid_request`,
    },
  },
  'flaw.redirect': {
    'a server that redirects unknown clients': {
      refusal: (request) => `${request.get('redirect_uri')}?error=invalid_client`,
    },
    'a server that compares the beginning of a redirect URI': {
      allowsRedirect: (uri, registered) =>
        registered.some((one) => uri.startsWith(one.replace(/:\d+.*/, '').replace(/\/callback$/, ''))),
    },
  },
  'flaw.upstream-state': {
    'a request to the identity provider without a state': {
      answer: (_request, provider) => upstreamRequest(provider, { state: null }),
    },
    'a state that is always the same': {
      answer: (_request, provider) => upstreamRequest(provider, { state: 'fixed' }),
    },
    'a state that counts': {
      answer: (_request, provider) =>
        upstreamRequest(provider, { state: `sign-in-${1_000_000 + requests++}` }),
    },
  },
}

describe('doctor, for the nine flaws of remote MCP servers,', () => {
  const recording = new Findings('sign-in-flaws')
  for (const [id, servers] of Object.entries(SERVERS))
    for (const [server, flaw] of Object.entries(servers)) {
      const name = `${server} (${id})`
      it(recording.titleOf(name), async () => recording.expect(name, await reportOfSignIn(flaw), [id]))
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
