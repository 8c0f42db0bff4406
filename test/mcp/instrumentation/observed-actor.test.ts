import { expect } from 'chai'
import { InMemoryTransportAdapter, KitMcpRouter, KitTelemetry } from '../../../src/index.ts'
import { ENTRY_POINTS, type Served } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { Otel } from '../../support/mcp/otel.ts'
import { TaskClient, WITH_TASKS } from '../../support/mcp/tasks.ts'
import { bearer, modern } from '../../support/mcp/wire.ts'

const PREFIX = 'kit.mcp.auth.act.'
const LONG = 's'.repeat(1_024)

const router = KitMcpRouter.create()
  .tool('echo', { description: 'x' }, (_args, { auth }) => JSON.stringify(auth?.act ?? null))
  .tool('slow', { description: 'x', task: 'required' }, () => 'x')

const events = InMemoryTransportAdapter.create()
const telemetry = KitTelemetry.create()
  .withSampling({ debugRate: 1, infoRate: 1 })
  .addTransport(events)
  .build()

/** The actors by token. */
const ACTS: Readonly<Record<string, object>> = {
  direct: {},
  agent: { act: { sub: 'agent', iss: 'https://a.example', client_id: 'planner', act: { sub: 'chat' } } },
  long: { act: { sub: LONG } },
  strange: { act: { sub: 7 } },
}

const setup = {
  router,
  telemetry,
  oauth: oauth({
    verifyToken: ({ bearerToken = '' }) => ({
      valid: true,
      user: { id: 'ada' },
      scopes: ['mcp:read'],
      ...ACTS[bearerToken],
    }),
  }),
}

function actorIn(attributes: Readonly<Record<string, unknown>> = {}): object {
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => name.startsWith(PREFIX)))
}

describe('the actor of a token', () => {
  let otel: Otel
  let served: Served | undefined
  beforeEach(() => {
    otel = new Otel().register()
    events.clear()
  })
  afterEach(async () => {
    await served?.close()
    Otel.unregister()
  })

  /** Calls the tool. Returns its text, and the actors of all events and spans of the request. */
  async function call(token: string, face = ENTRY_POINTS[1]) {
    served = (await face?.serve(setup)) as Served
    const answer = await served.send(modern('tools/call', { name: 'echo', arguments: {} }, bearer(token)))
    await telemetry.flush()
    const found = [...events.getEvents(), ...otel.spans].map(({ name, attributes }) => [
      name,
      actorIn(attributes),
    ])
    return { text: answer.status === 200 ? answer.message.result.content[0].text : answer.status, found }
  }

  for (const face of ENTRY_POINTS) {
    it(`${face.name}: handlers get the chain, and events and spans the current actor`, async () => {
      const { text, found } = await call('agent', face)
      expect(JSON.parse(text)).to.deep.equal({
        sub: 'agent',
        iss: 'https://a.example',
        client_id: 'planner',
        act: { sub: 'chat' },
      })
      const actor = {
        [`${PREFIX}sub`]: 'agent',
        [`${PREFIX}iss`]: 'https://a.example',
        [`${PREFIX}client_id`]: 'planner',
      }
      expect(found).to.deep.equal([
        ['kit.mcp.auth.accepted', actor],
        ['kit.mcp.tool.completed', actor],
        ['kit.mcp.request.completed', actor],
        ['tools/call echo', actor],
      ])
    })
  }

  it('a token without an actor adds nothing to handlers, events, and spans', async () => {
    const { text, found } = await call('direct')
    expect(text).to.equal('null')
    expect(found).to.have.length(4)
    for (const [name, actor] of found) expect(actor, String(name)).to.deep.equal({})
  })

  it('an actor of 1,024 characters is recorded whole, and a token in its name is not', async () => {
    expect((await call('long')).found.at(-1)?.[1]).to.deep.equal({ [`${PREFIX}sub`]: LONG })
    await served?.close()
    otel.clear()
    const token = `secret-${'x'.repeat(30)}`
    Object.assign(ACTS, { [token]: { act: { sub: `agent ${token}` } } })
    const { found } = await call(token)
    expect(JSON.stringify(found)).to.include('agent ').and.not.include(token)
  })

  it('a token whose actor cannot be read gets a 401, with the cause in the event', async () => {
    const { text } = await call('strange')
    expect(text).to.equal(401)
    expect(events.getEvents().map(({ name, attributes }) => [name, attributes?.reason])).to.deep.equal([
      ['kit.mcp.auth.refused', 'invalid'],
    ])
    expect(events.getEvents()[0]?.attributes).to.include({ 'kit.mcp.auth.invalid.cause': 'type' })
  })

  it('the events of a task have the actor of its call, and metrics have none', async () => {
    served = (await ENTRY_POINTS[1]?.serve(setup)) as Served
    const client = new TaskClient(served, bearer('agent'), WITH_TASKS)
    await client.settled(await client.start('slow'))
    await telemetry.flush()
    const done = events.getEvents().find(({ name }) => name === 'kit.mcp.task.completed')
    expect(actorIn(done?.attributes)).to.have.property(`${PREFIX}sub`, 'agent')
    expect(JSON.stringify(await otel.metrics())).not.to.include('planner')
  })
})
