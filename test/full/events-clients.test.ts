import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { token } from '../support/attacks/spoken-tokens.ts'
import { codeGrant, startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { type EventNode, EventNodes } from '../support/mcp/event-nodes.ts'
import { accept, serveWebhooks, startReceiver, type WebhookReceiver } from '../support/mcp/webhooks.ts'
import { bearer } from '../support/mcp/wire.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

const run = promisify(execFile)

const AI_SDK = '@ai-sdk/mcp@2.0.99'

/** The store of a client: its subscriptions by key. */
class ClientStore {
  readonly subscriptions = new Map<string, any>()
  get = async (key: string) => this.subscriptions.get(key)
  getById = async (id: string) => [...this.subscriptions.values()].find((one) => one.id === id)
  set = async (subscription: any) => void this.subscriptions.set(subscription.key, subscription)
  update = async (key: string, patch: object) =>
    void this.subscriptions.set(key, { ...this.subscriptions.get(key), ...patch })
  delete = async (key: string) => void this.subscriptions.delete(key)
}

describe('events with the client of the AI SDK', function () {
  this.timeout(180_000)

  let folder: string | undefined
  let sdk: any
  let redis: RedisServer | undefined
  const nodes = new EventNodes()

  before(async function () {
    folder = await mkdtemp(join(tmpdir(), 'events-clients-'))
    const installed = await install(folder, AI_SDK)
    if (typeof installed === 'string') return skipIf(this, installed)
    sdk = await import(installed.href)
    if (redisMissing() === undefined) redis = await startRedis()
  })
  afterEach(() => nodes.close())
  after(async () => {
    await redis?.stop()
    if (folder !== undefined) await rm(folder, { recursive: true, force: true })
  })

  /** Creates a client with a store, and lets its own handler respond to the messages at a receiver. */
  async function connect(url: string, headers: Record<string, string>, receiver: WebhookReceiver) {
    const store = new ClientStore()
    const seen = {
      events: [] as any[],
      gaps: [] as any[],
      terminations: [] as any[],
      errors: [] as unknown[],
    }
    const handle: (request: Request) => Promise<Response> = sdk.experimental_createMCPEventWebhook({
      store,
      onEvent: async (one: any) => void seen.events.push(one),
      onGap: async (one: any) => void seen.gaps.push(one),
      onTerminated: async (one: any) => void seen.terminations.push(one),
      onError: (error: unknown) => seen.errors.push(error),
    })
    receiver.respond = async ({ path, method, headers, text }) => {
      const request = new Request(new URL(path, receiver.url), { method, headers, body: text })
      const response = await handle(request)
      return { status: response.status, body: await response.text() }
    }
    const client = await sdk.createMCPClient({
      transport: { type: 'http', url, headers },
      experimental_events: { store },
    })
    return { events: client.experimental_events, close: () => client.close(), store, seen }
  }

  const delivery = (receiver: WebhookReceiver) => ({ mode: 'webhook', url: receiver.url })

  it('the client subscribes behind the facade, receives events, refreshes, and unsubscribes', async () => {
    const receiver = await startReceiver()
    const facade = await startFacade()
    try {
      const server = await serveWebhooks(receiver.network, { oauth: facade.facade.oauth })
      const headers = bearer(await accessTokenOf(facade))
      const { events, close, store, seen } = await connect(
        `http://127.0.0.1:${server.port}/mcp`,
        headers,
        receiver,
      )
      const { events: listed } = await events.list()
      expect(listed.map(({ name }: { name: string }) => name))
        .to.include('incident')
        .and.not.include('secret')
      const made = await events.subscribe({
        name: 'incident',
        arguments: { severity: 'P1' },
        delivery: delivery(receiver),
        ttlMs: 120_000,
      })
      expect(Date.parse(made.refreshBefore) - Date.now()).to.be.within(100_000, 121_000)
      const { eventId } = await server.adapter.events.emit('incident', { id: 7 })
      await until(() => seen.events.length === 1, 5)
      expect(seen.events[0].event).to.deep.include({ eventId, name: 'incident', data: { id: 7 } })
      expect(seen.events[0].subscription).to.deep.include({ id: made.id, arguments: { severity: 'P1' } })
      await server.adapter.events.emit('incident', { id: 8 }, { match: ({ args }) => args.severity === 'P2' })
      const [{ key }] = [...store.subscriptions.values()]
      await until(() => server.adapter.events.stats().delivered.webhook === 1, 5)
      const renewed = await events.refresh({ key })
      expect(renewed).to.deep.include({ id: made.id, truncated: false })
      await server.adapter.events.emit('incident', { id: 9 })
      await until(() => seen.events.length === 2, 5)
      expect(seen.events[1].event.data).to.deep.equal({ id: 9 })
      await events.unsubscribe({ key })
      await server.adapter.events.emit('incident', { id: 10 })
      expect(store.subscriptions.size).to.equal(0)
      expect(server.adapter.events.stats()).to.include({
        subscribed: 1,
        renewed: 1,
        unsubscribed: 1,
        failed: 0,
      })
      expect([seen.events.length, seen.gaps, seen.errors]).to.deep.equal([2, [], []])
      await close()
    } finally {
      await facade.close()
    }
  })

  it('the client receives `gap` after an event that was given up, and `terminated` when the user loses the permission', async () => {
    const receiver = await startReceiver()
    let isAllowed = true
    const server = await serveWebhooks(receiver.network, { authorize: () => isAllowed })
    const url = `http://127.0.0.1:${server.port}/mcp`
    const { events, close, store, seen } = await connect(url, bearer(token('ada')), receiver)
    const ownHandler = receiver.respond
    const made = await events.subscribe({ name: 'incident', delivery: delivery(receiver) })
    receiver.respond = (message) => (message.json.data?.id === 1 ? { status: 413 } : ownHandler(message))
    await server.adapter.events.emit('incident', { id: 1 })
    await until(() => seen.gaps.length === 1, 5)
    const [kept] = [...store.subscriptions.values()]
    expect(kept).to.include({ truncated: true, cursor: seen.gaps[0].gap.cursor })
    isAllowed = false
    await server.adapter.events.emit('incident', { id: 2 })
    await until(() => seen.terminations.length === 1, 5)
    expect(seen.terminations[0].termination.error.code).to.equal(-32_012)
    expect(seen.terminations[0].subscription.id).to.equal(made.id)
    expect(store.subscriptions.size).to.equal(0)
    expect(seen.events).to.deep.equal([])
    await close()
  })

  it('the client receives every event of two nodes while one is killed', async function () {
    if (redis === undefined) return skipIf(this, redisMissing())
    const receiver = await startReceiver()
    const [one, two] = (await nodes.start(2, redis, receiver)) as [EventNode, EventNode]
    const url = `http://127.0.0.1:${one.port}/mcp`
    const { events, close, seen } = await connect(url, bearer(token('ada')), receiver)
    await events.subscribe({ name: 'incident', delivery: delivery(receiver) })
    for (let id = 0; id < 100; id++) (id % 2 === 0 ? one : two).emit(id)
    await until(() => seen.events.length >= 20 && one.emitted.size >= 10, 1)
    await nodes.kill(one)
    await until(() => two.emitted.size === 50, 5)
    const ids = () => new Set(seen.events.map(({ event }) => event.data.id))
    await until(() => [...one.emitted, ...two.emitted].every((id) => ids().has(id)), 20)
    expect(seen.events.length - ids().size).to.be.at.most(8)
    expect(seen.errors).to.deep.equal([])
    await close()
  })

  it('the client cannot subscribe an endpoint that does not answer the challenge', async () => {
    const receiver = await startReceiver()
    const server = await serveWebhooks(receiver.network)
    const url = `http://127.0.0.1:${server.port}/mcp`
    const { events, close } = await connect(url, bearer(token('ada')), receiver)
    receiver.respond = (message) => ({ ...accept(message), body: '{}' })
    const error = await events
      .subscribe({ name: 'incident', delivery: delivery(receiver) })
      .catch((one: any) => one)
    expect(error.code).to.equal(-32_015)
    expect(error.data).to.deep.equal({ reason: 'challenge_failed' })
    await close()
  })
})

/** Installs a package. Resolves with its entry, or with the reason as a string if that fails. */
async function install(folder: string, name: string): Promise<URL | string> {
  try {
    // The package asks for Node.js 22, and runs on 20.
    await run('npm', [
      'install',
      '--prefix',
      folder,
      '--no-save',
      '--no-audit',
      '--no-fund',
      '--loglevel=error',
      name,
    ])
    const path = join(folder, 'node_modules', name.slice(0, name.lastIndexOf('@')))
    const { exports } = JSON.parse(await readFile(join(path, 'package.json'), 'utf8'))
    return pathToFileURL(join(path, exports['.'].import ?? exports['.'].default))
  } catch (error) {
    return `${name} could not be installed: ${String(error).slice(0, 1_000)}`
  }
}

async function accessTokenOf(facade: TestFacade): Promise<string> {
  const client = await facade.register()
  const redirect = await facade.signIn(facade.authorizeUrl(client))
  const { body } = await facade.token(codeGrant(client, redirect.get('code')))
  return body.access_token
}
