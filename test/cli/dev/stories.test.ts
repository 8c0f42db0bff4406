import { expect } from 'chai'
import type { ConsoleEvent } from '../../../cli/dev/events/event.ts'
import { storyHtml } from '../../../cli/dev/events/lines.ts'
import type { Expected } from '../../../cli/dev/events/row.ts'
import { eventRow } from '../../../cli/dev/events/row.ts'
import { nextStep } from '../../../cli/dev/events/stages.ts'
import { MAX_STEPS, MAX_STORIES, Stories, type Story } from '../../../cli/dev/events/stories.ts'
import { Summary } from '../../../cli/dev/events/summary.ts'
import { Recording } from '../../support/cli/recording.ts'

const ISSUER = 'http://127.0.0.1:4984'
const CHALLENGE = 'Bearer error="invalid_token", resource_metadata="http://127.0.0.1:3000/.well-known/x"'
const NODE = { 'client.address': '127.0.0.1', 'user_agent.original': 'node' }
const PAGE = {
  'client.address': '127.0.0.1',
  'user_agent.original': 'Mozilla/5.0 x',
  origin: 'http://localhost:5173',
}

let number = 0
function event(name: string, attributes: object, more: Partial<ConsoleEvent> = {}): ConsoleEvent {
  number++
  const time = new Date(Date.UTC(2026, 10, 20) + number * 1000).toISOString()
  return {
    name,
    time,
    level: 'info',
    sessionId: `s-${number}`,
    attributes: { ...attributes },
    ...more,
  }
}

/** A request to the server. */
const asked = (path: string, status: number, more: object = {}, request?: ConsoleEvent['request']) =>
  event(
    'dev.request',
    {
      ...NODE,
      'http.request.method': 'POST',
      'url.path': path,
      'http.response.status_code': status,
      ...more,
    },
    request && { request },
  )
const signIn = (name: string, more: object = {}) => event(`kit.authorization.${name}`, { ...NODE, ...more })

const first = () => asked('/mcp', 401, { challenge: CHALLENGE })
const metadata = () => asked('/.well-known/oauth-protected-resource/mcp', 200)
const issuerMetadata = (more: object = {}) =>
  asked('/.well-known/oauth-authorization-server', 200, { server: 'authorization', ...more })
const registered = (client = 'c1') => signIn('client.registered', { client: client, client_name: 'A client' })
const shown = (client = 'c1') =>
  event('kit.authorization.consent.shown', { ...PAGE, client: client, scopes: 'mcp:read' })
const given = (client = 'c1') =>
  event('kit.authorization.consent.given', { ...PAGE, client: client, scopes: 'mcp:read', subject: 'ada' })
const issued = (client = 'c1', token = 't1') =>
  signIn('token.issued', { client: client, token, scopes: 'mcp:read' })
const called = (token = 't1') => asked('/mcp', 200, { token })

const WHOLE = () => [
  first(),
  metadata(),
  issuerMetadata(),
  registered(),
  shown(),
  given(),
  issued(),
  called(),
]

let expected: Expected = {}
function storiesOf(...events: readonly ConsoleEvent[]): readonly Story[] {
  const stories = new Stories(ISSUER)
  events.forEach((one, index) => void stories.add(eventRow(index + 1, one, expected), expected))
  return stories.all
}

/** Returns every order in which two lists of events can arrive, each of which arrives in its own order. */
function ordersOf<Type>(one: readonly Type[], other: readonly Type[]): readonly (readonly Type[])[] {
  const [[a, ...restOfOne], [b, ...restOfOther]] = [one, other]
  if (a === undefined || b === undefined) return [[...one, ...other]]
  return [
    ...ordersOf(restOfOne, other).map((rest) => [a, ...rest]),
    ...ordersOf(one, restOfOther).map((rest) => [b, ...rest]),
  ]
}

/**
 * Expects the same story for each order in which the requests to the server and the other events can arrive. Requests to the
 * authorization server arrive after the first request of their client.
 */
function expectSameStory(events: readonly ConsoleEvent[]): void {
  const isRequest = ({ name, attributes }: ConsoleEvent): boolean =>
    name === 'dev.request' && attributes?.server === undefined
  const plain = (stories: readonly Story[]) =>
    stories.map(({ steps, id, ...story }) => ({
      ...story,
      steps: steps.map(({ word, title, count }) => `${word} ${title} ${count}`),
    }))
  const expected = plain([only(storiesOf(...events))])
  const orders = ordersOf(
    events.filter(isRequest),
    events.filter((one) => !isRequest(one)),
  ).filter(([one]) => one?.attributes?.server === undefined)
  expect(orders).to.have.length.above(2)
  for (const order of orders)
    expect(plain(storiesOf(...order)), order.map(({ name }) => name).join()).to.deep.equal(expected)
}

const only = (stories: readonly Story[]): Story => {
  expect(stories).to.have.length(1)
  return stories[0] as Story
}

describe('Stories', () => {
  it('stories accept attributes that are objects which cannot be converted to strings or numbers', () => {
    const odd = { toString: null }
    const keys = [
      'client.address',
      'user_agent.original',
      'origin',
      'host',
      'token',
      'mcp.session.id',
      'challenge',
    ]
    const more = [
      'url.path',
      'http.response.status_code',
      'http.request.method',
      'client',
      'subject',
      'scopes',
    ]
    const all = Object.fromEntries([...keys, ...more].map((key) => [key, odd]))
    for (const attributes of [
      all,
      { ...all, preflight: true },
      { ...all, 'url.path': '/mcp', 'http.response.status_code': 401 },
      { ...all, 'url.path': '/mcp', 'http.response.status_code': 401, token: undefined },
    ]) {
      const names = ['dev.request', 'kit.authorization.token.issued', 'kit.authorization.consent.shown']
      for (const story of storiesOf(...names.map((name) => event(name, attributes)))) {
        expect(story.name).to.be.a('string')
        nextStep(story.stage, attributes, ISSUER)
      }
    }
  })

  it('a sign-in and the calls after it are one story', () => {
    const { name, user, stage, next, steps } = only(storiesOf(...WHOLE(), called()))
    expect({ name, user, stage, next }).to.deep.equal({
      name: 'A client',
      user: 'ada',
      stage: 'called',
      next: undefined,
    })
    expect(steps.map(({ word, count }) => `${word} ${count}`)).to.deep.equal([
      '401 1',
      'metadata 1',
      'metadata 1',
      'registered 1',
      'sign-in page 1',
      'allowed 1',
      'token 1',
      'call 2',
    ])
  })

  it('a story has the time of its beginning, its state, and all members of its steps', () => {
    const events = [
      asked('/mcp', 401, { challenge: 'Bearer error_description="No token"' }),
      asked('/mcp', 401, { challenge: 'Bearer error_description="No more"', token: 't1' }),
    ] as const
    const [{ time: begun }, { time: refused }] = events
    const step = { count: 1, facts: [], hint: undefined, word: '401' }
    const { id, startedAt, name, user, state, tone, dropped, steps } = only(storiesOf(...events))
    expect({ id, startedAt, name, user, state, tone, dropped }).to.deep.equal({
      id: 1,
      startedAt: begun,
      name: 'node',
      user: undefined,
      state: 'token refused',
      tone: 'bad',
      dropped: 0,
    })
    expect(steps).to.deep.equal([
      { ...step, number: 1, time: begun, title: 'No token', tone: 'plain' },
      { ...step, number: 2, time: refused, title: 'No more', tone: 'bad' },
    ])
  })

  it('a story has the user of the latest telemetry event that names one', () => {
    const request = { id: 'r' }
    const wire = () => asked('/mcp', 200, { token: 't' }, request)
    const by = (actor?: ConsoleEvent['actor']) =>
      event('kit.mcp.auth.accepted', {}, { request, ...(actor && { actor }) })
    expect(only(storiesOf(wire(), by({ type: 'user', id: 'ada' }))).user).to.equal('ada')
    expect(only(storiesOf(wire(), by({ type: 'user', id: 'ada' }), by())).user).to.equal('ada')
  })

  for (const [what, names, expectedTitle] of [
    ['an operation', ['kit.mcp.auth.accepted'], 'tools/call search'],
    ['the end of a request', ['kit.mcp.request.completed'], 'tools/call search → '],
    [
      'a refusal before the operation',
      ['kit.mcp.auth.refused', 'kit.mcp.auth.accepted'],
      'expired: the access token has expired',
    ],
    ['a tool that failed', ['kit.mcp.tool.failed', 'kit.mcp.auth.accepted'], 'search'],
  ] as const)
    it(`the step of a request with ${what} is called "${expectedTitle}"`, () => {
      const request = { id: 'r' }
      const call = { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'search', reason: 'expired' }
      const { steps } = only(
        storiesOf(
          asked('/mcp', 200, { token: 't' }, request),
          ...names.map((name) => event(name, call, { request })),
        ),
      )
      expect(steps.map(({ title }) => title)).to.deep.equal([expectedTitle])
    })

  it('steps that telemetry makes equal become one step', () => {
    const pair = (id: string) => [
      asked(`/${id}`, 200, { token: 't' }, { id }),
      event('kit.mcp.auth.accepted', { 'mcp.method.name': 'ping' }, { request: { id } }),
    ]
    const { steps } = only(storiesOf(...pair('a'), ...pair('b'), ...pair('c')))
    expect(steps.map(({ title, count }) => `${title} ${count}`)).to.deep.equal(['ping 3'])
  })

  const recording = new Recording('stories')
  /** Tests that a story has the recorded state, latest step, and next step. */
  const itIsRecorded = (what: string, events: () => readonly ConsoleEvent[]) =>
    it(`the story of ${what} says what happened and names the next step`, () => {
      const { stage, next, steps } = only(storiesOf(...events()))
      const { word, title } = steps.at(-1) ?? {}
      recording.compare(what, [stage, `${word}: ${title}`, next].filter(Boolean).join('\n'))
    })

  WHOLE().forEach(({ name }, index) => {
    itIsRecorded(`a sign-in up to event ${index + 1}, ${name}`, () => WHOLE().slice(0, index + 1))
  })
  for (const [what, last] of [
    ['a denied consent', () => signIn('consent.denied', { client: 'c1' })],
    ['a refused registration', () => signIn('client.refused', { reason: 'invalid_redirect_uri' })],
    [
      'a refused authorization request',
      () => signIn('request.refused', { client: 'c1', reason: 'invalid_target' }),
    ],
    ['a refused token request', () => signIn('token.refused', { client: 'c1', reason: 'invalid_grant' })],
    ['a forbidden origin', () => asked('/mcp', 403, { host: 'a' })],
    ['a forbidden preflight', () => asked('/mcp', 403, { preflight: true })],
    ['missing metadata', () => asked('/.well-known/oauth-protected-resource', 404)],
    [
      'missing scopes',
      () => asked('/mcp', 403, { challenge: 'Bearer error="insufficient_scope", scope="a b"', token: 't' }),
    ],
    ['a refused token', () => asked('/mcp', 401, { challenge: CHALLENGE, token: 't' })],
  ] as const)
    itIsRecorded(what, () => [first(), registered(), last()])

  it('telemetry events become part of the step of their request, in either order', () => {
    expected = { resource: 'http://a/mcp', authorizationServers: [ISSUER] }
    const request = { id: '1-1', unverified: { iss: 'http://other', aud: 'http://b/mcp' } }
    const wire = asked('/mcp', 401, { challenge: CHALLENGE, token: 't', covered: true }, request)
    const refused = event('kit.mcp.auth.refused', { reason: 'wrong_resource' }, { request })
    for (const events of [
      [wire, refused],
      [refused, wire],
    ]) {
      const { steps } = only(storiesOf(...events))
      expect(steps).to.have.length(1)
      expect(steps[0]).to.deep.include({
        word: '401',
        tone: 'bad',
        title: 'wrong_resource: the access token was issued for another resource',
        facts: [
          'aud: expected http://a/mcp, received http://b/mcp (unverified)',
          `iss: expected ${ISSUER}, received http://other (unverified)`,
        ],
      })
    }
  })

  it('a request without telemetry shows the description of its challenge, and the claims', () => {
    expected = {}
    const challenge = 'Bearer error="invalid_token", error_description="The access token has expired"'
    const { steps } = only(
      storiesOf(asked('/mcp', 401, { challenge, token: 't' }, { id: '1', unverified: { iss: 'x' } })),
    )
    expect(steps[0]).to.deep.include({
      title: 'The access token has expired',
      facts: ['iss: received x (unverified)'],
    })
  })

  it('two programs have two stories, also if they sign in at the same time', () => {
    const stories = storiesOf(
      first(),
      asked('/mcp', 401, { ...PAGE, challenge: CHALLENGE }),
      registered('c1'),
      signIn('client.registered', { ...PAGE, client: 'c2', client_name: 'A page' }),
      shown('c1'),
      shown('c2'),
      issued('c2', 't2'),
      issued('c1', 't1'),
      called('t2'),
    )
    expect(stories.map(({ name, stage }) => `${name} ${stage}`)).to.deep.equal([
      'A page called',
      'A client token',
    ])
  })

  it('a program that starts again without a token has a new story, and one that steps up does not', () => {
    const challenge = 'Bearer error="insufficient_scope", scope="a"'
    expect(storiesOf(...WHOLE(), first(), registered('c2'))).to.have.length(2)
    expect(
      storiesOf(
        ...WHOLE(),
        asked('/mcp', 403, { token: 't1', challenge }),
        shown(),
        given(),
        issued('c1', 't2'),
        called('t2'),
      ),
    ).to.have.length(1)
  })

  it('the metadata that a server fetches at the first token belongs to no client', () => {
    const { steps } = only(storiesOf(...WHOLE().slice(0, 7), issuerMetadata()))
    expect(steps).to.have.length(7)
    expect(storiesOf(issuerMetadata())).to.have.length(0)
  })

  it('a stream that ends late is shown at the time of its beginning', () => {
    const begun = first()
    const stream = asked('/stream', 200, { token: 't1' })
    const { steps } = only(storiesOf(begun, asked('/call', 200, { token: 't1' }), stream))
    expect(steps.map(({ title }) => title).slice(1)).to.deep.equal(['POST /stream → 200', 'POST /call → 200'])
  })

  it('an event that arrives late does not set a story back to an earlier stage', () => {
    const events = WHOLE()
    const [token, call] = events.splice(-2) as [ConsoleEvent, ConsoleEvent]
    const { stage, next, steps } = only(storiesOf(...events, call, token))
    expect({ stage, next }).to.deep.equal({ stage: 'called', next: undefined })
    expect(steps).to.have.length(8)
  })

  for (const [what, events] of [
    ['a sign-in and calls', () => [...WHOLE(), issuerMetadata(), called()]],
    [
      'a sign-in that the user denies',
      () => [...WHOLE().slice(0, 5), signIn('consent.denied', { client: 'c1' })],
    ],
    [
      'a refused registration',
      () => [...WHOLE().slice(0, 3), signIn('client.refused', { reason: 'invalid_redirect_uri' })],
    ],
    [
      'a page, which sends preflights',
      () => [
        asked('/mcp', 204, { ...PAGE, preflight: true }),
        asked('/mcp', 401, { ...PAGE, challenge: CHALLENGE }),
        issuerMetadata({ ...PAGE, preflight: true }),
        issuerMetadata(PAGE),
        signIn('client.registered', { ...PAGE, client: 'c1', client_name: 'A page' }),
        shown(),
        given(),
        signIn('token.issued', { ...PAGE, client: 'c1', token: 't1', scopes: 'mcp:read' }),
        asked('/mcp', 200, { ...PAGE, token: 't1' }),
      ],
    ],
  ] as const)
    it(`the story of ${what} does not depend on the order in which the events of two servers arrive`, () => {
      expectSameStory(events())
    })

  it('stories are bounded in number and length', () => {
    const many = Array.from({ length: 500 }, (_, index) => [
      asked('/mcp', 401, { 'user_agent.original': `agent-${index}`, challenge: CHALLENGE }),
      signIn('token.issued', { client: `c${index}`, token: `t${index}` }),
    ]).flat()
    expect(storiesOf(...many)).to.have.length(MAX_STORIES)
    const long = only(
      storiesOf(...Array.from({ length: 500 }, (_, index) => asked(`/${index}`, 200, { token: 't' }))),
    )
    expect(long.steps).to.have.length(MAX_STEPS)
    expect(long.dropped).to.equal(500 - MAX_STEPS)
    const [, last = ''] = storyHtml(long).split('more steps')
    expect(last.match(/<li/g)).to.have.length(1)
    expect(last).to.contain('POST /499').and.not.to.contain('×')
    expect(long.steps[0]?.title).to.equal('POST /0 → 200')
    expect(long.steps.at(-1)?.title).to.equal('POST /499 → 200')
  })

  it('texts of events are bounded in a story', () => {
    const text = 'x'.repeat(1_000_000)
    const error = { name: 'Error', message: text }
    const request = { id: '1-1' }
    const stories = storiesOf(
      asked('/mcp', 200, { token: 't' }, request),
      event('kit.mcp.tool.failed', { 'gen_ai.tool.name': text }, { request, error, actor: { type: text } }),
      signIn('consent.given', { client: 'c1', client_name: text, subject: text, scopes: text }),
      signIn('token.refused', { client: 'c1', reason: text, error_description: text }),
    )
    expect(JSON.stringify(stories).length).to.be.below(30_000)
  })

  for (const name of ['constructor', '__proto__', 'toString']) {
    it(`an unknown event of the authorization server does no harm: ${name}`, () => {
      expect(only(storiesOf(signIn(name, { client: 'x' }))).stage).to.equal('begun')
    })
  }

  const LIMIT = { limit: 'calls', 'limit.max': 2, 'limit.actual': 3 }
  for (const [what, names] of [
    ['a policy has denied', [['policy.denied', { 'kit.mcp.policy.reason': 'Ask your manager.' }]]],
    ['a limit has stopped', [['limit.reached', LIMIT]]],
    [
      'a limit has stopped after it ran',
      [
        ['limit.reached', { ...LIMIT, limit: 'timeout' }],
        ['tool.failed', {}],
      ],
    ],
    ['the user has not confirmed', [['confirm.declined', {}]]],
    ['cannot be confirmed', [['confirm.refused', { 'kit.mcp.confirm.reason': 'unsupported' }]]],
    ['waits for a confirmation', [['confirm.asked', {}]]],
    ['has failed', [['tool.failed', {}]]],
    ['has succeeded', [['tool.completed', {}]]],
  ] as const) {
    for (const isLate of [false, true])
      it(`a call that ${what} is shown so and counted, when telemetry arrives ${isLate ? 'after' : 'before'} the request`, () => {
        const request = { id: 'r1' }
        const attributes = { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'refund' }
        const completed = ['request.completed', { 'http.response.status_code': 200 }] as const
        const details = [['auth.accepted', {}] as const, ...names, completed].map(([name, more]) =>
          event(`kit.mcp.${name}`, { ...attributes, ...more }, { request }),
        )
        const call = asked('/mcp', 200, { token: 't1', covered: true }, request)
        const events = isLate ? [call, ...details] : [...details, call]
        const { word, title, tone } = only(storiesOf(...events)).steps.at(-1) ?? {}
        const summary = new Summary()
        events.forEach((one, index) => void summary.add(eventRow(index + 1, one, expected)))
        const { accepted, refused } = summary.counts
        const text = `${tone} ${word}: ${title}\n${accepted} accepted, ${refused} refused`
        recording.compare(`a call that ${what}`, text)
      })
  }

  it('a request to a foreign host is forbidden, and names the host', () => {
    const request = { id: 'r1', host: 'evil.example' }
    const { stage, steps } = only(
      storiesOf(
        asked('/mcp', 403, { host: 'evil.example', covered: true }, request),
        event('kit.mcp.auth.refused', { reason: 'host' }, { request }),
      ),
    )
    expect(stage).to.equal('forbidden')
    expect(steps.map(({ title }) => title)).to.deep.equal(['host: Host evil.example is not allowed'])
  })

  it('the probes of doctor are one story without a verdict, and do not count', () => {
    const agent = 'mcp-gatekit-doctor'
    const doctor = { 'user_agent.original': agent }
    const request = { id: 'r9', agent }
    const events = [
      asked('/mcp', 401, { ...doctor, challenge: CHALLENGE }),
      asked('/mcp', 401, { ...doctor, token: 'forged', challenge: CHALLENGE }, request),
      event('kit.mcp.auth.refused', { reason: 'invalid' }, { request }),
      signIn('client.refused', { ...doctor, reason: 'invalid_redirect_uri' }),
      signIn('client.registered', { ...doctor, client: 'c9', client_name: agent }),
      event('kit.authorization.consent.given', { ...PAGE, client: 'c9', subject: 'ada' }),
      signIn('token.refused', { ...doctor, client: 'c9', reason: 'invalid_grant' }),
      asked('/mcp', 200, { 'user_agent.original': 'Claude-User', 'mcp.session.id': 's9' }),
    ]
    const [other, story, ...more] = storiesOf(...events)
    expect(more).to.deep.equal([])
    expect(other?.name).to.equal('Claude-User')
    expect(story).to.include({ name: agent, isProbe: true, state: 'probes', tone: 'plain' })
    expect(story?.steps).to.have.length(6)
    const summary = new Summary()
    events.forEach((one, index) => void summary.add(eventRow(index + 1, one, expected)))
    expect(summary.lastReason).to.equal(undefined)
    expect(summary.counts).to.include({ refused: 0, accepted: 0 })
    // A client after the probes has a story of its own.
    expect(storiesOf(...events, ...WHOLE()).map(({ isProbe }) => isProbe)).to.deep.equal([false, false, true])
  })

  describe('with the events of authorizationFacade', () => {
    const facade = (name: string, attributes: object) => event(`kit.authorization.${name}`, attributes)
    const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
    const SIGN_IN = () => [
      first(),
      metadata(),
      facade('client.registered', { client: 'c1', redirect_host: '127.0.0.1' }),
      facade('consent.given', {
        client: 'c1',
        client_kind: 'registered',
        subject: 'oidc|ada',
        scopes: 'mcp:read',
      }),
      facade('token.issued', {
        client: 'c1',
        grant_type: 'authorization_code',
        subject: 'oidc|ada',
        scopes: 'mcp:read',
      }),
    ]
    const CALL = () => asked('/mcp', 200, { token: 't1' }, { id: 'r1', unverified: { client_id: 'c1' } })

    it('a sign-in at the facade and the calls after it are one story in words', () => {
      const { user, stage, steps } = only(storiesOf(...SIGN_IN(), CALL()))
      expect({ user, stage }).to.deep.equal({ user: 'oidc|ada', stage: 'called' })
      expect(steps.slice(2).map(({ word, title }) => `${word}: ${title}`)).to.deep.equal([
        'registered: c1',
        'allowed: oidc|ada allowed mcp:read',
        'token: mcp:read',
        'call: POST /mcp → 200',
      ])
    })

    for (const [what, last] of [
      [
        'a user whom allow denies',
        () => facade('signin.refused', { provider: 'github', reason: 'not_allowed' }),
      ],
      [
        'a provider that does not accept the client',
        () => facade('signin.refused', { provider: 'entra', reason: 'provider_failed' }),
      ],
      [
        'a page of the sign-in without the store',
        () => facade('signin.refused', { provider: 'entra', reason: 'unavailable' }),
      ],
      [
        'a sign-in with an unknown reason',
        () => facade('signin.refused', { provider: 'entra', reason: 'constructor' }),
      ],
      ['a denied consent', () => facade('consent.denied', { client: 'c1', subject: 'oidc|ada' })],
      [
        'a refused code',
        () =>
          facade('token.refused', {
            client: 'c1',
            grant_type: 'authorization_code',
            reason: 'invalid_grant',
          }),
      ],
      [
        'a refresh token that was used twice',
        () => facade('refresh.reused', { client: 'c1', subject: 'oidc|ada' }),
      ],
      [
        'an identity assertion for another server',
        () =>
          facade('token.refused', {
            client: 'c1',
            grant_type: JWT_BEARER,
            reason: 'invalid_grant',
            cause: 'audience',
          }),
      ],
    ] as const)
      itIsRecorded(`${what} at the facade`, () => [...SIGN_IN().slice(0, 3), last()])

    it('a token for an identity assertion and a revocation at the facade are shown in words', () => {
      const issued = () =>
        facade('token.issued', { client: 'c1', grant_type: JWT_BEARER, scopes: 'mcp:read' })
      const { steps } = only(storiesOf(first(), issued(), facade('revoked', { client: 'c1' })))
      expect(steps.slice(1).map(({ word, title }) => `${word}: ${title}`)).to.deep.equal([
        'token: mcp:read, for an identity assertion',
        'revoked: the tokens of c1 were revoked',
      ])
    })

    it('the story of a sign-in and calls does not depend on the order in which telemetry and requests arrive', () => {
      expectSameStory([...SIGN_IN(), CALL(), CALL()])
    })

    it('the pages of the sign-in are not steps of a client', () => {
      const form = () =>
        asked('/auth/signin/a-b_c/consent', 303, { ...PAGE, origin: 'http://127.0.0.1:3000' })
      expect(only(storiesOf(...SIGN_IN().slice(0, 3), form())).steps).to.have.length(3)
    })

    it('a refused sign-in belongs to the client that has registered, although another program asks for metadata later', () => {
      const begun = SIGN_IN().slice(0, 3)
      const other = asked('/.well-known/openid-configuration', 200, {
        'user_agent.original': 'openid-client',
      })
      const stories = storiesOf(...begun, other, facade('signin.refused', { reason: 'not_allowed' }))
      expect(stories.map(({ stage }) => stage)).to.deep.equal(['begun', 'not-signed-in'])
    })

    it('a registration that arrives late belongs to the client that has sent requests before it', () => {
      const [challenged, known, late] = SIGN_IN() as [ConsoleEvent, ConsoleEvent, ConsoleEvent]
      const other = asked('/.well-known/openid-configuration', 200, {
        'user_agent.original': 'openid-client',
      })
      const stories = storiesOf(challenged, known, other, late)
      expect(stories.map(({ stage }) => stage)).to.deep.equal(['begun', 'registered'])
    })

    it('a second client of the facade has a story of its own', () => {
      const second = () =>
        facade('token.issued', { client: 'c2', grant_type: JWT_BEARER, scopes: 'mcp:read' })
      expect(storiesOf(...SIGN_IN(), second())).to.have.length(2)
    })
  })
})
