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
import { itReports, json, type KnownFault } from '../support/cli/faults.ts'

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

  itReports(
    (
      [
        {
          what: 'a server that declares events only as an extension',
          alter: result('server/discover', ({ capabilities }) => delete capabilities.events),
          finds: [
            'events.capability: warn',
            /^only capabilities\.extensions\["io\.modelcontextprotocol\/events"\]$/,
            /declare both/,
          ],
        },
        {
          what: 'a server that declares events without their methods',
          instead: instead('events/list', MISSING),
          finds: [
            'events.capability: fail',
            /^capabilities\.events and capabilities\.extensions.* but events\/list does not exist$/,
            /do not declare events/,
          ],
        },
        {
          what: 'a server that fails to list its events',
          instead: instead('events/list', { status: 500 }),
          finds: ['events.capability: fail', /events\/list: 500/, /log/],
        },
        {
          what: 'a server that forbids to list its events',
          instead: instead('events/list', { status: 403 }),
          finds: ['events.capability: fail', /events\/list: 403/, /token/],
        },
        ...(
          [
            [
              'an event type without a name',
              (event) => delete event.name,
              'fail',
              /without a name/,
              /a name/,
            ],
            [
              'two event types of the same name',
              (event, events) => Object.assign(event, { name: events[1].name }),
              'fail',
              /duplicate names: order\.paid/,
              /unique/,
            ],
            [
              'an event type with an unknown delivery',
              (event) => event.delivery.push('stream'),
              'fail',
              /without a valid delivery: comment\.created/,
              /poll, push, webhook/,
            ],
            [
              'an event type with a delivery that is an object',
              (event) => event.delivery.push({ toString: null }),
              'fail',
              /without a valid delivery/,
              /delivery/,
            ],
            [
              '100,000 event types',
              (_, events) =>
                events.push(...Array.from({ length: 100_000 }, (_, index) => ({ name: `e${index}` }))),
              'fail',
              /^without a valid delivery: e0,.* and 99988 more; /,
              /delivery/,
            ],
            [
              'an event type without deliveries',
              (event) => delete event.delivery,
              'fail',
              /without a valid delivery/,
              /delivery/,
            ],
            [
              'an event type without a schema of its arguments',
              (event) => delete event.inputSchema,
              'fail',
              /without an inputSchema of type object: comment\.created/,
              /inputSchema/,
            ],
            [
              'an event type without a schema of its data',
              (event) => delete event.payloadSchema,
              'fail',
              /without a payloadSchema/,
              /payloadSchema/,
            ],
            [
              'an event type without a description',
              (event) => delete event.description,
              'warn',
              /without a description: comment\.created/,
              /model/,
            ],
          ] as [string, (event: any, events: any[]) => unknown, string, RegExp, RegExp][]
        ).map(([what, change, status, seen, hint]) => ({
          what,
          alter: result('events/list', ({ events }) => change(events[0], events)),
          finds: [`events.list: ${status}`, seen, hint] as const,
        })),
        ...['events/poll', 'events/stream', 'events/subscribe', 'events/unsubscribe'].map((method) => ({
          what: `a server without ${method}`,
          instead: instead(method, MISSING),
          finds: [
            'events.methods: fail',
            new RegExp(`^${method} does not exist$`),
            /leave its delivery out/,
          ] as const,
        })),
        {
          what: 'a server that accepts unknown event types',
          instead: instead('events/poll', json({ result: { events: [] } })),
          finds: ['events.methods: fail', /events\/poll accepts an event type that does not exist/, /-32011/],
        },
        {
          what: 'a server that fails for unknown event types',
          instead: instead('events/poll', { status: 500 }),
          finds: ['events.methods: fail', /events\/poll: 500/, /log/],
        },
      ] satisfies readonly KnownFault[]
    ).map((fault) => ({ router, ...fault })),
  )
})
