import { expect } from 'chai'
import fc from 'fast-check'
import { type ConsoleEvent, operationOf, whoOf } from '../../../cli/dev/events/event.ts'
import { kindOf } from '../../../cli/dev/events/kinds.ts'
import { durationText, pageRow } from '../../../cli/dev/events/lines.ts'
import { type EventRow, eventRow } from '../../../cli/dev/events/row.ts'
import { Summary } from '../../../cli/dev/events/summary.ts'
import { EVENTS } from '../../../src/mcp/instrumentation/request-events.ts'
import { Recording } from '../../support/cli/recording.ts'

let number = 0
const event = (name: string, attributes: object = {}, more: object = {}): ConsoleEvent => ({
  name,
  time: '2026-11-20T12:00:00.000Z',
  level: 'info',
  sessionId: 'ses_1',
  attributes: attributes as Record<string, unknown>,
  ...more,
})

const rowOf = (given: ConsoleEvent): EventRow => eventRow(++number, given, {})
const summaryOf = (events: readonly ConsoleEvent[]) => {
  const summary = new Summary()
  for (const one of events) summary.add(rowOf(one))
  return summary
}

const call = { 'mcp.method.name': 'tools/call', 'gen_ai.tool.name': 'search' }
const paid = { 'kit.mcp.event.name': 'order.paid', 'kit.mcp.event.host': 'hooks.example.com' }
/** A delivery of an event that has failed. */
const attempt = {
  ...paid,
  'kit.mcp.event.kind': 'event',
  'kit.mcp.event.id': 'evt_1',
  'kit.mcp.event.attempts': 2,
  'error.type': 'http_5xx',
  'http.response.status_code': 503,
}
const failure = { error: { name: 'Error', message: 'the index is gone' } }

/** The events that the page describes in words. */
const NAMES = [
  ...Object.keys(EVENTS).map((name) => `kit.mcp.${name}`),
  ...['registered', 'refused'].map((name) => `kit.authorization.client.${name}`),
  ...['shown', 'given', 'denied'].map((name) => `kit.authorization.consent.${name}`),
  ...['issued', 'refused'].map((name) => `kit.authorization.token.${name}`),
  ...['request.refused', 'signin.refused', 'refresh.reused', 'revoked'].map(
    (name) => `kit.authorization.${name}`,
  ),
]

describe('kindOf()', () => {
  const [host, origin] = ['a.example', 'https://page.example']
  const RESOURCE = '/.well-known/oauth-protected-resource/mcp'
  /** A request that dev has observed. */
  const wire = ({ path = '/mcp', status, ...more }: { path?: string; status: number }) =>
    event('dev.request', {
      'http.request.method': 'POST',
      'url.path': path,
      'http.response.status_code': status,
      ...more,
    })
  const recording = new Recording('kinds')
  for (const given of [
    event('kit.mcp.auth.accepted'),
    event('kit.mcp.auth.accepted', call),
    event('kit.mcp.auth.refused', { reason: 'wrong_resource' }),
    event('kit.mcp.auth.refused', { reason: 'constructor' }),
    event('kit.mcp.auth.unavailable', {}, failure),
    event('kit.mcp.auth.anonymous', call),
    event('kit.mcp.auth.anonymous'),
    event('kit.mcp.confirm.asked', call),
    event('kit.mcp.confirm.accepted', call),
    event('kit.mcp.confirm.declined', call),
    event('kit.mcp.confirm.refused', { ...call, 'kit.mcp.confirm.reason': 'used' }),
    event('kit.mcp.confirm.refused', { ...call, 'kit.mcp.confirm.reason': 'failed' }, failure),
    event('kit.mcp.task.created', call),
    event('kit.mcp.task.completed', call),
    event('kit.mcp.task.cancelled', call),
    event('kit.mcp.task.failed', { ...call, 'error.type': 'node_lost' }),
    event('kit.mcp.event.emitted', paid),
    event('kit.mcp.event.subscribed', paid),
    event('kit.mcp.event.renewed', paid),
    event('kit.mcp.event.unsubscribed', paid),
    event('kit.mcp.event.refused', { ...paid, 'error.type': 'challenge_failed' }),
    event('kit.mcp.event.delivered', { ...paid, 'kit.mcp.event.attempts': 1 }),
    event('kit.mcp.event.delivered', { ...paid, 'kit.mcp.event.kind': 'gap', 'kit.mcp.event.attempts': 2 }),
    event('kit.mcp.event.failed', attempt),
    event('kit.mcp.event.abandoned', attempt),
    ...['connection_refused', 'timeout', 'tls_error', 'http_4xx', 'challenge_failed', 'constructor'].map(
      (type) => event('kit.mcp.event.failed', { ...attempt, 'error.type': type }),
    ),
    event('kit.mcp.auth.unavailable'),
    event('kit.mcp.event.dropped', paid),
    event('kit.mcp.event.terminated', {}),
    event('kit.mcp.policy.denied', call),
    event('kit.mcp.policy.denied', { ...call, 'kit.mcp.policy.reason': 'Refunds need approval.' }),
    event('kit.mcp.auth.refused', { reason: 'host' }, { request: { id: '1', host: 'evil.example' } }),
    event(
      'kit.mcp.auth.refused',
      { reason: 'origin' },
      { request: { id: '1', host: 'a.example', origin: 'https://page.example' } },
    ),
    event('kit.mcp.auth.refused', { reason: 'host' }),
    event('kit.mcp.policy.denied', call, failure),
    ...[
      { limit: 'calls', 'limit.max': 2, 'limit.actual': 3 },
      { limit: 'concurrency', 'limit.max': 2, 'limit.actual': 3 },
      { limit: 'timeout', 'limit.max': 50, 'limit.actual': 50.1 },
      { limit: 'result_size', 'limit.max': 60, 'limit.actual': 99 },
      { limit: 'another' },
    ].map((limit) => event('kit.mcp.limit.reached', { ...call, ...limit })),
    event('kit.mcp.limit.unavailable', call, failure),
    event('kit.mcp.tool.completed', call),
    event('kit.mcp.tool.failed', call),
    event('kit.mcp.tool.failed', {}, failure),
    event('kit.mcp.request.completed', { ...call, 'http.response.status_code': 200 }),
    event('kit.mcp.request.completed', {
      'http.response.status_code': 200,
      'rpc.response.status_code': '-32602',
    }),
    event('kit.mcp.request.completed', { 'http.response.status_code': 404 }),
    event('kit.mcp.request.completed', { 'http.response.status_code': 400 }),
    event('kit.mcp.request.completed', { 'http.response.status_code': 399 }),
    event('kit.mcp.request.failed', call, failure),
    event('kit.mcp.request.failed'),
    event('billing.paid'),
    event('billing.late', {}, { level: 'warn' }),
    event('billing.failed', {}, { level: 'fatal', ...failure }),
    ...[
      { preflight: true, status: 399 },
      { preflight: true, origin, status: 400 },
      { origin, host, status: 403 },
      { host, status: 403 },
      { path: RESOURCE, status: 200 },
      { path: RESOURCE, status: 404 },
      { path: '/.well-known/x', server: 'authorization', status: 200 },
      { path: '/.well-known/x', server: 'authorization', status: 404 },
      { path: '/.well-known/x', status: 200 },
      { ...call, status: 401 },
      { ...call, status: 401, token: 't' },
      { status: 403, token: 't', challenge: 'Bearer error="insufficient_scope"' },
      { status: 403, token: 't', challenge: 'Bearer' },
      { host, status: 403, covered: true },
      { host: 'localhost:3000', status: 403 },
      { status: 403, covered: true },
      { status: 399, token: 't', 'mcp.method.name': 'ping' },
      { status: 200 },
      { status: 400, token: 't' },
      { status: 499, token: 't' },
    ].map(wire),
  ]) {
    const { name, attributes, request, level, error } = given
    const key = `${name} ${JSON.stringify({ ...attributes, request, level, error: error?.message })}`
    it(`describes ${key} as recorded`, () => {
      const { group, tone, word, title, hint, outcome, stage } = kindOf(given)
      const line = `${group} ${tone} ${word}: ${title}`
      recording.compare(key, [line, hint && `hint: ${hint}`, outcome, stage].filter(Boolean).join('\n'))
    })
  }

  for (const [given, about] of [
    [event('kit.mcp.auth.refused', { ...call, reason: 'expired' }), 'tools/call search · ada'],
    [event('kit.mcp.auth.accepted', call), 'ada'],
    [event('kit.mcp.tool.failed', call), 'ada'],
    [event('kit.mcp.auth.refused', { reason: 'expired' }), 'ada'],
  ] as const)
    it(`the line of ${given.name} ${operationOf(given) ?? 'without an operation'} is about "${about}"`, () => {
      expect(rowOf({ ...given, actor: { type: 'user', id: 'ada' } }).about).to.equal(about)
    })

  it('the line of a refused operation of an unknown user is about the operation', () => {
    expect(rowOf(event('kit.mcp.auth.refused', { ...call, reason: 'expired' })).about).to.equal(
      'tools/call search',
    )
  })

  it('every event that a server emits about its requests is described in words', () => {
    const other = Object.keys(EVENTS).filter((name) => kindOf(event(`kit.mcp.${name}`)).group === 'other')
    expect(other).to.deep.equal([])
  })

  it('lines accept events whose attributes, actor, error, and claims are any JSON', () => {
    const keys =
      `mcp.method.name gen_ai.tool.name http.request.method origin host scope user resource limit.max
      limit.actual error.type http.response.status_code kit.mcp.auth.scopes.granted kit.mcp.event.attempts
      kit.mcp.event.host kit.mcp.event.id kit.mcp.event.kind kit.mcp.event.name`.split(/\s+/)
    for (const odd of [{ toString: null }, null, 1, ['a'], [{ toString: null }]])
      for (const name of NAMES) {
        const attributes = Object.fromEntries(keys.map((key) => [key, odd]))
        const more = {
          actor: { type: odd, id: odd },
          error: { message: odd },
          request: { id: odd, unverified: { aud: odd, iss: odd, exp: odd } },
        }
        const row = rowOf(event(name, { ...attributes, reason: 'invalid' }, more))
        expect([row.title, row.about].every((text) => typeof text === 'string')).to.equal(true)
      }
  })

  it('whoOf(), operationOf(), and the line return the actor, the operation, and the duration of an event', () => {
    expect(whoOf(event('a', {}, { actor: { type: 'user', id: 'ada' } }))).to.equal('ada')
    expect(whoOf(event('a', {}, { actor: { type: 'system' } }))).to.equal('system')
    expect(whoOf(event('a'))).to.equal('')
    expect(
      operationOf(event('a', { 'mcp.method.name': 'resources/read', 'mcp.resource.uri': 'x:y' })),
    ).to.equal('resources/read x:y')
    for (const [given, ms] of [
      [12.5, 12.5],
      [0, 0],
      [-1, undefined],
      [Number.NaN, undefined],
      ['12', undefined],
      [null, undefined],
    ] as const)
      expect(rowOf(event('a', { duration_ms: given })).ms).to.equal(ms)
    expect(rowOf({ ...event('a'), attributes: undefined as never }).ms).to.equal(undefined)
  })

  it('lines and their summary accept events with any attributes', () => {
    const anything = fc.record(
      {
        name: fc.constantFrom(
          ...['accepted', 'refused', 'unavailable'].map((name) => `kit.mcp.auth.${name}`),
          ...['tool.completed', 'tool.failed', 'request.completed', 'request.failed'].map(
            (name) => `kit.mcp.${name}`,
          ),
          'x',
        ),
        level: fc.string(),
        sessionId: fc.string(),
        time: fc.string(),
        attributes: fc.dictionary(
          fc.constantFrom(
            'reason',
            'duration_ms',
            'mcp.method.name',
            'gen_ai.tool.name',
            'http.response.status_code',
          ),
          fc.jsonValue(),
        ),
      },
      { requiredKeys: ['name', 'level', 'sessionId', 'time'] },
    )
    fc.assert(
      fc.property(fc.array(anything), (events) => {
        const given = events as readonly ConsoleEvent[]
        for (const row of given.map(rowOf)) expect(pageRow(row).line).to.match(/^<li class="row /)
        expect(summaryOf(given).counts.events).to.equal(events.length)
      }),
    )
  })
})

describe('Summary', () => {
  it('the summary counts all events', () => {
    const called = { ...call, duration_ms: 3 }
    const summary = summaryOf(
      Array.from({ length: 3000 }, (_, n) => event('kit.mcp.tool.failed', called, { sessionId: `ses_${n}` })),
    )
    expect(summary.counts).to.include({ events: 3000, toolCalls: 3000, toolFailures: 3000 })
  })

  it('the summary counts decisions of the gate and tool calls, but not a request without a token', () => {
    const calls = { ...call, duration_ms: 3 }
    const summary = summaryOf([
      event('kit.mcp.auth.accepted'),
      event('kit.mcp.auth.refused', { reason: 'expired' }),
      event('kit.mcp.auth.refused', { reason: 'missing' }),
      event('kit.mcp.auth.unavailable'),
      event('kit.mcp.tool.completed', calls),
      event('kit.mcp.tool.failed', calls),
      event('kit.mcp.tool.failed', call),
    ])
    expect(summary.counts).to.deep.equal({
      accepted: 1,
      refused: 1,
      outages: 1,
      toolCalls: 3,
      toolFailures: 2,
      events: 7,
    })
    expect(summary.lastReason).to.equal('expired')
  })
})

describe('the durations of the console', () => {
  for (const [ms, text] of [
    [0.043, '0.04 ms'],
    [1, '1.0 ms'],
    [3.21, '3.2 ms'],
    [123.4, '123 ms'],
    [1000, '1.00 s'],
    [1234, '1.23 s'],
    [10_000, '10.0 s'],
  ] as const)
    it(`formats ${ms} ms as ${text}`, () => expect(durationText(ms)).to.equal(text))
})
