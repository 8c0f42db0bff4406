import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter } from '../../../src/index.ts'
import { expectConfigError } from '../../support/config-error.ts'
import { ERAS, NAMED_USERS, serveEvents } from '../../support/mcp/events.ts'
import { incidentRouter } from '../../support/mcp/incident-router.ts'
import { modern, send } from '../../support/mcp/wire.ts'

const payload = z.object({ id: z.number() })
const incident = { description: 'An incident was reported', payload }

describe('Event types', () => {
  it('events/list has the description, the schemas, and the deliveries by the names of SEP-3415', async () => {
    const { ask } = await serveEvents()
    const { events } = await ask('ada', 'events/list')
    const [{ inputSchema, payloadSchema, ...first }] = events
    expect(first).to.deep.equal({
      name: 'incident',
      description: 'An incident was reported',
      delivery: ['webhook', 'poll', 'push'],
    })
    expect(inputSchema).to.deep.include({ type: 'object', properties: { severity: { type: 'string' } } })
    expect(payloadSchema).to.deep.include({ type: 'object', required: ['id'] })
  })

  it('events/list leaves out the event types whose scopes the token lacks', async () => {
    const { ask } = await serveEvents()
    const names = async (user: string) =>
      (await ask(user, 'events/list')).events.map(({ name }: { name: string }) => name)
    expect(await names('ada')).to.deep.equal(['incident', 'polled'])
    expect(await names('ada/admin')).to.deep.equal(['incident', 'secret', 'polled'])
  })

  for (const [listOnlyPermitted, expected] of [
    [false, ['incident', 'secret', 'polled']],
    [true, []],
  ] as const)
    it(`with anonymous and listOnlyPermitted: ${listOnlyPermitted}, events/list without a token has ${expected.length} event types, and events/poll is a 401`, async () => {
      const { ask, send } = await serveEvents({
        oauth: { ...NAMED_USERS, anonymous: true },
        listOnlyPermitted,
      })
      const { events } = await ask('', 'events/list')
      expect(events.map(({ name }: { name: string }) => name)).to.deep.equal(expected)
      expect((await send('', 'events/poll', { name: 'polled' })).status).to.equal(401)
    })

  it('events/list leaves out the event types that the policy does not permit', async () => {
    const asked: unknown[] = []
    const { ask } = await serveEvents({
      authorize({ purpose, kind, name }) {
        asked.push([purpose, kind, name])
        return name !== 'incident'
      },
    })
    const { events } = await ask('ada', 'events/list')
    expect(events.map(({ name }: { name: string }) => name)).to.deep.equal(['polled'])
    expect(asked).to.deep.equal([
      ['list', 'event', 'incident'],
      ['list', 'event', 'polled'],
    ])
  })

  it('without OAuth, events/list has no webhooks, and events/subscribe and unsubscribe are forbidden', async () => {
    const { ask } = await serveEvents({
      oauth: undefined,
      router: KitMcpRouter.create().event('incident', incident),
    })
    const { events } = await ask('', 'events/list')
    expect(events[0].delivery).to.deep.equal(['poll', 'push'])
    for (const method of ['events/subscribe', 'events/unsubscribe'])
      expect(await ask('', method, { name: 'incident' })).to.deep.include({
        code: -32012,
        message: 'Forbidden',
      })
  })

  it('server/discover and initialize declare events twice, as clients of today read either', async () => {
    const { ask, port } = await serveEvents()
    const declared = { events: {}, extensions: { 'io.modelcontextprotocol/events': {} } }
    expect((await ask('ada', 'server/discover')).capabilities).to.deep.include(declared)
    const clientInfo = { name: 'test', version: '1' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    const request = ERAS['2025-11-25']('initialize', params, { authorization: 'Bearer ada' })
    expect((await send(port, request)).message.result.capabilities).to.deep.include(declared)
  })

  it('a router without event types neither declares events nor serves their methods', async () => {
    const router = KitMcpRouter.create().tool('ping', { description: 'Pings' }, () => 'pong')
    const { ask, port } = await serveEvents({ router, oauth: undefined })
    const { capabilities } = await ask('', 'server/discover')
    expect(capabilities).to.not.have.any.keys('events', 'extensions')
    for (const method of [
      'events/list',
      'events/poll',
      'events/stream',
      'events/subscribe',
      'events/unsubscribe',
    ])
      expect((await send(port, modern(method, {}))).message.error.code, method).to.equal(-32601)
  })

  it('merge() puts the prefix before the names of event types', async () => {
    const router = KitMcpRouter.create().merge('ops', KitMcpRouter.create().event('incident', incident))
    const { ask, adapter } = await serveEvents({ router })
    expect((await ask('ada', 'events/list')).events[0].name).to.equal('ops_incident')
    await adapter.events.emit('ops_incident', { id: 1 })
  })

  const declare = (name: string, config: unknown) => KitMcpRouter.create().event(name, config as never)
  for (const [title, option, act, message] of [
    ['an invalid name', 'event', () => declare('a b', incident), /needs a name of 1 to 128 characters/],
    [
      'a name that is registered',
      'event',
      () => incidentRouter.event('incident', incident),
      /already registered/,
    ],
    ['no description', `description of event 'a'`, () => declare('a', { payload }), /string/],
    ['no payload', `payload of event 'a'`, () => declare('a', { description: 'a' }), /a Standard Schema/],
    [
      'a payload that is not an object',
      `payload of event 'a'`,
      () => declare('a', { ...incident, payload: z.string() }),
      /must describe an object/,
    ],
    [
      'an unknown delivery',
      `delivery of event 'a'`,
      () => declare('a', { ...incident, delivery: ['push'] }),
      /must be 'webhook', 'poll' or 'stream'/,
    ],
    [
      'no delivery',
      `delivery of event 'a'`,
      () => declare('a', { ...incident, delivery: [] }),
      /at least one/,
    ],
    [
      'authorize that is not a function',
      `authorize of event 'a'`,
      () => declare('a', { ...incident, authorize: true }),
      /set it to a function/i,
    ],
    [
      'only webhooks without OAuth',
      `delivery of event 'a'`,
      () => createMcpAdapter({ router: declare('a', { ...incident, delivery: ['webhook'] }) }),
      /because a webhook belongs to a user/,
    ],
    [
      'a store without its methods',
      'events.store',
      () => createMcpAdapter({ router: incidentRouter, events: { store: {} as never } }),
      /redisEventStore/,
    ],
    [
      'a TTL of 0',
      'events.ttlMs',
      () => createMcpAdapter({ router: incidentRouter, events: { ttlMs: 0 } }),
      /from 1/,
    ],
    [
      'an unknown form of webhook-id',
      'events.webhooks.webhookId',
      () => createMcpAdapter({ router: incidentRouter, events: { webhooks: { webhookId: 'x' as never } } }),
      /'event'/,
    ],
    [
      'a router function and the option events',
      'events',
      () => createMcpAdapter({ router: (() => undefined) as never, events: {} }),
      /can be used only with a KitMcpRouter; a router function must serve events itself/,
    ],
  ] as const)
    it(`an event type or an adapter with ${title} is a configuration error that says so`, () =>
      expectConfigError(act, { code: 'MCP_CONFIG_INVALID_OPTION', option, message }))
})
