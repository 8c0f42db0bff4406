import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { z } from 'zod'
import type { DoctorReport } from '../../cli/doctor/doctor.ts'
import { WebhookReceiver } from '../../cli/doctor/webhook-receiver.ts'
import { signatureOf } from '../../src/mcp/events/webhooks/signature.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { expectNoLeak } from '../../src/testing/expect-no-leak.ts'
import {
  type DoctorTarget,
  type Fault,
  findingOf,
  type Incoming,
  look,
  type Outgoing,
  problemsOf,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { itReports, json } from '../support/cli/faults.ts'
import { freePort } from '../support/free-port.ts'
import {
  LOOPBACK,
  type ReceivedMessage,
  type ReceiverResponse,
  startReceiver,
} from '../support/mcp/webhooks.ts'

const IDS = [
  'events.capability',
  'events.list',
  'events.methods',
  'events.wrong-challenge',
  'events.challenge',
  'events.signature',
  'events.delivery',
  'events.unsubscribe',
] as const

const tool = {
  title: 'A tool',
  description: 'A tool',
  annotations: { readOnlyHint: true },
  input: z.object({}),
} as const

const tools = KitMcpRouter.create()
  .tool('greet', tool, () => 'Hello!')
  .tool('erase', { ...tool, scopes: ['mcp:write'] }, () => 'Gone.')
const payload = z.object({ id: z.number() })
const router = tools
  .event('comment.created', { description: 'A comment', payload, input: z.object({ page: z.string() }) })
  .event('order.paid', { description: 'An order was paid', payload })
  .event('polled', { description: 'A page was changed', payload, delivery: ['poll'] })

/** Changes the results of a method. */
const result =
  (method: string, change: (result: any) => void): NonNullable<Fault['alter']> =>
  (answer, { message }) => {
    if (message?.method !== method || answer.status !== 200) return
    const body = JSON.parse(answer.body)
    if (body.result === undefined) return
    change(body.result)
    answer.body = JSON.stringify(body)
  }

/** Replaces the responses to a method, except for those to requests without a token. */
const instead =
  (method: string, answer: Partial<Outgoing>): NonNullable<Fault['instead']> =>
  ({ message, headers }) =>
    message?.method === method && headers.authorization !== undefined ? answer : undefined

const MISSING = json({ error: { code: -32_601, message: 'Method not found' } })
const statusesOf = (report: DoctorReport) => IDS.map((id) => findingOf(report, id)?.status)

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
    [
      {
        what: 'a server that declares events only as an extension',
        alter: result('server/discover', ({ capabilities }) => delete capabilities.events),
        problem: 'events.capability: warn',
        seen: /^only capabilities\.extensions\["io\.modelcontextprotocol\/events"\]$/,
        hint: /declare both/,
      },
      {
        what: 'a server that declares events without their methods',
        instead: instead('events/list', MISSING),
        problem: 'events.capability: fail',
        seen: /^capabilities\.events and capabilities\.extensions.* but events\/list does not exist$/,
        hint: /do not declare events/,
      },
      {
        what: 'a server that fails to list its events',
        instead: instead('events/list', { status: 500 }),
        problem: 'events.capability: fail',
        seen: /events\/list: 500/,
        hint: /log/,
      },
      {
        what: 'a server that forbids to list its events',
        instead: instead('events/list', { status: 403 }),
        problem: 'events.capability: fail',
        seen: /events\/list: 403/,
        hint: /token/,
      },
      ...(
        [
          ['an event type without a name', (event) => delete event.name, 'fail', /without a name/, /a name/],
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
        problem: `events.list: ${status}`,
        seen,
        hint,
      })),
      ...['events/poll', 'events/stream', 'events/subscribe', 'events/unsubscribe'].map((method) => ({
        what: `a server without ${method}`,
        instead: instead(method, MISSING),
        problem: 'events.methods: fail',
        seen: new RegExp(`^${method} does not exist$`),
        hint: /leave its delivery out/,
      })),
      {
        what: 'a server that accepts unknown event types',
        instead: instead('events/poll', json({ result: { events: [] } })),
        problem: 'events.methods: fail',
        seen: /events\/poll accepts an event type that does not exist/,
        hint: /-32011/,
      },
      {
        what: 'a server that fails for unknown event types',
        instead: instead('events/poll', { status: 500 }),
        problem: 'events.methods: fail',
        seen: /events\/poll: 500/,
        hint: /log/,
      },
    ].map((fault) => ({ router, ...fault })),
  )
})

/** The way of a message from the server to doctor, which can change it. */
type Tunnel = (
  message: ReceivedMessage,
  forward: (changed?: Partial<ReceivedMessage>) => Promise<ReceiverResponse>,
  secret: string,
) => ReceiverResponse | Promise<ReceiverResponse>

interface RoundTrip {
  readonly fault?: Fault
  readonly tunnel?: Tunnel
  readonly event?: string
  /** Does not emit an event. */
  readonly silent?: true
}

/** Examines a server whose webhooks reach doctor over https. Emits an event when doctor waits for one. */
async function roundTrip({ fault = {}, tunnel = (_, forward) => forward(), event, silent }: RoundTrip = {}) {
  const secrets: string[] = []
  const target = await startTarget({
    router,
    network: LOOPBACK,
    ...fault,
    instead: (request) => {
      const secret = request.message?.params?.delivery?.secret
      if (secret !== undefined) secrets.push(secret)
      return fault.instead?.(request)
    },
  })
  const port = await freePort()
  const receiver = await startReceiver()
  receiver.respond = (message) =>
    tunnel(
      message,
      async (changed = {}) => {
        const { path, headers, text } = { ...message, ...changed }
        const kept = Object.entries(headers).filter(([name]) =>
          /^(?:webhook-|x-mcp-|content-type)/.test(name),
        )
        const init = { method: 'POST', headers: Object.fromEntries(kept), body: text }
        const response = await fetch(`http://127.0.0.1:${port}${path}`, init)
        return { status: response.status, body: await response.text() }
      },
      secrets.at(-1) as string,
    )
  const printed: string[] = []
  const report = await look(target.url, {
    token: target.token,
    webhook: { url: new URL(receiver.url), port, event, waitMs: silent ? 50 : 5_000 },
    print(text) {
      printed.push(text)
      if (!silent) void target.adapter.events.emit('order.paid', { id: 7 })
    },
  })
  const texts = printed.join('\n') + JSON.stringify(report)
  expectNoLeak(texts, [target.token, ...secrets, ...secrets.map((secret) => secret.slice(6))])
  const { subscribed, unsubscribed, terminated } = target.adapter.events.stats()
  await target.adapter.events.close()
  return { report, printed, target: target as DoctorTarget, open: subscribed - unsubscribed - terminated }
}

const subscribing = (answer: Partial<Outgoing>): Fault => ({
  instead: ({ message }) => (message?.params?.delivery?.secret === undefined ? undefined : answer),
})
const changing =
  (headers: Record<string, string>): Tunnel =>
  (message, forward) =>
    forward({ headers: { ...message.headers, ...headers } })
/** Changes the content of an event, and signs it again. */
const signedAgain =
  (change: (content: any) => object): Tunnel =>
  (message, forward, secret) => {
    if (message.json.type !== undefined) return forward()
    const text = JSON.stringify(change(message.json))
    const id = message.headers['webhook-id'] as string
    const timestamp = Number(message.headers['webhook-timestamp'])
    const signature = signatureOf({ id, timestamp, body: text }, [secret])
    return forward({ text, headers: { ...message.headers, 'webhook-signature': signature } })
  }
const denied = tools.event('order.paid', {
  description: 'An order was paid',
  payload,
  authorize: ({ purpose }) => purpose === 'subscribe',
})

describe('doctor --events', () => {
  it('subscribes after a challenge, gets a signed event, and ends the subscription', async () => {
    const { report, printed, open } = await roundTrip()
    expect(problemsOf(report)).to.deep.equal([])
    expect(statusesOf(report)).to.deep.equal(Array(8).fill('ok'))
    expect(findingOf(report, 'events.delivery')?.seen).to.match(/^order\.paid: event evt_/)
    expect(printed).to.deep.equal(['Waiting 5 s for the event order.paid. Cause one now.'])
    expect(open).to.equal(0)
  })

  for (const [what, given, problems, id, seen, hint] of [
    [
      'no event arrives',
      { silent: true },
      ['events.delivery: warn'],
      'events.delivery',
      /^no event within 0\.05 s$/,
      /cause the event order\.paid/,
    ],
    [
      'the URL does not lead to doctor',
      { tunnel: () => ({ status: 502 }) },
      ['events.challenge: fail'],
      'events.challenge',
      /-32015, "The callback endpoint was not verified", "http_5xx"; no challenge has reached port \d+$/,
      /tunnel/,
    ],
    [
      'the server refuses the subscription',
      { fault: subscribing(json({ error: { code: -32_012, message: 'Forbidden' } })) },
      ['events.challenge: fail'],
      'events.challenge',
      /-32012, "Forbidden"$/,
      /scopes of the token/,
    ],
    [
      'the server sends the secret back',
      {
        fault: {
          instead: ({ message }: Incoming) => {
            const secret = message?.params?.delivery?.secret
            if (secret === undefined) return undefined
            return json({
              error: { code: -32_602, message: `bad ${secret} of ${message.params.delivery.url}` },
            })
          },
        },
      },
      ['events.challenge: fail'],
      'events.challenge',
      /-32602, "bad \[secret\] of https:\/\/127\.0\.0\.1:\d+\/hook\?doctor=\[secret\]"$/,
      /the URL of --events/,
    ],
    [
      'the server does not accept the right answer',
      {
        tunnel: async (_: unknown, forward: () => Promise<ReceiverResponse>) => ({
          ...(await forward()),
          body: '{}',
        }),
      },
      ['events.challenge: fail'],
      'events.challenge',
      /"challenge_failed", although doctor returned the challenge$/,
      /log/,
    ],
    [
      'the server subscribes without a challenge',
      { fault: subscribing(json({ result: { id: 'sub_1', refreshBefore: '2030-01-01T00:00:00Z' } })) },
      ['events.wrong-challenge: fail', 'events.challenge: fail'],
      'events.wrong-challenge',
      /got no challenge/,
      /anyone/,
    ],
    [
      'the server accepts every answer',
      {
        tunnel: async (message: ReceivedMessage, forward: () => Promise<ReceiverResponse>) => {
          await forward()
          return message.json.type === undefined
            ? {}
            : { body: JSON.stringify({ challenge: message.json.challenge }) }
        },
      },
      ['events.wrong-challenge: fail'],
      'events.wrong-challenge',
      /answered with another challenge/,
      /anyone/,
    ],
    [
      'the server refuses a wrong answer with another error',
      {
        fault: {
          alter: (answer: Outgoing) => {
            answer.body = answer.body.replace('-32015', '-32000')
          },
        },
      },
      ['events.wrong-challenge: warn'],
      'events.wrong-challenge',
      /-32000/,
      /-32015/,
    ],
    [
      'the response has no id',
      { fault: { alter: result('events/subscribe', (value) => delete value.id) } },
      ['events.challenge: fail'],
      'events.challenge',
      /id nothing/,
      /id of the subscription/,
    ],
    [
      'the response has no time until which the subscription is good',
      { fault: { alter: result('events/subscribe', (value) => (value.refreshBefore = { toString: null })) } },
      ['events.challenge: fail'],
      'events.challenge',
      /refreshBefore \{"toString":null\}$/,
      /renew/,
    ],
    [
      'messages have no signature',
      { tunnel: changing({ 'webhook-signature': '' }) },
      ['events.signature: fail', 'events.delivery: fail'],
      'events.signature',
      /does not match/,
      /HMAC-SHA256/,
    ],
    [
      'messages have no id',
      {
        tunnel: ({ headers: { 'webhook-id': _, ...headers } }: ReceivedMessage, forward: any) =>
          forward({ headers }),
      },
      ['events.signature: fail', 'events.delivery: fail'],
      'events.delivery',
      /without webhook-id/,
      /Standard Webhooks/,
    ],
    [
      'messages are old',
      { tunnel: changing({ 'webhook-timestamp': '1700000000' }) },
      ['events.signature: fail', 'events.delivery: fail'],
      'events.signature',
      /webhook-timestamp: 1700000000/,
      /clock/,
    ],
    [
      'messages name another subscription',
      { tunnel: changing({ 'x-mcp-subscription-id': 'sub_0' }) },
      ['events.delivery: fail'],
      'events.delivery',
      /sub_0 instead of sub_/,
      /find the secret/,
    ],
    [
      'a message has another event type',
      { tunnel: signedAgain((content) => ({ ...content, name: 'other' })) },
      ['events.delivery: fail'],
      'events.delivery',
      /the name other$/,
      /SEP-3415/,
    ],
    [
      'a message has no time',
      { tunnel: signedAgain((content) => ({ ...content, timestamp: { toString: null } })) },
      ['events.delivery: fail'],
      'events.delivery',
      /"timestamp"/,
      /timestamp/,
    ],
    [
      'a message has no data',
      { tunnel: signedAgain(({ data: _, ...content }) => content) },
      ['events.delivery: fail'],
      'events.delivery',
      /"eventId"/,
      /data/,
    ],
    [
      'the user may not receive the event',
      { fault: { router: denied } },
      ['events.delivery: fail'],
      'events.delivery',
      /terminated/,
      /user of the token/,
    ],
    [
      'the subscription cannot be ended',
      {
        fault: {
          instead: ({ message }: Incoming) =>
            message?.method === 'events/unsubscribe' && message.params.delivery !== undefined
              ? json({ error: { code: -32_011, message: 'No such subscription' } })
              : undefined,
        },
      },
      ['events.unsubscribe: fail'],
      'events.unsubscribe',
      /-32011, "No such subscription"$/,
      /same user/,
    ],
  ] as readonly (readonly [string, RoundTrip, readonly string[], string, RegExp, RegExp])[])
    it(`reports ${problems.join(' and ')} if ${what}`, async () => {
      const { report, open } = await roundTrip(given)
      expect(problemsOf(report)).to.deep.equal(problems)
      expect(findingOf(report, id)?.seen).to.match(seen)
      expect(findingOf(report, id)?.hint).to.match(hint)
      if (id !== 'events.unsubscribe') expect(open, 'open subscriptions').to.equal(0)
    })

  for (const [what, event] of [
    ['is unknown', 'unknown'],
    ['needs arguments', 'comment.created'],
    ['has no webhooks', 'polled'],
  ] as const)
    it(`reports events.challenge: fail if the event type of --event ${what}`, async () => {
      const { report, target } = await roundTrip({ event })
      expect(problemsOf(report)).to.deep.equal(['events.challenge: fail'])
      const { seen, hint } = findingOf(report, 'events.challenge') ?? {}
      expect(seen).to.equal(`${event} is not an event type that has webhooks and works without arguments`)
      expect(hint).to.equal('set --event to one of order.paid')
      expect(findingOf(report, 'events.wrong-challenge')?.seen).to.match(/see events\.challenge$/)
      expect(target.adapter.events.stats().subscribed).to.equal(0)
    })

  it('is skipped if no event type has webhooks and works without arguments', async () => {
    const polled = tools.event('polled', { description: 'A page was changed', payload, delivery: ['poll'] })
    const { report } = await roundTrip({ fault: { router: polled } })
    expect(problemsOf(report)).to.deep.equal([])
    expect(findingOf(report, 'events.challenge')?.seen).to.equal(
      'no event type has webhooks and works without arguments',
    )
  })

  it('is skipped if the port is in use', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const { url, token } = await startTarget({ router, network: LOOPBACK })
    const report = await look(url, { token, webhook: { url: new URL('https://hook.example.com/'), port } })
    other.close()
    expect(findingOf(report, 'events.challenge')?.seen).to.equal(
      `port ${port} on 127.0.0.1 is not available. Use another --events-port`,
    )
  })
})

describe('the webhook receiver of doctor', () => {
  it('accepts only messages to its own URLs, of a limited size and number', async () => {
    const receiver = new WebhookReceiver()
    const port = await freePort()
    await receiver.listen(port)
    try {
      const base = `http://127.0.0.1:${port}/hook?a=b`
      const endpoint = receiver.endpoint(new URL(base), true)
      const post = async (url: string, body: string, method = 'POST') => {
        const response = await fetch(url, { method, ...(method === 'POST' && { body }) })
        return [response.status, await response.text()]
      }
      expect(endpoint.url).to.match(/\/hook\?a=b&doctor=[\w-]{22}$/)
      for (const url of [base, `${base}&doctor=`, `${base}&doctor=constructor`, `http://127.0.0.1:${port}//`])
        expect(await post(url, '{}')).to.deep.equal([404, ''])
      expect(await post(endpoint.url, '', 'GET')).to.deep.equal([404, ''])
      expect(await post(endpoint.url, ' '.repeat(262_145))).to.deep.equal([413, ''])
      const challenge = { type: 'verification', challenge: 'c' }
      expect(await post(endpoint.url, JSON.stringify(challenge))).to.deep.equal([200, '{"challenge":"c"}'])
      for (let count = 0; count < 20; count++) expect(await post(endpoint.url, '{')).to.deep.equal([204, ''])
      expect(await post(endpoint.url, '{}')).to.deep.equal([429, ''])
      expect(endpoint.messages).to.have.length(20)
    } finally {
      receiver.close()
    }
  })
})
