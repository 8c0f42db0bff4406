import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, KitMcpServer, memoryEventStore } from '../../../src/index.ts'
import { expectConfigRejection } from '../../support/config-error.ts'
import { NAMED_USERS, serveEvents } from '../../support/mcp/events.ts'
import { incidentRouter } from '../../support/mcp/incident-router.ts'
import { OTHER_SECRET, SECRET, startReceiver } from '../../support/mcp/webhooks.ts'

describe('adapter.events.emit', () => {
  /** Emits an event, and returns who receives it by each delivery: `user severity`. */
  async function receiversOf(options: object): Promise<Record<'poll' | 'stream' | 'webhook', string[]>> {
    const server = await serveEvents()
    const { adapter, ask, stream } = server
    const receiver = await startReceiver()
    const found: Record<'poll' | 'stream' | 'webhook', string[]> = { poll: [], stream: [], webhook: [] }
    const subscribers = ['ada', 'bob'].flatMap((user) => ['P1', 'P2'].map((severity) => ({ user, severity })))
    const webhooks = new Map<string, string>()
    const ready = await Promise.all(
      subscribers.map(async ({ user, severity }) => {
        const subscription = { name: 'incident', arguments: { severity } }
        const { cursor } = await ask(user, 'events/poll', subscription)
        const delivery = { url: receiver.url, secret: OTHER_SECRET }
        const { id } = await ask(user, 'events/subscribe', { ...subscription, delivery })
        webhooks.set(id, `${user} ${severity}`)
        const open = await stream(user, subscription)
        await open.received(1)
        return { user, severity, subscription, cursor, open }
      }),
    )
    await adapter.events.emit('incident', { id: 1 }, options)
    for (const { user, severity, subscription, cursor } of ready) {
      const { events } = await ask(user, 'events/poll', { ...subscription, cursor })
      if (events.length > 0) found.poll.push(`${user} ${severity}`)
    }
    await receiver.received(found.poll.length)
    found.webhook = receiver.deliveries.map(
      ({ headers }) => `${webhooks.get(headers['x-mcp-subscription-id'] ?? '')}`,
    )
    // The streams get a further event, before which the first one must have come.
    await adapter.events.emit('incident', { id: 2 })
    for (const { user, severity, open } of ready) {
      while (open.messages.at(-1)?.params.data?.id !== 2) await open.received(open.messages.length + 1)
      if (open.messages.length === 3) found.stream.push(`${user} ${severity}`)
      open.close()
    }
    await adapter.events.close({ timeoutMs: 1_000 })
    found.webhook.sort()
    return found
  }

  const ALL = ['ada P1', 'ada P2', 'bob P1', 'bob P2']
  for (const [title, options, expected] of [
    ['without options reaches all', {}, ALL],
    ['to a user reaches the subscriptions of the user', { to: 'ada' }, ['ada P1', 'ada P2']],
    ['to a list of users reaches each', { to: ['ada', 'bob'] }, ALL],
    [
      'to a user of an issuer reaches the user of no other issuer',
      { to: { sub: 'ada', issuer: 'https://other.example.com' } },
      [],
    ],
    [
      'with match reaches the subscriptions whose arguments match',
      { match: ({ args }: any) => args.severity === 'P1' },
      ['ada P1', 'bob P1'],
    ],
    [
      'with to and match reaches those that both permit',
      { to: 'bob', match: ({ args }: any) => args.severity === 'P1' },
      ['bob P1'],
    ],
    ['with a match that returns something else than true reaches none', { match: () => 1 as never }, []],
  ] as const)
    it(`emit ${title}, by poll, stream, and webhook alike`, async () => {
      expect(await receiversOf(options)).to.deep.equal({
        poll: expected,
        stream: expected,
        webhook: expected,
      })
    })

  it('emit to the auth of a request reaches its user', async () => {
    let auth: unknown
    const router = incidentRouter.tool('remember', { description: 'Remembers' }, (_args, context) => {
      auth = context.auth
      return 'ok'
    })
    const { adapter, ask } = await serveEvents({ router })
    await ask('ada', 'tools/call', { name: 'remember', arguments: {} })
    const cursors = await Promise.all(
      ['ada', 'bob'].map((user) => ask(user, 'events/poll', { name: 'incident' })),
    )
    await adapter.events.emit('incident', { id: 1 }, { to: auth as never })
    const pages = await Promise.all(
      ['ada', 'bob'].map((user, index) =>
        ask(user, 'events/poll', { name: 'incident', cursor: cursors[index].cursor }),
      ),
    )
    expect(pages.map(({ events }) => events.length)).to.deep.equal([1, 0])
  })

  it('a user of the issuer of the gate is the same with the issuer and without it', async () => {
    const { adapter, ask } = await serveEvents()
    const { cursor } = await ask('ada', 'events/poll', { name: 'incident' })
    const { issuer } = NAMED_USERS
    for (const to of [
      'ada',
      { sub: 'ada' },
      { sub: 'ada', issuer },
      { sub: 'ada', issuer: `${issuer}/other` },
    ])
      await adapter.events.emit('incident', { id: 1 }, { to })
    expect((await ask('ada', 'events/poll', { name: 'incident', cursor })).events).to.have.length(3)
  })

  it('emit resolves to the id of the event, which is the one that was given', async () => {
    const { adapter } = await serveEvents()
    expect(await adapter.events.emit('incident', { id: 1 }, { eventId: 'gh-17' })).to.deep.equal({
      eventId: 'gh-17',
    })
    const { eventId } = await adapter.events.emit('incident', { id: 1 })
    expect(eventId).to.match(/^evt_[0-9a-f-]{36}$/)
  })

  it('a webhook that is made while emit stores the event, and before it, gets the event', async () => {
    const store = memoryEventStore()
    const { append } = store
    const receiver = await startReceiver()
    const delivery = { url: receiver.url, secret: SECRET }
    store.append = async (...args) => {
      await server.ask('ada', 'events/subscribe', { name: 'incident', delivery })
      return await append.apply(store, args)
    }
    const server = await serveEvents({ events: { store } })
    const { eventId } = await server.adapter.events.emit('incident', { id: 1 }, { match: () => true })
    expect((await receiver.received(1))[0]?.json.eventId).to.equal(eventId)
    await server.adapter.events.close()
  })

  it('emit without match asks only for webhooks, in pages that each have the time of one command', async () => {
    const store = memoryEventStore()
    const asked: object[] = []
    store.subscribers = async function* (_name, options) {
      asked.push(options)
      for (let page = 0; page < 4; page++) {
        // Longer than the time of one command in all.
        await new Promise((resolve) => setTimeout(resolve, 1_500))
        yield []
      }
    }
    const { adapter } = await serveEvents({ events: { store } })
    await adapter.events.emit('incident', { id: 1 })
    expect(asked).to.deep.equal([{ owners: undefined, hasWebhook: true, needsArgs: false }])
  })

  it('emit rejects with the error of the store, and can be repeated with the same id', async () => {
    const store = memoryEventStore()
    const { append } = store
    store.append = () => Promise.reject(new Error('Redis is away'))
    const { adapter, ask } = await serveEvents({ events: { store } })
    const { cursor } = await ask('ada', 'events/poll', { name: 'incident' })
    const emit = () => adapter.events.emit('incident', { id: 1 }, { eventId: 'e1' })
    const failed = await emit().catch((error: Error) => error.message)
    expect(failed).to.equal('Redis is away')
    expect(adapter.events.stats().emitted).to.equal(0)
    store.append = append
    expect(await emit()).to.deep.equal({ eventId: 'e1' })
    const { events } = await ask('ada', 'events/poll', { name: 'incident', cursor })
    expect(events.map((event: any) => event.eventId)).to.deep.equal(['e1'])
  })

  const code = 'MCP_CONFIG_INVALID_OPTION'
  for (const [title, args, option, message] of [
    ['an unknown name', ['nope', { id: 1 }], 'name', /'incident'/],
    ['data that the payload rejects', ['incident', { id: 'x' }], 'data', /payload of 'incident': .*id/],
    ['data of more than 256 KiB', ['big', { text: 'x'.repeat(300_000) }], 'data', /larger than 261120 bytes/],
    ['data that is not JSON', ['big', { text: 1n }], 'data', /JSON/],
    ['no data', ['incident', undefined], 'data', /payload of 'incident'/],
    ['an id with a space', ['incident', { id: 1 }, { eventId: 'a b' }], 'eventId', /1 to 128 characters/],
    ['match that is not a function', ['incident', { id: 1 }, { match: {} }], 'match', /function/],
    ['an empty recipient', ['incident', { id: 1 }, { to: '' }], 'to', /the id of a user/],
    ['a recipient that is an object of another form', ['incident', { id: 1 }, { to: {} }], 'to', /issuer/],
    ['options that are not an object', ['incident', { id: 1 }, 1], 'options', /object/],
  ] as const)
    it(`emit with ${title} rejects with a configuration error that names the option`, async () => {
      const router = incidentRouter.event('big', { description: 'Big', payload: z.object({ text: z.any() }) })
      const { adapter } = await serveEvents({ router })
      await expectConfigRejection((adapter.events.emit as any)(...args), { code, option, message })
      expect(adapter.events.stats().emitted).to.equal(0)
    })

  it('emit of data with a getter that throws rejects, and stores nothing', async () => {
    const { adapter } = await serveEvents()
    const data = Object.defineProperty({}, 'id', { enumerable: true, get: () => JSON.parse('') })
    expect(await adapter.events.emit('incident', data).catch((error: Error) => error)).to.be.an('error')
    expect(adapter.events.stats().emitted).to.equal(0)
  })

  it('emit accepts only declared names, their data, and their arguments', async () => {
    const sub = KitMcpRouter.create().event('paid', {
      description: 'Paid',
      input: z.object({ shop: z.string() }),
      payload: z.object({ orderId: z.string() }),
    })
    const router = KitMcpRouter.create()
      .event('tick', { description: 'Tick', payload: z.object({ n: z.number() }) })
      .merge('orders', sub)
    const adapter = createMcpAdapter({ router })
    const built = KitMcpServer.create().router(router).build()
    await adapter.events.emit('tick', { n: 1 })
    await built.events.emit('orders_paid', { orderId: 'A' }, { match: ({ args }) => args.shop.length > 1 })
    const wrong = [
      // @ts-expect-error The name is not declared.
      () => adapter.events.emit('tock', { n: 1 }),
      // @ts-expect-error The payload has a number.
      () => adapter.events.emit('tick', { n: '1' }),
      // @ts-expect-error Merged names have a prefix.
      () => built.events.emit('paid', { orderId: 'A' }),
    ]
    for (const emit of wrong) expect((await emit().catch((error) => error)).code).to.equal(code)
    const match = () =>
      adapter.events.emit(
        'orders_paid',
        { orderId: 'A' },
        // @ts-expect-error The arguments have no such member.
        { match: ({ args }) => args.nope },
      )
    expect(match).to.be.a('function')
  })

  it('emit with an option that does not exist rejects and names it', async () => {
    const { adapter } = await serveEvents()
    const emitted = adapter.events.emit('incident', { id: 1 }, { too: 'ada' } as never)
    await expectConfigRejection(emitted, {
      code: 'MCP_CONFIG_UNKNOWN_OPTION',
      option: 'too',
      message: /'to'/,
    })
  })

  it('emit to a user rejects without OAuth, and emit rejects without an event type', async () => {
    const { adapter } = await serveEvents({ oauth: undefined })
    const emitted = adapter.events.emit('incident', { id: 1 }, { to: 'ada' })
    await expectConfigRejection(emitted, { code, option: 'to', message: /needs OAuth/ })
    const none = createMcpAdapter({ router: KitMcpRouter.create() })
    await expectConfigRejection(none.events.emit('a' as never, {} as never), {
      code,
      option: 'emit',
      message: /router\.event/,
    })
    expect(none.events.stats()).to.deep.include({ emitted: 0, streams: 0 })
    await none.events.close()
  })
})
