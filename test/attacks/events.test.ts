import { once } from 'node:events'
import { createServer as createTlsServer } from 'node:https'
import type { LookupFunction, Socket } from 'node:net'
import { expect } from 'chai'
import { type DeliveryOutcome, memoryEventStore } from '../../src/index.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../src/telemetry/index.ts'
import { spokenOAuth, token } from '../support/attacks/spoken-tokens.ts'
import { selfSigned } from '../support/certificates.ts'
import { type HostileServer, MISBEHAVIORS, startHostileServer } from '../support/hostile-server.ts'
import {
  accept,
  certificate,
  isSignedWith,
  OTHER_SECRET,
  quickStore,
  type ReceivedMessage,
  SECRET,
  serveWebhooks,
  startReceiver,
  type WebhookReceiver,
  type WebhookServer,
} from '../support/mcp/webhooks.ts'
import { bearer, modern, send } from '../support/mcp/wire.ts'
import { until } from '../support/until.ts'

const INVALID = -32_602
const EXHAUSTED = -32_013
const UNSUPPORTED = -32_014
const CALLBACK = -32_015

const LIMIT_MS = 300
/** The tolerance for a busy machine. */
const TOLERANCE_MS = 2_000

/** Resolves hosts by a table, and all others to nothing. */
function lookupIn(hosts: Readonly<Record<string, readonly string[]>>): LookupFunction {
  return (host, _options, callback) => {
    const found = (hosts[host] ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    if (found.length > 0) callback(null, found)
    else callback(Object.assign(new Error('not found'), { code: 'ENOTFOUND' }), '')
  }
}

describe('attacks: events and webhooks', function () {
  this.timeout(30_000)

  let receiver: WebhookReceiver
  let server: WebhookServer
  /** The connections to the receiver. */
  let connections: number
  const hostiles: HostileServer[] = []

  beforeEach(async () => {
    connections = 0
    receiver = await startReceiver()
    receiver.server.on('connection', () => connections++)
    server = await serveWebhooks(receiver.network)
  })
  afterEach(async () => {
    await Promise.all(hostiles.splice(0).map((hostile) => hostile.close()))
  })

  const stats = () => server.adapter.events.stats()
  const emit = (id = 1, options = {}) => server.adapter.events.emit('incident', { id }, options)
  const params = (url: string, args: object = {}) => ({
    name: 'incident',
    arguments: args,
    delivery: { url },
  })
  const answerWith =
    (status: number, headers = {}, body = '') =>
    (message: ReceivedMessage) =>
      message.json.type === 'verification' ? accept(message) : { status, headers, body }

  /** A callback URL that must never be connected to. PORT is the port of the receiver. */
  const forbiddenUrl = (
    attack: string,
    url: string,
    code: number,
    hosts: readonly string[] = [],
  ): Mocha.Test =>
    it(`callback URLs: ${attack}: ${url}: ${
      code === INVALID
        ? 'it is rejected as invalid'
        : 'no connection is made, and the error says only that it failed'
    }`, async () => {
      const own = await serveWebhooks({
        lookup: lookupIn({ 'rebind.example.com': hosts, localhost: ['127.0.0.1'], 'localhost.': ['::1'] }),
      })
      const error = await own.subscribe('eve', url.replace('PORT', String(receiver.port)))
      expect(error.code).to.equal(code)
      if (code === CALLBACK) expect(error.data).to.deep.equal({ reason: 'connection_refused' })
      expect(connections).to.equal(0)
      expect(own.adapter.events.stats().subscribed).to.equal(0)
    })

  forbiddenUrl('loopback', 'https://127.0.0.1:PORT/', INVALID)
  forbiddenUrl('another loopback address', 'https://127.8.9.10:PORT/', INVALID)
  forbiddenUrl('loopback in its short form', 'https://127.1:PORT/', INVALID)
  forbiddenUrl('loopback as one decimal number', 'https://2130706433:PORT/', INVALID)
  forbiddenUrl('loopback in hexadecimal', 'https://0x7f000001:PORT/', INVALID)
  forbiddenUrl('loopback in octal', 'https://0177.0.0.01:PORT/', INVALID)
  forbiddenUrl('loopback in mixed forms', 'https://0x7f.0.1:PORT/', INVALID)
  forbiddenUrl('loopback in full-width digits', 'https://１２７.０.０.１:PORT/', INVALID)
  forbiddenUrl('loopback in circled digits', 'https://①②⑦.⓪.⓪.①:PORT/', INVALID)
  forbiddenUrl('loopback with a tab in it', 'https://127.0.\t0.1:PORT/', INVALID)
  forbiddenUrl('the unspecified address', 'https://0.0.0.0:PORT/', INVALID)
  forbiddenUrl('the name localhost', 'https://localhost:PORT/', CALLBACK)
  forbiddenUrl('the name localhost with a final dot', 'https://localhost.:PORT/', CALLBACK)
  forbiddenUrl('loopback of IPv6', 'https://[::1]:PORT/', INVALID)
  forbiddenUrl('the unspecified address of IPv6', 'https://[::]:PORT/', INVALID)
  forbiddenUrl('loopback mapped to IPv6', 'https://[::ffff:127.0.0.1]:PORT/', INVALID)
  forbiddenUrl('loopback mapped to IPv6 in hexadecimal', 'https://[::ffff:7f00:1]:PORT/', INVALID)
  forbiddenUrl('loopback as a compatible address of IPv6', 'https://[::127.0.0.1]:PORT/', INVALID)
  forbiddenUrl('loopback behind NAT64', 'https://[64:ff9b::7f00:1]:PORT/', INVALID)
  forbiddenUrl('loopback behind a local NAT64', 'https://[64:ff9b:1::7f00:1]:PORT/', INVALID)
  forbiddenUrl('loopback behind 6to4', 'https://[2002:7f00:1::]:PORT/', INVALID)
  forbiddenUrl('Teredo', 'https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/', INVALID)
  forbiddenUrl('a link-local address of IPv6', 'https://[fe80::1]/', INVALID)
  forbiddenUrl('a link-local address with a zone', 'https://[fe80::1%25lo]/', INVALID)
  forbiddenUrl('a unique local address', 'https://[fd12:3456::1]/', INVALID)
  forbiddenUrl('the metadata service of a cloud', 'https://169.254.169.254/latest/meta-data/', INVALID)
  forbiddenUrl('the metadata service of a cloud over IPv6', 'https://[fd00:ec2::254]/latest/', INVALID)
  forbiddenUrl('the metadata service in the shared address space', 'https://100.100.100.200/', INVALID)
  forbiddenUrl('a private network (10/8)', 'https://10.0.0.1/', INVALID)
  forbiddenUrl('a private network (172.16/12)', 'https://172.31.255.255/', INVALID)
  forbiddenUrl('a private network (192.168/16)', 'https://192.168.0.1/', INVALID)
  forbiddenUrl('a multicast address', 'https://239.255.255.250/', INVALID)
  forbiddenUrl('the broadcast address', 'https://255.255.255.255/', INVALID)
  forbiddenUrl('a network for benchmarks', 'https://198.19.0.1/', INVALID)
  forbiddenUrl('a public name before an at sign', 'https://hook.example.com@127.0.0.1:PORT/', INVALID)
  forbiddenUrl('a user and a password', 'https://user:password@hook.example.com/', INVALID)
  forbiddenUrl('plain HTTP', 'http://127.0.0.1:PORT/', INVALID)
  forbiddenUrl('a file', 'file:///etc/passwd', INVALID)
  forbiddenUrl('another protocol', 'gopher://127.0.0.1:PORT/_x', INVALID)
  forbiddenUrl('a port of a well-known service', 'https://hook.example.com:25/', INVALID)
  forbiddenUrl('a name with a private address', 'https://rebind.example.com:PORT/', CALLBACK, ['127.0.0.1'])
  forbiddenUrl('a name with a public and a private address', 'https://rebind.example.com:PORT/x', CALLBACK, [
    '93.184.215.14',
    '127.0.0.1',
  ])

  forbiddenUrl('a name with a mapped private address', 'https://rebind.example.com:PORT/y', CALLBACK, [
    '::ffff:127.0.0.1',
  ])

  forbiddenUrl('a name without an address', 'https://rebind.example.com:PORT/z', CALLBACK)

  for (const url of [
    5,
    null,
    ['https://hook.example.com/'],
    { href: 'https://hook.example.com/' },
    `https://a.example/${'x'.repeat(3_000)}`,
  ])
    it(`callback URLs: a URL of the form ${JSON.stringify(url).slice(0, 40)}: it is rejected as invalid`, async () =>
      void expect((await server.subscribe('eve', url as string)).code).to.equal(INVALID))

  it('callback URLs: a host whose address becomes private after the challenge (DNS rebinding): each attempt resolves once and connects only to what it has checked; the victim sees nothing', async () => {
    let victimConnections = 0
    const victim = createTlsServer(selfSigned('hook.example.com'), (_req, res) => res.end('{}'))
    victim.on('connection', () => victimConnections++)
    await once(victim.listen(receiver.port, '127.0.0.2'), 'listening')
    let lookups = 0
    let address = '127.0.0.1'
    const own = await serveWebhooks({
      ...receiver.network,
      lookup: (_host, _options, callback) => {
        lookups++
        callback(null, [{ address, family: 4 }])
      },
    })
    try {
      const url = `https://hook.example.com:${receiver.port}/`
      expect((await own.subscribe('eve', url)).id).to.match(/^sub_/)
      expect(lookups).to.equal(1)
      address = '127.0.0.2'
      await own.adapter.events.emit('incident', { id: 1 })
      await until(() => own.adapter.events.stats().failed === 1, 2)
      expect([lookups, victimConnections]).to.deep.equal([2, 0])
    } finally {
      victim.close()
      victim.closeAllConnections()
    }
  })

  for (const status of [301, 302, 303, 307, 308])
    it(`callback URLs: a redirect (${status}) to an internal address, for the challenge and for an event: it is not followed`, async () => {
      const victim = await startReceiver()
      const location = { location: victim.url }
      receiver.respond = () => ({ status, headers: location })
      expect((await server.subscribe('eve', receiver.url)).data).to.deep.equal({ reason: 'http_4xx' })
      receiver.respond = answerWith(status, location)
      await server.subscribe('eve', receiver.url)
      await emit()
      await until(() => stats().failed === 1, 2)
      expect(victim.messages).to.deep.equal([])
    })

  it('callback URLs: an endpoint whose certificate is for another host: nothing is sent, and the error is tls_error', async () => {
    const lookup = lookupIn({ 'other.example.org': ['127.0.0.1'] })
    const own = await serveWebhooks({ ...receiver.network, lookup })
    const error = await own.subscribe('eve', `https://other.example.org:${receiver.port}/`)
    expect(error.data).to.deep.equal({ reason: 'tls_error' })
    expect(receiver.messages).to.deep.equal([])
  })

  it('callback URLs: a scan of ports and addresses through the errors: a private address, a closed port, and a missing name have one error', async () => {
    const closed = await startReceiver()
    await closed.close()
    const lookup = lookupIn({ 'private.example.com': ['10.0.0.1'] })
    const own = await serveWebhooks({ ...receiver.network, lookup })
    const errors = await Promise.all(
      [closed.url, 'https://private.example.com/', 'https://missing.example.com/'].map((url) =>
        own.subscribe('eve', url),
      ),
    )
    for (const error of errors) expect(error).to.deep.equal(errors[0])
  })

  /** An answer to the challenge that must not verify the endpoint. */
  const wrongAnswer = (
    attack: string,
    respond: (message: ReceivedMessage) => object,
    reason = 'challenge_failed',
  ): Mocha.Test =>
    it(`challenges: ${attack}: the error is ${reason}, and no subscription is made`, async () => {
      receiver.respond = respond
      const error = await server.subscribe('eve', receiver.url)
      expect(error).to.deep.include({ code: CALLBACK, data: { reason } })
      expect(receiver.messages).to.have.length(1)
      await emit()
      expect(stats()).to.deep.include({ subscribed: 0 })
      expect(receiver.deliveries).to.deep.equal([])
    })
  let earlier = ''

  wrongAnswer('an endpoint that accepts everything', () => ({ status: 200, body: '{}' }))
  wrongAnswer('an endpoint without a body', () => ({ status: 204 }))
  wrongAnswer('an endpoint that reflects the body', ({ text }) => ({ body: text }))
  wrongAnswer('the challenge as a text', ({ json }) => ({ body: JSON.stringify(json.challenge) }))
  wrongAnswer('the challenge in a list', ({ json }) => ({ body: JSON.stringify([json.challenge]) }))
  wrongAnswer('the challenge deeper in the body', ({ json }) => ({
    body: JSON.stringify({ json: { challenge: json.challenge } }),
  }))

  wrongAnswer('the challenge among other characters', ({ json }) => ({
    body: JSON.stringify({ challenge: `${json.challenge} ` }),
  }))

  wrongAnswer('the challenge in a list of one', ({ json }) => ({
    body: JSON.stringify({ challenge: [json.challenge] }),
  }))

  wrongAnswer('an empty challenge', () => ({ body: '{"challenge":""}' }))
  wrongAnswer('the challenge as a member of the prototype', ({ json }) => ({
    body: `{"__proto__":{"challenge":"${json.challenge}"}}`,
  }))

  wrongAnswer(
    'the challenge in a body of more than 4 KiB',
    ({ json }) => ({ body: JSON.stringify({ challenge: json.challenge, more: 'x'.repeat(5_000) }) }),
    'http_5xx',
  )

  wrongAnswer(
    'the challenge with the status 500',
    (message) => ({ ...accept(message), status: 500 }),
    'http_5xx',
  )

  wrongAnswer(
    'the challenge with the status 404',
    (message) => ({ ...accept(message), status: 404 }),
    'http_4xx',
  )

  it('challenges: the challenge of an earlier verification (replay): the error is challenge_failed, since each challenge is new', async () => {
    receiver.respond = ({ json }) => {
      earlier = json.challenge
      return { status: 200, body: '{}' }
    }
    await server.subscribe('eve', receiver.url)
    const first = earlier
    receiver.respond = () => ({ body: JSON.stringify({ challenge: first }) })
    expect((await server.subscribe('eve', receiver.url)).data.reason).to.equal('challenge_failed')
  })

  it('challenges: a subscription of another user for a verified URL: the other user needs an own challenge', async () => {
    await server.subscribe('ada', receiver.url)
    receiver.respond = () => ({ status: 403 })
    expect((await server.subscribe('eve', receiver.url)).data.reason).to.equal('http_4xx')
    expect(receiver.messages).to.have.length(2)
  })

  it('challenges: an event while the challenge is not answered: the endpoint gets nothing but the challenge', async () => {
    let answer: ((response: object) => void) | undefined
    receiver.respond = () =>
      new Promise((resolve) => {
        answer = resolve
      })
    const subscribing = server.subscribe('eve', receiver.url)
    await until(() => answer !== undefined, 2)
    await emit()
    answer?.({ status: 500 })
    expect((await subscribing).code).to.equal(CALLBACK)
    expect(receiver.deliveries).to.deep.equal([])
  })

  it('challenges: 50 callback URLs of one user at the server of a victim (amplification): at most 20 challenges in a minute', async () => {
    receiver.respond = () => ({ status: 404 })
    for (let index = 0; index < 50; index++) await server.subscribe('eve', `${receiver.url}/${index}`)
    expect(receiver.messages).to.have.length(20)
  })

  it('challenges: 100 users name the server of a victim: after 60 failures in a minute, only users without a failure get a challenge, also at another port', async () => {
    receiver.respond = () => ({ status: 404 })
    for (let index = 0; index < 60; index++) await server.subscribe(`eve${index}`, receiver.url)
    const other = await startReceiver()
    for (const { url } of [receiver, other])
      expect(await server.subscribe('eve1', `${url}/again`)).to.deep.include({
        code: EXHAUSTED,
        data: { limit: 'challenges', max: 60 },
      })
    expect(receiver.messages).to.have.length(60)
    receiver.respond = accept
    expect((await server.subscribe('ada', receiver.url)).id).to.match(/^sub_/)
  })

  it('challenges: 40 challenges of one user that succeed, and 40 that fail: only 20 that fail are sent, and the user keeps the subscriptions', async () => {
    for (let index = 0; index < 40; index++)
      expect((await server.subscribe('eve', `${receiver.url}/${index}`)).id).to.match(/^sub_/)
    receiver.respond = () => ({ status: 404 })
    const codes = new Map<number, number>()
    for (let index = 0; index < 40; index++) {
      const { code } = await server.subscribe('eve', `${receiver.url}/bad/${index}`)
      codes.set(code, (codes.get(code) ?? 0) + 1)
    }
    expect(codes).to.deep.equal(
      new Map([
        [CALLBACK, 20],
        [EXHAUSTED, 20],
      ]),
    )
    expect((await server.subscribe('eve', `${receiver.url}/7`)).deliveryStatus).to.include({
      active: true,
    })
  })

  it('challenges: 30 subscriptions at the same time, whose challenges are answered late: at most 8 run at once at one host', async () => {
    const held: ((response: object) => void)[] = []
    let most = 0
    receiver.respond = () =>
      new Promise((resolve) => {
        most = Math.max(most, held.push(resolve))
      })
    let isOver = false
    const all = Promise.all(
      Array.from({ length: 30 }, (_, index) => server.subscribe(`eve${index}`, receiver.url)),
    ).finally(() => {
      isOver = true
    })
    await until(() => held.length >= 8, 2)
    while (!isOver) {
      // A ninth challenge would arrive within this time.
      await new Promise((resolve) => setTimeout(resolve, 100))
      for (const answer of held.splice(0)) answer({ status: 500 })
    }
    expect(new Set((await all).map((error) => error.data.reason))).to.deep.equal(new Set(['http_5xx']))
    expect(most).to.equal(8)
  })

  it('challenges: 30 subscriptions at the same time, whose challenges are not answered: all end with a timeout, and at most 8 connections are open at once', async () => {
    const own = await serveWebhooks({ ...receiver.network, timeoutMs: LIMIT_MS })
    const sockets = new Set<Socket>()
    receiver.server.on('secureConnection', (socket) => sockets.add(socket))
    let most = 0
    receiver.respond = () => {
      most = Math.max(most, [...sockets].filter((socket) => !socket.destroyed).length)
      return undefined
    }
    const all = await Promise.all(
      Array.from({ length: 30 }, (_, index) => own.subscribe(`eve${index}`, receiver.url)),
    )
    expect(all.every((error) => error.data.reason === 'timeout')).to.equal(true)
    expect(most).to.be.within(1, 8)
  })

  it('challenges: challenges to a path of a shared host that never answers, so that the host gets a pause: the deliveries of others to the host go on', async () => {
    const own = await serveWebhooks({ ...receiver.network, timeoutMs: LIMIT_MS })
    await own.subscribe('ada', receiver.url)
    receiver.respond = () => undefined
    await Promise.all(
      Array.from({ length: 8 }, (_, index) => own.subscribe(`eve${index}`, `${receiver.url}/eve`)),
    )
    receiver.respond = accept
    await own.adapter.events.emit('incident', { id: 1 })
    await receiver.received(1)
  })

  it('subscriptions of others, and floods: a subscription without a token: 401, and no challenge is sent', async () => {
    const own = await serveWebhooks(receiver.network, { oauth: spokenOAuth({ anonymous: true }) })
    expect(await own.subscribe('', receiver.url)).to.equal('invalid_token')
    expect(await own.ask('', 'events/unsubscribe', params(receiver.url))).to.equal('invalid_token')
    expect(connections).to.equal(0)
  })

  it('subscriptions of others, and floods: an event type without its scope, and of another one by its name: no challenge is sent, and the event type is not listed', async () => {
    const answer = await server.subscribe('eve', receiver.url, { name: 'secret' })
    expect(answer.id).to.equal(undefined)
    const { events } = await server.ask('eve', 'events/list')
    expect(events.map(({ name }: { name: string }) => name))
      .to.include('incident')
      .and.not.include('secret')
    expect(connections).to.equal(0)
  })

  it('subscriptions of others, and floods: unsubscribe with the id of a subscription: the id is ignored', async () => {
    const { id } = await server.subscribe('ada', receiver.url)
    for (const user of ['eve', 'ada'])
      expect((await server.ask(user, 'events/unsubscribe', { id, name: 'incident' })).code).to.equal(INVALID)
    await emit()
    await receiver.received(1)
  })

  it('subscriptions of others, and floods: a new secret for the subscription of another user: it is another subscription, and the messages of the first are signed as before', async () => {
    const ada = await server.subscribe('ada', receiver.url)
    const eve = await server.subscribe('eve', receiver.url, {
      delivery: { url: receiver.url, secret: OTHER_SECRET },
    })
    expect(eve.id).to.not.equal(ada.id)
    await emit()
    for (const message of await receiver.received(2)) {
      const isOfAda = message.headers['x-mcp-subscription-id'] === ada.id
      expect(isSignedWith(message, SECRET)).to.equal(isOfAda)
      expect(isSignedWith(message, OTHER_SECRET)).to.equal(!isOfAda)
    }
  })

  it('subscriptions of others, and floods: a subscription with the id, the owner, and the auth of another one in its parameters: they are ignored', async () => {
    const { id } = await server.subscribe('ada', receiver.url)
    const eve = await server.subscribe('eve', receiver.url, {
      id,
      owner: 'ada',
      auth: { scopes: ['admin'] },
    })
    expect(eve.id).to.not.equal(id)
    await emit(1, { to: 'eve' })
    const [message] = await receiver.received(1)
    expect(message?.headers['x-mcp-subscription-id']).to.equal(eve.id)
  })

  it('subscriptions of others, and floods: an event for one user, with a subscription of another for everything: only the user receives it', async () => {
    const ada = await server.subscribe('ada', `${receiver.url}/ada`)
    await server.subscribe('eve', `${receiver.url}/eve`)
    await emit(1, { to: 'ada' })
    await emit(2, { to: 'ada' })
    const all = await receiver.received(2)
    expect(all.map(({ headers }) => headers['x-mcp-subscription-id'])).to.deep.equal([ada.id, ada.id])
    expect(stats().emitted).to.equal(2)
  })

  it('subscriptions of others, and floods: 101 subscriptions of one user (flood): -32013 for the last one, and another user can subscribe', async () => {
    for (let index = 0; index < 100; index++)
      expect((await server.subscribe('eve', receiver.url, { arguments: { index } })).id).to.match(/^sub_/)
    const error = await server.subscribe('eve', receiver.url, { arguments: { index: 100 } })
    expect(error).to.deep.include({ code: EXHAUSTED, data: { limit: 'subscriptions', max: 100 } })
    const renewed = await server.subscribe('eve', receiver.url, { arguments: { index: 0 } })
    expect(renewed.truncated).to.equal(false)
    expect(receiver.messages).to.have.length(1)
    expect((await server.subscribe('ada', receiver.url)).id).to.match(/^sub_/)
  })

  it('subscriptions of others, and floods: subscriptions with large arguments, to fill the memory: the bytes of one owner are bounded, and another user can subscribe', async () => {
    const own = await serveWebhooks(receiver.network, {
      events: { store: memoryEventStore({ maxBytesPerOwner: 100_000 }) },
    })
    const outcomes: any[] = []
    for (let index = 0; index < 20; index++)
      outcomes.push(
        await own.subscribe('eve', receiver.url, { arguments: { index, text: 'x'.repeat(10_000) } }),
      )
    expect(outcomes.filter(({ id }) => id !== undefined).length).to.be.within(1, 5)
    expect(outcomes.at(-1).code).to.equal(EXHAUSTED)
    expect((await own.subscribe('ada', receiver.url)).id).to.match(/^sub_/)
  })

  it('subscriptions of others, and floods: arguments that are nested 5,000 times: an error, and the server works on', async () => {
    const nested = `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`
    const request = modern(
      'events/subscribe',
      { ...params(receiver.url), arguments: {} },
      bearer(token('eve')),
    )
    const answer = await send(server.port, {
      ...request,
      body: String(request.body).replace('"arguments":{}', `"arguments":${nested}`),
    })
    expect(answer.message?.result).to.equal(undefined)
    expect((await server.subscribe('ada', receiver.url)).id).to.match(/^sub_/)
  })

  it('subscriptions of others, and floods: claims of a user that are larger than a record may be: -32013, and no challenge is sent', async () => {
    const own = await serveWebhooks(receiver.network, {
      oauth: {
        issuer: 'https://auth.example.com',
        resource: 'https://mcp.example.com/mcp',
        verifyToken: () => ({ valid: true, user: { id: 'eve', claim: 'x'.repeat(200_000) }, scopes: [] }),
      },
    })
    expect(await own.subscribe('eve', receiver.url)).to.deep.include({ code: EXHAUSTED })
    expect(connections).to.equal(0)
  })

  for (const [attack, rest] of [
    ['a lifetime of 0', { ttlMs: 0 }],
    ['a lifetime that is not whole', { ttlMs: 1.5 }],
    ['a lifetime as a text', { ttlMs: '60000' }],
    ['a lifetime beyond all numbers', { ttlMs: 1e308 }],
    ['a delivery that is a list', { delivery: [] }],
    ['no delivery', { delivery: undefined }],
    ['arguments of more than 16 KiB', { arguments: { text: 'x'.repeat(20_000) } }],
  ] as const)
    it(`subscriptions of others, and floods: ${attack}: -32602, and no challenge is sent`, async () => {
      expect((await server.subscribe('eve', receiver.url, rest)).code).to.equal(INVALID)
      expect(connections).to.equal(0)
    })

  for (const cursor of ['0.0', '../../etc', 'x'.repeat(10_000), '\u0000', 'deadbeef.zzzzzzzzzzz'])
    it(`subscriptions of others, and floods: a cursor that was never issued: ${JSON.stringify(cursor).slice(0, 24)}: the subscription is made, with truncated`, async () => {
      const made = await server.subscribe('eve', receiver.url, { cursor })
      expect(made).to.include({ truncated: true })
    })

  it('subscriptions of others, and floods: a cursor of another user: it names a position only: events for the other user are not replayed', async () => {
    const ada = await server.subscribe('ada', `${receiver.url}/ada`)
    await emit(1, { to: 'ada' })
    await receiver.received(1)
    await server.subscribe('eve', `${receiver.url}/eve`, { cursor: ada.cursor })
    await emit(2)
    const all = await receiver.received(3)
    expect(all.filter(({ path }) => path.endsWith('/eve')).map(({ json }) => json.data.id)).to.deep.equal([2])
  })

  for (const name of [
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '',
    'incident\u0000',
    'INCIDENT',
  ])
    it(`subscriptions of others, and floods: an event type with the name ${JSON.stringify(name)}: it does not exist`, async () => {
      const headers = bearer(token('eve'))
      const request = { ...params(receiver.url), name, delivery: { url: receiver.url, secret: SECRET } }
      // A header cannot carry each name.
      const { message } = await send(
        server.port,
        modern('events/subscribe', request, { ...headers, 'mcp-name': undefined }),
      )
      expect(message.error?.code ?? 0).to.be.lessThan(0)
      expect(connections).to.equal(0)
    })

  it('subscriptions of others, and floods: arguments with the keys __proto__ and constructor: no prototype changes, and match sees them as own keys at most', async () => {
    const headers = bearer(token('eve'))
    const request = modern(
      'events/subscribe',
      { ...params(receiver.url), delivery: { url: receiver.url, secret: SECRET } },
      headers,
    )
    const body = String(request.body).replace(
      '"arguments":{}',
      '"arguments":{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"isAdmin":true}}}',
    )
    const { message } = await send(server.port, { ...request, body })
    expect(message.result?.id ?? message.error?.code).to.not.equal(undefined)
    const seen: unknown[] = []
    await emit(1, { match: ({ args }: { args: Record<string, unknown> }) => seen.push(args.isAdmin) < 0 })
    expect(({} as { isAdmin?: unknown }).isAdmin).to.equal(undefined)
    expect(seen.every((value) => value === undefined)).to.equal(true)
  })

  it('subscriptions of others, and floods: arguments that differ only in Unicode normalization, or in lone surrogates: they are different subscriptions, and each can be ended', async () => {
    const ids = new Set<string>()
    const all = ['é', 'e\u0301', '\u202Eé', 'é\u0000']
    for (const severity of all) {
      const made = await server.subscribe('eve', receiver.url, { arguments: { severity } })
      ids.add(made.id)
    }
    expect(ids.size).to.equal(all.length)
    for (const severity of all)
      expect(
        (await server.ask('eve', 'events/unsubscribe', params(receiver.url, { severity }))).code,
      ).to.equal(undefined)
    expect(stats().unsubscribed).to.equal(all.length)
  })

  it('subscriptions of others, and floods: arguments with their keys in another order: it is the same subscription, which is not counted twice', async () => {
    const one = await server.subscribe('eve', receiver.url, { arguments: { severity: 'x', b: 1 } })
    const two = await server.subscribe('eve', receiver.url, { arguments: { b: 1, severity: 'x' } })
    expect(two.id).to.equal(one.id)
    expect(stats()).to.include({ subscribed: 1, renewed: 1 })
  })

  for (const mode of ['push', 'poll', '__proto__', 'x'.repeat(10_000)])
    it(`subscriptions of others, and floods: events/subscribe with the delivery ${mode.slice(0, 12)}: -32014, and no challenge is sent`, async () => {
      const delivery = { mode, url: receiver.url, secret: SECRET }
      const error = await server.subscribe('eve', receiver.url, { delivery })
      expect(error.code).to.equal(UNSUPPORTED)
      expect(JSON.stringify(error).length).to.be.lessThan(500)
      expect(connections).to.equal(0)
    })

  for (const [attack, secret] of [
    ['of 23 bytes', `whsec_${Buffer.alloc(23, 3).toString('base64')}`],
    ['of 65 bytes', `whsec_${Buffer.alloc(65, 3).toString('base64')}`],
    ['of 1 MB', `whsec_${'A'.repeat(1_000_000)}`],
    ['without its prefix', Buffer.alloc(32, 3).toString('base64')],
    ['that is not base64', `whsec_${'?'.repeat(44)}`],
    ['with a line break', `whsec_${Buffer.alloc(32, 3).toString('base64')}\r\nx: y`],
    ['that is an object', { toString: 'whsec_' }],
    ['that is missing', undefined],
  ] as const)
    it(`secrets: a secret ${attack}: -32602 without the secret in the error, and no challenge is sent`, async () => {
      const error = await server.subscribe('eve', receiver.url, {
        delivery: { url: receiver.url, secret },
      })
      expect(error.code).to.equal(INVALID)
      expect(JSON.stringify(error)).to.not.contain('AwMD')
      expect(JSON.stringify(error).length).to.be.lessThan(500)
      expect(connections).to.equal(0)
    })

  it('secrets: a search for secrets in responses, telemetry, stderr, and the numbers, also after failures: neither the secret, nor the token, nor the query of the URL is found', async () => {
    const events = InMemoryTransportAdapter.create()
    const telemetry = KitTelemetry.create()
      .withSampling({ debugRate: 1, infoRate: 1 })
      .addTransport(events)
      .build()
    const write = process.stderr.write
    let text = ''
    process.stderr.write = ((chunk: unknown) => {
      text += String(chunk)
      return true
    }) as typeof write
    try {
      const own = await serveWebhooks(receiver.network, { telemetry })
      const url = `${receiver.url}?key=secret-of-the-url`
      const say = (value: unknown) => {
        text += JSON.stringify(value)
      }
      receiver.respond = () => ({ status: 500, body: 'secret-of-the-response' })
      say(await own.subscribe('ada', url))
      receiver.respond = answerWith(500, { 'x-y': 'secret-of-the-response' }, 'secret-of-the-response')
      say(await own.subscribe('ada', url))
      await own.adapter.events.emit('incident', { id: 1, text: 'secret-of-the-data' })
      await until(() => own.adapter.events.stats().failed === 1, 2)
      say(await own.subscribe('ada', url))
      say(own.adapter.events.stats())
      say(await own.ask('ada', 'events/unsubscribe', params(url)))
      await telemetry.flush()
      say(events.getEvents())
      expect(
        events
          .getEvents()
          .map(({ name }) => name)
          .some((name) => name.includes('event')),
      ).to.equal(true)
    } finally {
      process.stderr.write = write
      await telemetry.shutdown()
    }
    for (const secret of [
      SECRET,
      SECRET.slice(6),
      token('ada'),
      'secret-of-the-url',
      'secret-of-the-response',
      'secret-of-the-data',
    ])
      expect(text).to.not.contain(secret)
  })

  it('secrets: a search for the token and cookies in what an endpoint receives, and in the store: they are not there', async () => {
    const store = memoryEventStore()
    const own = await serveWebhooks(receiver.network, { events: { store } })
    const { id } = await own.subscribe('ada', receiver.url)
    await own.adapter.events.emit('incident', { id: 1 })
    const [message] = (await receiver.received(1)) as [ReceivedMessage]
    expect(Object.keys(message.headers).sort()).to.deep.equal([
      'accept',
      'connection',
      'content-length',
      'content-type',
      'host',
      'user-agent',
      'webhook-id',
      'webhook-signature',
      'webhook-timestamp',
      'x-mcp-subscription-id',
    ])
    expect(JSON.stringify(await store.get(id))).to.not.contain(token('ada'))
    expect(message.text).to.not.contain('ada')
  })

  it('secrets: ten secrets in a row, so that all of them sign: at most two sign a message', async () => {
    for (let index = 0; index < 10; index++) {
      const secret = `whsec_${Buffer.alloc(32, index).toString('base64')}`
      await server.subscribe('ada', receiver.url, { delivery: { url: receiver.url, secret } })
    }
    await emit()
    const [message] = await receiver.received(1)
    expect(message?.headers['webhook-signature']?.split(' ')).to.have.length(2)
  })

  for (const eventId of ['a\r\nx-admin: 1', 'a b', 'é', '', 'x'.repeat(129), '\u0000'])
    it(`secrets: an event id that would change the headers: ${JSON.stringify(eventId).slice(0, 20)}: emit rejects it`, async () => {
      await server.subscribe('ada', receiver.url)
      const error = await emit(1, { eventId }).catch((reason: Error) => reason)
      expect(String(error)).to.contain('eventId')
      expect(stats().emitted).to.equal(0)
    })

  /** Starts an endpoint that answers challenges, and then misbehaves. */
  async function hostile(name: string): Promise<HostileServer> {
    const started = await startHostileServer(MISBEHAVIORS[name] as (typeof MISBEHAVIORS)[string], certificate)
    hostiles.push(started)
    return started
  }

  for (const name of Object.keys(MISBEHAVIORS))
    it(`hostile endpoints: an endpoint that ${name}, for a challenge: an error of one word within the time limit, and the connection is closed`, async () => {
      const endpoint = await hostile(name)
      const own = await serveWebhooks({ ...receiver.network, timeoutMs: LIMIT_MS })
      const startedMs = performance.now()
      const error = await own.subscribe('eve', endpoint.origin)
      expect(performance.now() - startedMs).to.be.lessThan(LIMIT_MS + TOLERANCE_MS)
      expect(error.code).to.equal(CALLBACK)
      expect(error.data.reason).to.be.oneOf([
        'connection_refused',
        'timeout',
        'tls_error',
        'http_4xx',
        'http_5xx',
        'challenge_failed',
      ])
      await until(() => endpoint.connections() === 0, 5)
    })

  for (const name of Object.keys(MISBEHAVIORS))
    it(`hostile endpoints: a verified endpoint that ${name}, for an event: the attempt ends within the time limit, the connection is closed, and others get their event`, async () => {
      const endpoint = await hostile(name)
      const store = memoryEventStore()
      const own = await serveWebhooks({ ...receiver.network, timeoutMs: LIMIT_MS }, { events: { store } })
      const url = `${endpoint.origin}/`
      await own.subscribe('probe', receiver.url)
      const { subscribe } = store
      store.subscribe = (record, options) =>
        subscribe.call(store, { ...record, webhook: { ...record.webhook, url } as never }, options)
      await own.subscribe('probe', receiver.url, { arguments: { severity: 'P1' } })
      const before = performance.now()
      await own.adapter.events.emit('incident', { id: 1 })
      await receiver.received(1)
      await until(() => {
        const { failed, delivered } = own.adapter.events.stats()
        return failed + delivered.webhook === 2
      }, 5)
      expect(performance.now() - before).to.be.lessThan(LIMIT_MS + TOLERANCE_MS)
      await until(() => endpoint.connections() === 0, 5)
    })

  it('hostile endpoints: an endpoint of one user that never answers, with 40 subscriptions: at most 8 requests run at once there, and another user gets an event at once', async () => {
    const slow = await startReceiver()
    const store = memoryEventStore()
    const own = await serveWebhooks(receiver.network, { events: { store } })
    for (let index = 0; index < 40; index++) await own.subscribe('eve', slow.url, { arguments: { index } })
    await own.subscribe('ada', receiver.url)
    slow.respond = () => undefined
    await own.adapter.events.emit('incident', { id: 1 })
    await receiver.received(1)
    const before = performance.now()
    await own.adapter.events.emit('incident', { id: 2 })
    await receiver.received(2)
    expect(performance.now() - before).to.be.lessThan(TOLERANCE_MS)
    expect(slow.deliveries.length).to.be.at.most(8)
  })

  it('hostile endpoints: four users whose 64 endpoints do not answer: they take three quarters of the places, and the event of another user is sent at once', async () => {
    const slow = await Promise.all(Array.from({ length: 8 }, startReceiver))
    for (const [index, { url }] of slow.entries())
      for (let path = 0; path < 8; path++)
        await server.subscribe(`eve${index % 4}`, `${url}/${path}`, { arguments: { severity: 'P1' } })
    await server.subscribe('ada', receiver.url)
    for (const one of slow) one.respond = () => undefined
    await emit(1, { to: ['eve0', 'eve1', 'eve2', 'eve3'] })
    const running = () => slow.reduce((count, { deliveries }) => count + deliveries.length, 0)
    await until(() => running() >= 48, 2)
    await emit(2, { to: 'ada' })
    const [message] = await receiver.received(1)
    expect(message?.json.data.id).to.equal(2)
    expect(running()).to.be.at.most(52)
  })

  for (const value of ['999999999999', '-5', 'Fri, 31 Dec 9999 23:59:59 GMT', 'NaN', 'x'.repeat(10_000)])
    it(`hostile endpoints: Retry-After: ${value.slice(0, 30)}: the wait is at most three minutes`, async () => {
      const outcomes: DeliveryOutcome[] = []
      server = await serveWebhooks(receiver.network, { events: { store: quickStore(outcomes) } })
      await server.subscribe('eve', receiver.url)
      receiver.respond = answerWith(503, { 'retry-after': value })
      await emit()
      await until(() => outcomes.length > 0, 2)
      expect(outcomes[0]).to.have.property('delayMs').that.is.within(5_000, 180_000)
    })

  it('hostile endpoints: 60 events for an endpoint that has gone away (a port that is closed): after five failures, the host gets a pause, and few requests are sent', async () => {
    await server.subscribe('eve', receiver.url)
    await receiver.close()
    for (let id = 0; id < 60; id++) await emit(id)
    await until(() => stats().failed >= 5, 2)
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect(stats().failed).to.be.at.most(16)
    expect(stats().abandoned).to.equal(0)
  })

  it('size of events: an event of more than 256 KiB: emit rejects it, and nothing is stored', async () => {
    await server.subscribe('ada', receiver.url)
    const data = { id: 1, text: 'x'.repeat(262_144) }
    const error = await server.adapter.events.emit('incident', data).catch((reason: Error) => reason)
    expect(String(error)).to.contain('larger than')
    expect(stats().emitted).to.equal(0)
  })

  it('size of events: an event of exactly the largest size, in characters of 3 bytes: the body with its cursor has at most 262,144 bytes', async () => {
    await server.subscribe('ada', receiver.url)
    let characters = 87_300
    const emitOf = (count: number) =>
      server.adapter.events.emit('incident', { id: 1, text: '€'.repeat(count) })
    while (
      !(await emitOf(characters).then(
        () => true,
        () => false,
      ))
    )
      characters--
    const [message] = await receiver.received(1)
    expect(Buffer.byteLength(String(message?.text))).to.be.within(261_000, 262_144)
    expect(isSignedWith(message as ReceivedMessage, SECRET)).to.equal(true)
  })

  it('size of events: events for an endpoint that does not accept them, until the bytes of the owner are used up: further ones are dropped and counted, others receive theirs, and the endpoint learns of the gap', async () => {
    const own = await serveWebhooks(receiver.network, {
      events: { store: memoryEventStore({ maxBytesPerOwner: 6_000 }) },
    })
    await own.subscribe('eve', `${receiver.url}/eve`)
    await own.subscribe('ada', `${receiver.url}/ada`)
    receiver.respond = ({ path, json }) => ({
      status: path.endsWith('/eve') && json.type === undefined ? 500 : 204,
    })
    const ofAda = () => receiver.deliveries.filter(({ path }) => path.endsWith('/ada'))
    for (let id = 0; id < 40; id++) {
      await own.adapter.events.emit('incident', { id, text: 'x'.repeat(500) })
      await until(() => ofAda().length === id + 1, 2)
    }
    await until(() => receiver.deliveries.some(({ json }) => json.type === 'gap'), 2)
    expect(own.adapter.events.stats().dropped).to.be.within(20, 39)
    const gaps = receiver.deliveries.filter(({ json }) => json.type === 'gap')
    expect(gaps.every(({ path }) => path.endsWith('/eve'))).to.equal(true)
  })

  for (const [attack, data] of [
    ['data that is not JSON (a BigInt)', { id: 1, value: 1n }],
    [
      'data with a getter that throws',
      {
        id: 1,
        get self() {
          throw new Error('secret')
        },
      },
    ],
    ['data that does not fit the schema', { id: 'x' }],
    ['data that is missing', undefined],
  ])
    it(`size of events: ${String(attack)}: emit rejects it`, async () => {
      await server.subscribe('ada', receiver.url)
      const error = await server.adapter.events.emit('incident', data).catch((reason: Error) => reason)
      expect(error).to.be.instanceOf(Error)
      expect(stats().emitted).to.equal(0)
      expect(receiver.deliveries).to.deep.equal([])
    })
})
