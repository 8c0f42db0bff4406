import { expect } from 'chai'
import { Redis } from 'ioredis'
import {
  type Delivery,
  type DeliveryOutcome,
  type EventStore,
  type EventStoreLimits,
  type MemoryEventStoreOptions,
  memoryEventStore,
  type RedisEventStore,
  type RedisEventStoreOptions,
  type RedisScriptClient,
  redisEventStore,
  type Subscriber,
  type SubscriptionRecord,
} from '../../../src/index.ts'
import { expectConfigError } from '../../support/config-error.ts'
import { type RedisServer, redisMissing, startRedis } from '../../support/redis.ts'
import { REDIS_CLIENTS } from '../../support/redis-clients.ts'
import { skipIf } from '../../support/skip.ts'
import { until } from '../../support/until.ts'

/** Waits for `ms`, for an expiry that the store measures itself. */
const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const MAX_WAITING = 1_000
const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`

function record(id: string, rest: Partial<SubscriptionRecord> = {}): SubscriptionRecord {
  return {
    id,
    owner: 'ada',
    name: 'paid',
    args: '{}',
    auth: { clientId: 'c', scopes: ['é'] },
    webhook: { url: `https://example.com/${id}`, secrets: [{ secret: SECRET }], verifiedAtMs: 1 },
    ...rest,
  }
}

function polling(id: string, rest: Partial<SubscriptionRecord> = {}): SubscriptionRecord {
  const { webhook: _, ...others } = record(id, rest)
  return others
}

const BODY = JSON.stringify({ eventId: 'e', name: 'paid', data: { text: 'é"' } })
const LIMITS = { ttlMs: 60_000, max: 10 }
const EVENT = { body: BODY, channels: [''] }
const WEBHOOKS = { hasWebhook: true, needsArgs: false }

/** Tests the behavior that all stores share. */
function behavesAsEventStore(name: string, make: (limits: EventStoreLimits) => Promise<EventStore>): void {
  let store: EventStore
  const stops: (() => Promise<void>)[] = []
  beforeEach(async () => {
    store = await make({})
  })
  afterEach(async () => {
    await Promise.all(stops.splice(0).map((stop) => stop()))
  })

  async function subscribed(one: SubscriptionRecord, limits = LIMITS) {
    return (await store.subscribe(one, limits)) ?? expect.fail('no room')
  }

  async function listed(options: Parameters<EventStore['subscribers']>[1], type = 'paid') {
    const all: Subscriber[] = []
    for await (const page of store.subscribers(type, options)) all.push(...page)
    return all
  }

  /** Appends an event and delivers it to all webhooks. Returns its position, and what was dropped. */
  async function emit(body = BODY) {
    const position = await store.append('paid', { body, channels: [''] })
    return { position, dropped: await store.deliver({ position, body }, await listed(WEBHOOKS)) }
  }

  /** Answers attempts, in their order, with outcomes. The last one repeats. */
  function work(...outcomes: DeliveryOutcome[]): Delivery[] {
    const taken: Delivery[] = []
    const answer = (delivery: Delivery) => {
      taken.push(delivery)
      return Promise.resolve(
        outcomes[Math.min(taken.length, outcomes.length) - 1] ?? { outcome: 'delivered' },
      )
    }
    stops.push(store.work(answer as never, 8))
    return taken
  }

  describe(name, () => {
    it(`${name} adds a subscription and returns it, and renews it with its position`, async () => {
      const added = await subscribed(record('a'))
      expect(added.isNew).to.equal(true)
      const since = added.head
      expect(added.subscription).to.deep.include({ ...record('a'), status: {}, since })
      expect(await store.append('paid', EVENT)).to.equal(since + 1)
      const changed = record('a', { args: '{"x":1}' })
      const renewed = await subscribed(changed, { ...LIMITS, ttlMs: 120_000 })
      expect(renewed.isNew).to.equal(false)
      expect(renewed.subscription).to.deep.include({ ...changed, since })
      expect(renewed.subscription.expiresAtMs).to.be.greaterThan(added.subscription.expiresAtMs)
      expect(renewed.head).to.equal(since + 1)
      expect((await store.get('a'))?.args).to.equal('{"x":1}')
      expect(await store.get('b')).to.equal(undefined)
    })

    it(`${name} forgets a subscription that has expired, and no longer counts it`, async () => {
      await subscribed(record('a'), { ttlMs: 1_000, max: 1 })
      expect(await store.subscribe(record('b'), { ttlMs: 1_000, max: 1 })).to.equal(undefined)
      await later(1_100)
      expect(await store.get('a')).to.equal(undefined)
      expect(await listed(WEBHOOKS)).to.deep.equal([])
      await subscribed(record('b'), { ttlMs: 1_000, max: 1 })
    })

    it(`${name} refuses a webhook beyond the maximum, and replaces the oldest other subscription`, async () => {
      const limits = { ttlMs: 60_000, max: 2 }
      for (const id of ['a', 'b']) await subscribed(record(id), limits)
      expect(await store.subscribe(record('c'), limits)).to.equal(undefined)
      expect((await subscribed(record('a'), limits)).isNew).to.equal(false)
      expect((await subscribed(record('c', { owner: 'bob' }), limits)).isNew).to.equal(true)
      for (const id of ['p1', 'p2']) {
        await subscribed(polling(id), limits)
        await later(2)
      }
      await subscribed(polling('p1'), limits)
      expect((await subscribed(polling('p3'), limits)).isNew).to.equal(true)
      const live = await Promise.all(['a', 'b', 'p1', 'p2', 'p3'].map((id) => store.get(id)))
      expect(live.map((one) => one?.id)).to.deep.equal(['a', 'b', 'p1', undefined, 'p3'])
    })

    it(`${name} lists the subscriptions of an event type and of owners, with a webhook or without`, async () => {
      const { head } = await subscribed(record('a', { args: '{"x":1}' }))
      await subscribed(record('b', { owner: 'bob' }))
      await subscribed(record('other', { name: 'other' }))
      await subscribed(polling('p'))
      const ids = async (options: Partial<Parameters<EventStore['subscribers']>[1]>) =>
        (await listed({ ...WEBHOOKS, ...options })).map(({ id }) => id).sort()
      expect(await ids({})).to.deep.equal(['a', 'b'])
      expect(await ids({ hasWebhook: false })).to.deep.equal(['p'])
      expect(await ids({ owners: ['ada', 'eve'] })).to.deep.equal(['a'])
      expect(await ids({ owners: ['ada'], hasWebhook: false })).to.deep.equal(['p'])
      const [first] = await listed({ ...WEBHOOKS, owners: ['ada'], needsArgs: true })
      expect(first).to.deep.equal({ id: 'a', owner: 'ada', since: head, args: '{"x":1}' })
    })

    it(`${name} reads the events after a position in their order, with their channels`, async () => {
      const { head } = await store.read('paid', 0, 10)
      for (const channels of [[''], ['ada'], ['', 'ada']])
        await store.append('paid', { body: `{"of":"${channels}"}`, channels })
      await store.append('other', EVENT)
      const all = await store.read('paid', head, 10)
      expect(all.events.map(({ position }) => position - head)).to.deep.equal([1, 2, 3])
      expect(all.events.map(({ body }) => body)).to.deep.equal(['{"of":""}', '{"of":"ada"}', '{"of":",ada"}'])
      expect(all.events.map(({ channels }) => channels)).to.deep.equal([[''], ['ada'], ['', 'ada']])
      expect(all).to.deep.include({ head: head + 3, droppedUpTo: head })
      expect(Math.abs((all.events[0]?.atMs ?? 0) - Date.now())).to.be.lessThan(5_000)
      const some = await store.read('paid', head + 1, 1)
      expect(some.events.map(({ position }) => position - head)).to.deep.equal([2])
    })

    it(`${name} drops the oldest events of a log that is too large or too old`, async () => {
      store = await make({ maxLogBytes: 5_000 })
      const { head } = await store.read('paid', 0, 10)
      const body = `{"x":"${'x'.repeat(500)}"}`
      for (let index = 0; index < 12; index++) await store.append('paid', { ...EVENT, body })
      const page = await store.read('paid', 0, 100)
      expect(page.events.length).to.be.within(2, 10)
      expect(page.droppedUpTo).to.equal(head + 12 - page.events.length)
      store = await make({ maxLogAgeMs: 1_000 })
      const position = await store.append('paid', EVENT)
      await later(1_050)
      expect(await store.read('paid', 0, 100)).to.deep.equal({
        events: [],
        droppedUpTo: position,
        head: position,
      })
    })

    it(`${name} begins a log after every position of a log that was lost`, async () => {
      const before = await store.append('paid', EVENT)
      await later(2)
      store = await make({})
      expect((await store.read('paid', before, 10)).droppedUpTo).to.be.greaterThan(before)
    })

    it(`${name} gives each event once to one worker, with what a message needs`, async () => {
      await subscribed(record('a'))
      const { position } = await emit()
      expect((await store.get('a'))?.firstPending).to.equal(position)
      const [taken, others] = [work(), work()]
      await until(() => taken.length + others.length === 1, 5)
      const [one] = [...taken, ...others]
      expect(one).to.deep.include({ kind: 'event', position, body: BODY, attempts: 0 })
      expect(one?.subscription).to.deep.include({ ...record('a'), firstPending: position })
      expect(one?.head).to.equal(position)
      await untilPending('a', undefined)
    })

    it(`${name} delivers an event to a subscription once, and not to one that has ended`, async () => {
      await subscribed(record('a'))
      await subscribed(record('b'))
      const subscribers = await listed(WEBHOOKS)
      const position = await store.append('paid', EVENT)
      await store.end('b')
      for (let round = 0; round < 2; round++)
        expect(await store.deliver({ position, body: BODY }, subscribers)).to.deep.equal([])
      const taken = work()
      await untilPending('a', undefined)
      await later(50)
      expect(taken.map(({ subscription }) => subscription.id)).to.deep.equal(['a'])
    })

    it(`${name} repeats a failed attempt after its delay, and reports the failure until a success`, async () => {
      await subscribed(record('a'))
      await emit()
      const taken = work(
        { outcome: 'failed', delayMs: 300, status: { lastError: 'timeout' } },
        { outcome: 'delivered', status: {} },
      )
      await until(() => taken.length === 1, 5)
      await untilStatus('a', 'timeout')
      await until(() => taken.length === 2, 10)
      expect(taken.map(({ attempts }) => attempts)).to.deep.equal([0, 1])
      expect(taken[1]?.id).to.equal(taken[0]?.id)
      await untilStatus('a', undefined)
    })

    it(`${name} does not count an attempt that was postponed`, async () => {
      await subscribed(record('a'))
      await emit()
      const taken = work({ outcome: 'postponed', delayMs: 1 }, { outcome: 'delivered' })
      await untilPending('a', undefined)
      expect(taken.map(({ attempts }) => attempts)).to.deep.equal([0, 0])
    })

    it(`${name} adds one gap for events that were abandoned`, async () => {
      await subscribed(record('a'))
      for (let index = 0; index < 2; index++) await emit()
      const taken: Delivery[] = []
      const answer = async (delivery: Delivery): Promise<DeliveryOutcome> => {
        taken.push(delivery)
        // Both are attempted before the gap is.
        await until(() => taken.length >= 2, 5)
        return delivery.kind === 'event' ? { outcome: 'abandoned' } : { outcome: 'delivered' }
      }
      stops.push(store.work(answer, 8))
      await until(() => taken.some(({ kind }) => kind === 'gap'), 5)
      await untilPending('a', undefined)
      expect(taken.filter(({ kind }) => kind === 'event')).to.have.length(2)
      expect(taken.filter(({ kind }) => kind === 'gap').length).to.be.within(1, 2)
      expect(taken.at(-1)).to.include({ body: '', position: 0 })
    })

    it(`${name} does not send the events of a subscription that has ended, also after it was made again`, async () => {
      await subscribed(record('a'))
      await emit()
      expect(await store.end('a')).to.equal(true)
      expect(await store.end('a')).to.equal(false)
      await subscribed(record('a'))
      const { position } = await emit()
      const taken = work()
      await until(() => taken.length === 1, 5)
      await later(50)
      expect(taken.map((one) => [one.kind, one.position])).to.deep.equal([['event', position]])
    })

    it(`${name} drops the oldest of more than ${MAX_WAITING} events that wait for an owner, and tells it once`, async () => {
      await subscribed(record('a'))
      const subscribers = await listed(WEBHOOKS)
      const dropped: string[] = []
      for (let first = 1; first <= MAX_WAITING + 3; first += 100)
        for (const one of await Promise.all(
          Array.from({ length: Math.min(100, MAX_WAITING + 4 - first) }, (_, index) =>
            store.deliver({ position: first + index, body: '{}' }, subscribers),
          ),
        ))
          dropped.push(...one)
      expect(dropped).to.deep.equal(['a', 'a', 'a'])
      expect((await store.get('a'))?.firstPending).to.equal(4)
      expect((await subscribed(record('a'))).isNew).to.equal(false)
    })

    it(`${name} drops the oldest of the events of an owner that are too large together`, async () => {
      store = await make({ maxBytesPerOwner: 3_000 })
      const { head } = await subscribed(record('a'))
      const bodies = [900, 900, 900, 1_500].map((size) => JSON.stringify('x'.repeat(size - 2)))
      const dropped: string[] = []
      for (const body of bodies) dropped.push(...(await emit(body)).dropped)
      expect(dropped).to.deep.equal(['a', 'a'])
      expect((await store.get('a'))?.firstPending).to.equal(head + 3)
      const taken = work()
      await untilPending('a', undefined)
      await until(() => taken.some(({ kind }) => kind === 'gap'), 5)
      expect(
        taken
          .filter(({ kind }) => kind === 'event')
          .map(({ position }) => position - head)
          .sort(),
      ).to.deep.equal([3, 4])
      expect(taken.filter(({ kind }) => kind === 'gap')).to.have.length(1)
    })

    it(`${name} keeps one gap for an endpoint that is away, however many events are dropped`, async () => {
      store = await make({ maxBytesPerOwner: 3_000 })
      await subscribed(record('a'))
      const gaps = new Set<string>()
      const away = async ({ id, kind }: Delivery): Promise<DeliveryOutcome> => {
        if (kind === 'gap') gaps.add(id)
        return { outcome: 'postponed', delayMs: 60_000 }
      }
      stops.push(store.work(away, 8))
      for (let index = 0; index < 8; index++) await emit(JSON.stringify('x'.repeat(1_400)))
      await until(() => gaps.size > 0, 5)
      expect(gaps.size).to.equal(1)
    })

    it(`${name} lets an owner with few events pass those of an owner with many`, async () => {
      await subscribed(record('a'))
      for (let index = 0; index < 60; index++) await emit()
      await subscribed(record('b', { owner: 'bob' }))
      await emit()
      const taken = work()
      await until(() => taken.length === 62, 10)
      const turn = taken.findIndex(({ subscription }) => subscription.id === 'b')
      expect(turn).to.be.lessThan(20)
    })

    it(`${name} calls its listeners after an event, until they are removed`, async () => {
      const seen: unknown[] = []
      const stop = store.watch((changed) => seen.push(changed))
      await store.append('paid', EVENT)
      expect(seen).to.include('paid')
      stop()
      const { length } = seen
      await store.append('paid', EVENT)
      expect(seen).to.have.length(length)
    })
  })

  async function untilPending(id: string, position: number | undefined): Promise<void> {
    await until(async () => (await store.get(id))?.firstPending === position, 10)
  }

  async function untilStatus(id: string, error: string | undefined): Promise<void> {
    await until(async () => (await store.get(id))?.status.lastError === error, 10)
  }
}

behavesAsEventStore('memoryEventStore()', async (limits) => memoryEventStore(limits))

for (const { name, connect } of REDIS_CLIENTS)
  describe(`redisEventStore() with ${name}`, () => {
    let redis: RedisServer
    let client: Awaited<ReturnType<typeof connect>>
    const stores: RedisEventStore[] = []
    let count = 0
    before(async function () {
      skipIf(this, redisMissing())
      redis = await startRedis({ isDurable: false })
      client = await connect(redis.port)
    })
    afterEach(() => Promise.all(stores.splice(0).map((store) => store.close())))
    after(async () => {
      client?.end()
      await redis?.stop()
    })

    function make(options: RedisEventStoreOptions = {}, prefix = `test${count++}`): RedisEventStore {
      const store = redisEventStore(client as unknown as RedisScriptClient, { ...options, prefix })
      stores.push(store)
      return store
    }

    behavesAsEventStore(`redisEventStore() with ${name}`, async (limits) => make(limits))

    it(`with ${name}, every key of the store expires, and no job has a secret or a URL`, async () => {
      const store = make({}, 'keys')
      await store.subscribe(record('a'), LIMITS)
      await store.subscribe(record('b'), LIMITS)
      await store.subscribe(polling('p'), LIMITS)
      const position = await store.append('paid', EVENT)
      for await (const page of store.subscribers('paid', WEBHOOKS))
        await store.deliver({ position, body: BODY }, page)
      await store.end('b')
      await store.read('paid', 0, 10)
      const admin = new Redis(redis.port, '127.0.0.1')
      const keys = await admin.keys('{keys}:*')
      const own = keys.filter((key) => key.startsWith('{keys}:s:'))
      expect(own).to.have.length.greaterThan(9)
      for (const key of own) expect([key, (await admin.pttl(key)) > 0]).to.deep.equal([key, true])
      for (const key of keys.filter((one) => !own.includes(one))) {
        const isHash = (await admin.type(key)) === 'hash'
        const text = isHash ? JSON.stringify(await admin.hgetall(key)) : ''
        expect(text).to.not.match(/whsec_|example\.com/)
      }
      admin.disconnect()
    })

    it(`with ${name}, a node that has no memory of a log sees the same one, also when Redis comes back empty`, async () => {
      const [one, two] = [make({}, 'nodes'), make({}, 'nodes')]
      await one.append('paid', EVENT)
      const before = await one.read('paid', 0, 10)
      expect(await two.read('paid', 0, 10)).to.deep.equal(before)
      const admin = new Redis(redis.port, '127.0.0.1')
      await admin.flushall()
      admin.disconnect()
      const [first, second] = [await two.read('paid', 0, 10), await one.read('paid', 0, 10)]
      expect(second).to.deep.equal(first)
      expect(first.droppedUpTo).to.be.greaterThan(before.head)
    })

    it(`with ${name}, at the bound of all, the oldest subscription without a webhook of the owner with the most ends`, async () => {
      const store = make({ maxSubscriptions: 5 }, 'bound')
      for (const [id, owner] of [
        ['a', 'ada'],
        ['b', 'bob'],
        ['c', 'ada'],
      ] as const) {
        await store.subscribe(polling(id, { owner }), LIMITS)
        await later(2)
      }
      for (const id of ['w', 'x']) await store.subscribe(record(id, { owner: 'eve' }), LIMITS)
      const live = async (...ids: string[]) => {
        const found = await Promise.all(ids.map((id) => store.get(id)))
        return found.flatMap((one) => one?.id ?? [])
      }
      expect(await live('a', 'b', 'c', 'w', 'x')).to.have.length(5)
      expect(await store.subscribe(polling('d', { owner: 'dan' }), LIMITS)).to.include({ isNew: true })
      expect(await live('a', 'b', 'c', 'd')).to.deep.equal(['b', 'c', 'd'])
      for (const id of ['y', 'z', 'v'])
        expect(await store.subscribe(record(id, { owner: 'fay' }), LIMITS)).to.include({ isNew: true })
      expect(await live('b', 'c', 'd', 'v', 'w', 'x', 'y', 'z')).to.deep.equal(['v', 'w', 'x', 'y', 'z'])
      expect(await store.subscribe(record('u', { owner: 'gus' }), LIMITS)).to.equal(undefined)
      expect(await store.subscribe(polling('e', { owner: 'gus' }), LIMITS)).to.equal(undefined)
      expect(await store.subscribe(record('w', { owner: 'eve' }), LIMITS)).to.include({ isNew: false })
    })
  })

describe('memoryEventStore() beyond the bound of all owners', () => {
  const make = (options: MemoryEventStoreOptions) => memoryEventStore(options)

  it('the oldest subscription without a webhook of the owner with the most ends', async () => {
    const store = make({ maxBytes: 8_000 })
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f'])
      await store.subscribe(polling(id, { owner: id === 'a' ? 'bob' : 'ada' }), LIMITS)
    const live = async (id: string) => (await store.get(id)) !== undefined
    const before = await Promise.all(['a', 'b', 'f'].map(live))
    expect(await store.subscribe(polling('new', { owner: 'eve' }), LIMITS)).to.not.equal(undefined)
    expect(before).to.deep.equal([true, true, true])
    expect(await Promise.all(['a', 'b', 'c', 'new'].map(live))).to.deep.equal([true, false, true, true])
    expect(await store.subscribe(polling('f'), { ...LIMITS, ttlMs: 90_000 })).to.deep.include({
      isNew: false,
    })
  })

  it('a webhook that finds nothing to end is refused, and a renewal is not', async () => {
    const store = make({ maxBytes: 1_800 })
    expect(await store.subscribe(record('a'), LIMITS)).to.not.equal(undefined)
    expect(await store.subscribe(record('b', { owner: 'bob' }), LIMITS)).to.equal(undefined)
    expect(await store.subscribe(record('a', { args: '{"long":"xxxxx"}' }), LIMITS)).to.include({
      isNew: false,
    })
  })

  it('the oldest event of the owner with the most that waits is dropped', async () => {
    const store = make({ maxBytes: 9_500 })
    for (const owner of ['ada', 'bob']) await store.subscribe(record(owner, { owner }), LIMITS)
    const { head: since } = await store.read('paid', 0, 1)
    const deliver = (owner: string, position: number) =>
      store.deliver({ position, body: 'x'.repeat(1_000) }, [{ id: owner, owner, since }])
    for (let position = 1; position <= 6; position++) await deliver('ada', position)
    expect(await deliver('bob', 7)).to.deep.equal(['ada'])
  })
})

describe('redisEventStore()', () => {
  it('redisEventStore rejects what is not a client, and an unknown option', () => {
    const client = { eval() {}, publish() {}, duplicate() {} } as never
    for (const [given, options, option, code, message] of [
      [{}, {}, 'client', 'MCP_CONFIG_INVALID_OPTION', /must be an ioredis or node-redis client/],
      [client, { prefx: 'x' }, 'prefx', 'MCP_CONFIG_UNKNOWN_OPTION', /prefix/],
      [client, { maxLogAgeMs: 5 }, 'maxLogAgeMs', 'MCP_CONFIG_INVALID_OPTION', /1000/],
    ] as const)
      expectConfigError(() => redisEventStore(given as never, options as never), { code, option, message })
  })
})
