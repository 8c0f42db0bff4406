import type { DataPoint, Histogram } from '@opentelemetry/sdk-metrics'
import { expect } from 'chai'
import { CLIENT_NAMES } from '../../../src/base/client-names.ts'
import { InMemoryTransportAdapter, KitMcpRouter, KitTelemetry } from '../../../src/index.ts'
import { ENTRY_POINTS, type Served, type Setup } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { TaskClient, WITH_TASKS } from '../../support/mcp/tasks.ts'
import { bearer, call, initialization, LEGACY, legacy, modern } from '../../support/mcp/wire.ts'

const NAME = 'mcp.client.name'
const VERSION = 'mcp.client.version'
const INFO = 'io.modelcontextprotocol/clientInfo'

const router = KitMcpRouter.create()
  .tool('echo', { description: 'x' }, () => 'x')
  .tool('fails', { description: 'x' }, () => {
    throw new Error('x')
  })
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('slow', { description: 'x', task: 'required' }, () => 'x')
  .prompt('hello', { description: 'x' }, () => 'x')

const events = InMemoryTransportAdapter.create()
const telemetry = KitTelemetry.create()
  .withSampling({ debugRate: 1, infoRate: 1 })
  .addTransport(events)
  .build()

const setup: Setup = { router, oauth: oauth(), sessions: true, telemetry }

const initialize = (clientInfo: unknown) => initialization({}, clientInfo)

const modernCall = (clientInfo: unknown, name = 'echo', token = 'reader') =>
  modern('tools/call', { name, _meta: { [INFO]: clientInfo } }, bearer(token))

const namedBy = (attributes: Readonly<Record<string, unknown>> = {}) => [
  attributes[NAME],
  attributes[VERSION],
]

describe('mcp.client.name and mcp.client.version', () => {
  let otel: Otel
  let served: Served | undefined
  const serve = async (options: Partial<Setup> = {}, face = ENTRY_POINTS[1]): Promise<Served> => {
    served = await face?.serve({ ...setup, ...options })
    return served as Served
  }
  beforeEach(() => {
    otel = new Otel().register()
    events.clear()
  })
  afterEach(async () => {
    await served?.close()
    Otel.unregister()
  })

  /** Returns the name and the version in each event and span of what was sent. */
  async function recorded() {
    await telemetry.flush()
    const found = {
      events: events.getEvents().map(({ name, attributes }) => [name, ...namedBy(attributes)]),
      spans: otel.spans.map(({ name, attributes }) => [name, ...namedBy(attributes)]),
    }
    events.clear()
    otel.clear()
    return found
  }

  async function session(send: Served['send'], clientInfo: unknown, token = 'reader') {
    const begun = await send(legacy(initialize(clientInfo), bearer(token)))
    return {
      ...bearer(token),
      'mcp-session-id': begun.headers.get('mcp-session-id') as string,
      'mcp-protocol-version': LEGACY,
    }
  }

  async function labels(metric: string): Promise<unknown[]> {
    const found = (await otel.metrics()).find(({ descriptor }) => descriptor.name === metric)
    return ((found?.dataPoints ?? []) as DataPoint<Histogram>[]).map(({ attributes }) => attributes[NAME])
  }

  for (const face of ENTRY_POINTS) {
    it(`${face.name}: events and spans have them for 2026-07-28`, async () => {
      const { send } = await serve({}, face)
      await send(modernCall({ name: 'any-client', version: '1.2.3' }))
      const found = await recorded()
      expect(found.events.map(([name]) => name)).to.deep.equal([
        'kit.mcp.auth.accepted',
        'kit.mcp.tool.completed',
        'kit.mcp.request.completed',
      ])
      for (const [name, ...client] of found.events.slice(face.auth ? 1 : 0))
        expect(client, String(name)).to.deep.equal(['any-client', '1.2.3'])
      expect(found.spans).to.deep.equal([['tools/call echo', 'any-client', '1.2.3']])
    })

    it(`${face.name}: events and spans of a session have those of its initialize`, async () => {
      const { send } = await serve({}, face)
      const headers = await session(send, { name: 'any-client', version: '1' })
      for (const [name, ...client] of (await recorded()).spans)
        expect(client, String(name)).to.deep.equal(['any-client', '1'])
      await send(legacy(call('echo'), headers))
      await send(legacy(call('fails'), headers))
      const found = await recorded()
      const own = found.events.filter(([name]) => !face.auth || name !== 'kit.mcp.auth.accepted')
      expect(own).to.have.length.above(3)
      for (const [name, ...client] of [...own, ...found.spans])
        expect(client, String(name)).to.deep.equal(['any-client', '1'])
    })
  }

  it('a stateless client of 2025 has them only at initialize', async () => {
    const { send } = await serve({ sessions: false })
    await send(legacy(initialize({ name: 'any-client', version: '1' }), bearer('reader')))
    expect((await recorded()).spans).to.deep.equal([['initialize', 'any-client', '1']])
    await send(legacy(call('echo'), bearer('reader')))
    expect((await recorded()).spans).to.deep.equal([['tools/call echo', undefined, undefined]])
  })

  it('the events of a refused call and of a task have them', async () => {
    const { send } = await serve()
    await send(modernCall({ name: 'any-client', version: '1' }, 'write'))
    expect((await recorded()).events).to.deep.equal([['kit.mcp.auth.refused', 'any-client', '1']])
    const client = new TaskClient({ send }, bearer('reader'), WITH_TASKS)
    await client.settled(await client.start('slow'))
    for (const [name, ...names] of (await recorded()).events)
      expect(names, String(name)).to.deep.equal(['test', '1'])
  })

  it('the user of another session does not get its client', async () => {
    const { send } = await serve()
    const headers = await session(send, { name: 'any-client', version: '1' })
    await recorded()
    await send(legacy(call('echo'), { ...headers, ...bearer('writer') }))
    const found = await recorded()
    for (const [, ...client] of [...found.events, ...found.spans])
      expect(client).to.deep.equal([undefined, undefined])
  })

  it('the user who claims an anonymous session gets its client', async () => {
    const { send } = await serve({ oauth: oauth({ anonymous: true }) })
    const { authorization: _none, ...headers } = await session(send, { name: 'any-client', version: '1' }, '')
    const opened = await send(legacy(initialize({ name: 'any-client', version: '1' })))
    const id = opened.headers.get('mcp-session-id') as string
    await recorded()
    for (let time = 0; time < 2; time++) {
      await send(legacy(call('echo'), { ...headers, ...bearer('reader'), 'mcp-session-id': id }))
      expect((await recorded()).spans).to.deep.equal([['tools/call echo', 'any-client', '1']])
    }
  })

  it('nothing of a request without a valid token is recorded', async () => {
    const { send } = await serve()
    await send(modernCall({ name: 'any-client', version: '1' }, 'echo', 'unknown'))
    const found = await recorded()
    for (const [, ...client] of [...found.events, ...found.spans])
      expect(client).to.deep.equal([undefined, undefined])
  })

  for (const [what, clientInfo, expected] of [
    [
      'long names',
      { name: 'n'.repeat(5_000), version: 'v'.repeat(5_000) },
      ['n'.repeat(128), 'v'.repeat(128)],
    ],
    ['numbers', { name: 1, version: 2 }, [undefined, undefined]],
    ['objects', { name: { a: 1 }, version: [] }, [undefined, undefined]],
    ['a name alone', { name: 'a' }, ['a', undefined]],
    ['no names', {}, [undefined, undefined]],
  ] as const)
    it(`strings have at most 128 characters, and other values are left out: ${what}`, async () => {
      const { send } = await serve({ oauth: undefined })
      await send(modern('tools/list', { _meta: { [INFO]: clientInfo } }))
      await send(legacy(initialize(clientInfo)))
      for (const [, ...client] of (await recorded()).spans) expect(client).to.deep.equal(expected)
    })

  it('the token of a request is masked, also that of a later request in a session', async () => {
    const [first, second] = ['first-token-of-the-user', 'second-token-of-the-user']
    const verifyToken = () => ({ valid: true as const, user: { id: 'u1' }, scopes: ['mcp:read'] })
    const { send } = await serve({ oauth: oauth({ verifyToken }) })
    const headers = await session(send, { name: `a ${first} ${second}`, version: first }, first)
    const begun = await recorded()
    expect(begun.spans).to.deep.equal([['initialize', `a [token] ${second}`, '[token]']])
    await send(legacy(call('echo'), { ...headers, ...bearer(second) }))
    const found = await recorded()
    expect(found.spans).to.deep.equal([['tools/call echo', 'a [token] [token]', '[token]']])
    expect(JSON.stringify(found)).not.to.match(/first-token|second-token/)
  })

  describe('in metrics', () => {
    const OPERATIONS = 'mcp.server.operation.duration'
    const SESSIONS = 'mcp.server.session.duration'
    const own = (metric: string) => async () => [...new Set(await labels(metric))]

    for (const [what, options, names, expected] of [
      [
        'names of the table',
        {},
        ['claude-code', 'Visual Studio Code'],
        ['claude-code', 'Visual Studio Code'],
      ],
      ['other spellings', {}, ['Claude-Code', 'claude-code ', 'claude'], ['_OTHER']],
      ['unknown names', {}, ['a', 'b', 'constructor', '__proto__'], ['_OTHER']],
      [
        'names of knownClients',
        { knownClients: ['mine'] },
        ['mine', 'Mine', 'codex-mcp-client'],
        ['mine', '_OTHER', 'codex-mcp-client'],
      ],
      ['no name', {}, [undefined, 5], [undefined]],
    ] as const)
      it(`the name is one of a few: ${what}`, async () => {
        const { send } = await serve(options)
        for (const name of names) await send(modernCall({ name, version: '1' }))
        expect(await own(OPERATIONS)()).to.deep.equal(expected)
      })

    it('the duration of a session has the name, and not the version', async () => {
      const { send } = await serve()
      for (const name of ['cursor-vscode', 'x']) {
        const headers = await session(send, { name, version: '1' })
        await send({ method: 'DELETE', headers })
      }
      expect(await labels(SESSIONS)).to.have.members(['cursor-vscode', '_OTHER'])
      for (const { descriptor, dataPoints } of await otel.metrics())
        for (const { attributes } of dataPoints) {
          expect(attributes, descriptor.name).not.to.have.property(VERSION)
          if (descriptor.name !== OPERATIONS && descriptor.name !== SESSIONS)
            expect(attributes, descriptor.name).not.to.have.property(NAME)
        }
    })

    it('a request that is refused after it was read has the name', async () => {
      const { send } = await serve()
      await send(modernCall({ name: 'claude-code', version: '1' }, 'write'))
      expect(await labels(OPERATIONS)).to.deep.equal(['claude-code'])
    })
  })

  it('each client of the guide has names, and no name belongs to two clients', () => {
    const names = Object.values(CLIENT_NAMES).flat()
    expect(new Set(names).size).to.equal(names.length)
    for (const name of names) expect(name.length).to.be.within(1, 128)
  })
})
