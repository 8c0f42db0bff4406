import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { signatureOf } from '../../src/mcp/events/webhooks/signature.ts'
import {
  type Fault,
  findingOf,
  type Incoming,
  look,
  type Outgoing,
  problemsOf,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { payload, result, router, statusesOf, tools } from '../support/cli/event-faults.ts'
import { json, on } from '../support/cli/faults.ts'
import { Findings } from '../support/cli/recorded.ts'
import { type RoundTrip, roundTrip, type Tunnel } from '../support/cli/webhook-round-trip.ts'
import { LOOPBACK, type ReceivedMessage, type ReceiverResponse } from '../support/mcp/webhooks.ts'

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

const UNENDED = 'the subscription cannot be ended'
const TRIPS: Readonly<Record<string, RoundTrip>> = {
  'no event arrives': { silent: true },
  'the URL does not lead to doctor': { tunnel: () => ({ status: 502 }) },
  'the server refuses the subscription': {
    fault: subscribing(json({ error: { code: -32_012, message: 'Forbidden' } })),
  },
  'the server sends the secret back': {
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
  'the server does not accept the right answer': {
    tunnel: async (_: unknown, forward: () => Promise<ReceiverResponse>) => ({
      ...(await forward()),
      body: '{}',
    }),
  },
  'the server subscribes without a challenge': {
    fault: subscribing(json({ result: { id: 'sub_1', refreshBefore: '2030-01-01T00:00:00Z' } })),
  },
  'the server accepts every answer': {
    tunnel: async (message: ReceivedMessage, forward: () => Promise<ReceiverResponse>) => {
      await forward()
      return message.json.type === undefined
        ? {}
        : { body: JSON.stringify({ challenge: message.json.challenge }) }
    },
  },
  'the server refuses a wrong answer with another error': {
    fault: {
      alter: (answer: Outgoing) => {
        answer.body = answer.body.replace('-32015', '-32000')
      },
    },
  },
  'the response has no id': { fault: { alter: result('events/subscribe', (value) => delete value.id) } },
  'the response has no time until which the subscription is good': {
    fault: { alter: result('events/subscribe', (value) => (value.refreshBefore = { toString: null })) },
  },
  'messages have no signature': { tunnel: changing({ 'webhook-signature': '' }) },
  'messages have no id': {
    tunnel: ({ headers: { 'webhook-id': _, ...headers } }: ReceivedMessage, forward: any) =>
      forward({ headers }),
  },
  'messages are old': { tunnel: changing({ 'webhook-timestamp': '1700000000' }) },
  'messages name another subscription': { tunnel: changing({ 'x-mcp-subscription-id': 'sub_0' }) },
  'a message has another event type': { tunnel: signedAgain((content) => ({ ...content, name: 'other' })) },
  'a message has no time': {
    tunnel: signedAgain((content) => ({ ...content, timestamp: { toString: null } })),
  },
  'a message has no data': { tunnel: signedAgain(({ data: _, ...content }) => content) },
  'the user may not receive the event': { fault: { router: denied } },
  [UNENDED]: {
    fault: on(
      ({ message }: Incoming) =>
        message?.method === 'events/unsubscribe' && message.params.delivery !== undefined,
      json({ error: { code: -32_011, message: 'No such subscription' } }),
    ),
  },
}

describe('doctor --events', () => {
  it('subscribes after a challenge, gets a signed event, and ends the subscription', async () => {
    const { report, printed, open } = await roundTrip()
    expect(problemsOf(report)).to.deep.equal([])
    expect(statusesOf(report)).to.deep.equal(Array(8).fill('ok'))
    expect(findingOf(report, 'events.delivery')?.seen).to.match(/^order\.paid: event evt_/)
    expect(printed).to.deep.equal(['Waiting 5 s for the event order.paid. Cause one now.'])
    expect(open).to.equal(0)
  })

  const recording = new Findings('webhooks')
  for (const [what, given] of Object.entries(TRIPS))
    it(recording.titleOf(what), async () => {
      const { report, open } = await roundTrip(given)
      recording.expect(what, report)
      if (what !== UNENDED) expect(open, 'open subscriptions').to.equal(0)
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
