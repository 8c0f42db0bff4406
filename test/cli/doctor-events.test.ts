import { expect } from 'chai'
import {
  type Fault,
  findingOf,
  type Incoming,
  look,
  type Outgoing,
  problemsOf,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { result, router, statusesOf } from '../support/cli/event-faults.ts'
import { json } from '../support/cli/faults.ts'
import { itReports } from '../support/cli/recorded.ts'

/** Replaces the responses to a method, except for those to requests without a token. */
const instead =
  (method: string, answer: Partial<Outgoing>): NonNullable<Fault['instead']> =>
  ({ message, headers }) =>
    message?.method === method && headers.authorization !== undefined ? answer : undefined

const MISSING = json({ error: { code: -32_601, message: 'Method not found' } })

describe('doctor, for a server with events,', () => {
  it('a correct server has no problem, and no subscription is made without --events', async () => {
    const target = await startTarget({ router })
    const report = await look(target.url, { token: target.token })
    expect(problemsOf(report)).to.deep.equal([])
    expect(statusesOf(report)).to.deep.equal(['ok', 'ok', 'ok', ...Array(5).fill('skip')])
    expect(findingOf(report, 'events.list')?.seen).to.equal(
      '3 event types: comment.created, order.paid, polled',
    )
    expect(findingOf(report, 'events.methods')?.seen).to.equal(
      'events/poll; events/stream; events/subscribe; events/unsubscribe',
    )
    expect(findingOf(report, 'events.challenge')?.seen).to.equal('only with --events')
    expect(target.adapter.events.stats().subscribed).to.equal(0)
  })

  it('a correct server of 2025-11-25 declares events in initialize', async () => {
    const old = (request: Incoming) =>
      request.headers['mcp-protocol-version'] === '2026-07-28'
        ? json({ error: { code: -32_022 } }, 400)
        : undefined
    const { url, token } = await startTarget({ router, instead: old })
    const report = await look(url, { token })
    expect(statusesOf(report).slice(0, 3)).to.deep.equal(['ok', 'ok', 'ok'])
  })

  it('the checks are skipped for a server that declares no events, and without a token', async () => {
    const target = await startTarget()
    const report = await look(target.url, { token: target.token })
    expect(statusesOf(report)).to.deep.equal(Array(8).fill('skip'))
    expect(findingOf(report, 'events.capability')?.seen).to.equal('the server declares no events')
    expect(findingOf(await look(target.url), 'events.capability')?.status).to.equal('skip')
  })

  const changed = (change: (event: any, events: any[]) => unknown): Fault => ({
    alter: result('events/list', ({ events }) => change(events[0], events)),
  })
  const faults: Readonly<Record<string, Fault>> = {
    'a server that declares events only as an extension': {
      alter: result('server/discover', ({ capabilities }) => delete capabilities.events),
    },
    'a server that declares events without their methods': { instead: instead('events/list', MISSING) },
    'a server that fails to list its events': { instead: instead('events/list', { status: 500 }) },
    'a server that forbids to list its events': { instead: instead('events/list', { status: 403 }) },
    'an event type without a name': changed((event) => delete event.name),
    'two event types of the same name': changed((event, events) =>
      Object.assign(event, { name: events[1].name }),
    ),
    'an event type with an unknown delivery': changed((event) => event.delivery.push('stream')),
    'an event type with a delivery that is an object': changed((event) =>
      event.delivery.push({ toString: null }),
    ),
    '100,000 event types': changed((_, events) =>
      events.push(...Array.from({ length: 100_000 }, (_, index) => ({ name: `e${index}` }))),
    ),
    'an event type without deliveries': changed((event) => delete event.delivery),
    'an event type without a schema of its arguments': changed((event) => delete event.inputSchema),
    'an event type without a schema of its data': changed((event) => delete event.payloadSchema),
    'an event type without a description': changed((event) => delete event.description),
    'a server without events/poll': { instead: instead('events/poll', MISSING) },
    'a server without events/stream': { instead: instead('events/stream', MISSING) },
    'a server without events/subscribe': { instead: instead('events/subscribe', MISSING) },
    'a server without events/unsubscribe': { instead: instead('events/unsubscribe', MISSING) },
    'a server that accepts unknown event types': {
      instead: instead('events/poll', json({ result: { events: [] } })),
    },
    'a server that fails for unknown event types': { instead: instead('events/poll', { status: 500 }) },
  }
  const servers = Object.entries(faults).map(([name, fault]) => [name, { router, ...fault }])
  itReports('events', Object.fromEntries(servers))
})
