import { expect } from 'chai'
import type { EventStoreLimits } from '../../src/mcp/events/event-store-limits.ts'
import { memoryEventStore } from '../../src/mcp/events/memory-event-store.ts'
import type { EventStore, NewEvent, SubscriptionRecord, TakenDelivery } from '../../src/mcp/events/store.ts'
import { type EventRedisClient, type RedisEventStore, redisEventStore } from '../../src/redis/event-store.ts'
import { expectConfigError } from '../support/config-error.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'
import { until } from '../support/until.ts'

/** Waits for `ms`, for an expiry that the store measures itself. */
const later = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`

function record(id: string, rest: Partial<SubscriptionRecord> = {}): SubscriptionRecord {
  return {
    id,
    owner: 'ada',
    name: 'paid',
    args: '{}',
    auth: { clientId: 'c', scopes: ['é'] },
    webhook: { url: `https://example.com/${id}`, secrets: [{ secret: SECRET }] },
    ...rest,
  }
}

function polling(id: string, rest: Partial<SubscriptionRecord> = {}): SubscriptionRecord {
  const { webhook: _, ...others } = record(id, rest)
  return others
}

function event(deliveries: readonly string[] = [], rest: Partial<NewEvent> = {}): NewEvent {
  const body = JSON.stringify({ eventId: 'e', name: 'paid', data: { text: 'é"' } })
  return { eventId: 'e', name: 'paid', body, channels: [''], deliveries, ...rest }
}

const LIMITS = { ttlMs: 60_000, max: 10 }
const PAGE = { after: 0, maxEvents: 100, maxBytes: 1_000_000 }

/** Tests the behavior that all stores share. */
function behavesAsEventStore(name: string, make: (limits: EventStoreLimits) => Promise<EventStore>): void {
  let store: EventStore
  beforeEach(async () => {
    store = await make({})
  })

  const take = async (max = 10, leaseMs = 60_000): Promise<readonly TakenDelivery[]> =>
    (await store.take({ leaseMs, max })).deliveries
  const takeOne = async (leaseMs = 60_000): Promise<TakenDelivery> => {
    const [one] = await take(1, leaseMs)
    return one ?? expect.fail('no delivery is due')
  }

  describe(name, () => {
    it(`${name} adds a subscription and returns it, and renews it with its position`, async () => {
      const added = await store.subscribe(record('a'), LIMITS)
      if (added.outcome === 'owner-full') return expect.fail()
      expect(added.outcome).to.equal('added')
      expect(added.subscription).to.deep.include({ ...record('a'), status: {} })
      expect(added.head).to.equal(added.subscription.since)
      await store.append(event())
      const changed = record('a', { args: '{"x":1}' })
      const renewed = await store.subscribe(changed, { ...LIMITS, ttlMs: 120_000 })
      if (renewed.outcome === 'owner-full') return expect.fail()
      expect(renewed.outcome).to.equal('renewed')
      expect(renewed.subscription).to.deep.include({ ...changed, since: added.subscription.since })
      expect(renewed.subscription.expiresAtMs).to.be.greaterThan(added.subscription.expiresAtMs)
      expect(renewed.head).to.equal(added.head + 1)
      expect((await store.get('a'))?.args).to.equal('{"x":1}')
      expect(await store.get('b')).to.equal(undefined)
    })

    it(`${name} forgets a subscription that has expired, and no longer counts it`, async () => {
      await store.subscribe(record('a'), { ttlMs: 1_000, max: 1 })
      expect(await store.subscribe(record('b'), { ttlMs: 1_000, max: 1 })).to.deep.equal({
        outcome: 'owner-full',
      })
      await later(1_100)
      expect(await store.get('a')).to.equal(undefined)
      expect((await store.list('paid')).subscriptions).to.deep.equal([])
      expect((await store.subscribe(record('b'), { ttlMs: 1_000, max: 1 })).outcome).to.equal('added')
    })

    it(`${name} refuses a webhook beyond the maximum, and replaces the oldest other subscription`, async () => {
      const limits = { ttlMs: 60_000, max: 2 }
      for (const id of ['a', 'b']) await store.subscribe(record(id), limits)
      expect((await store.subscribe(record('c'), limits)).outcome).to.equal('owner-full')
      expect((await store.subscribe(record('a'), limits)).outcome).to.equal('renewed')
      expect((await store.subscribe(record('c', { owner: 'bob' }), limits)).outcome).to.equal('added')
      for (const id of ['p1', 'p2']) {
        await store.subscribe(polling(id), limits)
        await later(2)
      }
      await store.subscribe(polling('p1'), limits)
      expect((await store.subscribe(polling('p3'), limits)).outcome).to.equal('added')
      const live = await Promise.all(['a', 'b', 'p1', 'p2', 'p3'].map((id) => store.get(id)))
      expect(live.map((one) => one?.id)).to.deep.equal(['a', 'b', 'p1', undefined, 'p3'])
    })

    it(`${name} lists the subscriptions of an event type, of owners, and after a position`, async () => {
      await store.subscribe(record('a'), LIMITS)
      await store.subscribe(record('b', { owner: 'bob' }), LIMITS)
      await store.subscribe(record('other', { name: 'other' }), LIMITS)
      const { subscriptions, head } = await store.list('paid')
      const last = await store.subscribe(polling('c'), LIMITS)
      if (last.outcome === 'owner-full') return expect.fail()
      const ids = async (options?: Parameters<EventStore['list']>[1]) =>
        (await store.list('paid', options)).subscriptions.map(({ id }) => id).sort()
      expect(subscriptions.map(({ id }) => id).sort()).to.deep.equal(['a', 'b'])
      expect(last.head).to.equal(head + 1)
      expect(await ids({ after: head })).to.deep.equal(['c'])
      expect(await ids({ owners: ['ada', 'eve'] })).to.deep.equal(['a', 'c'])
      expect(await ids({ owners: ['ada'], after: head })).to.deep.equal(['c'])
    })

    it(`${name} reads the events of channels in their order, in pages`, async () => {
      const positions: number[] = []
      for (const channels of [[''], ['ada'], ['bob'], ['', 'ada']])
        positions.push((await store.append(event([], { channels, body: `{"of":"${channels}"}` }))).position)
      await store.append(event([], { name: 'other' }))
      const all = await store.read('paid', ['', 'ada'], PAGE)
      expect(all.events.map(({ position }) => position)).to.deep.equal([
        positions[0],
        positions[1],
        positions[3],
      ])
      expect(all.events.map(({ body }) => body)).to.deep.equal(['{"of":""}', '{"of":"ada"}', '{"of":",ada"}'])
      expect(all).to.deep.include({ hasMore: false, head: Number(positions[3]) + 1, droppedUpTo: 0 })
      expect(Math.abs((all.events[0]?.atMs ?? 0) - Date.now())).to.be.lessThan(5_000)
      const first = await store.read('paid', ['', 'ada'], { ...PAGE, maxEvents: 2 })
      expect(first.events.map(({ position }) => position)).to.deep.equal([positions[0], positions[1]])
      expect(first.hasMore).to.equal(true)
      const small = await store.read('paid', ['', 'ada'], { ...PAGE, maxBytes: 1 })
      expect([small.events.length, small.hasMore]).to.deep.equal([1, true])
      const rest = await store.read('paid', ['', 'ada'], { ...PAGE, after: Number(positions[1]) })
      expect(rest.events.map(({ position }) => position)).to.deep.equal([positions[3]])
    })

    it(`${name} adds a logged event to a channel and to a webhook later, once`, async () => {
      const { position } = await store.append(event([], { channels: ['ada'] }))
      await store.subscribe(record('a'), LIMITS)
      expect((await store.read('paid', ['bob'], PAGE)).events).to.deep.equal([])
      for (let round = 0; round < 2; round++)
        expect(
          await store.extend('paid', [position, 9_999], { channels: ['bob'], deliveries: ['a', 'x'] }),
        ).to.deep.equal({ dropped: [] })
      expect((await store.read('paid', ['bob', 'ada'], PAGE)).events).to.have.length(1)
      expect((await take()).map((one) => one.position)).to.deep.equal([position])
    })

    for (const [count, channels] of [
      [0, ['bob']],
      [1, []],
      [2, ['bob']],
      [501, []],
    ] as const)
      it(`${name} adds a logged event to ${count} webhooks and to the channels ${JSON.stringify(channels)} later`, async () => {
        const ids = Array.from({ length: count }, (_, index) => `a${index}`)
        await Promise.all(ids.map((id) => store.subscribe(record(id), { ttlMs: 60_000, max: 1_000 })))
        const { position } = await store.append(event([], { channels: ['ada'] }))
        const added = await store.extend('paid', [position], { channels, deliveries: ids })
        expect(added).to.deep.equal({ dropped: [] })
        expect((await store.read('paid', ['bob'], PAGE)).events).to.have.length(channels.length)
        const pending = await Promise.all(ids.map(async (id) => (await store.get(id))?.firstPending))
        expect(pending).to.deep.equal(Array(count).fill(position))
      })

    it(`${name} drops the oldest events of a log that is too large or too old`, async () => {
      store = await make({ maxLogBytes: 5_000 })
      const positions: number[] = []
      for (let index = 0; index < 10; index++)
        positions.push((await store.append(event([], { body: `{"x":"${'x'.repeat(500)}"}` }))).position)
      const page = await store.read('paid', [''], PAGE)
      expect(page.events.length).to.be.within(2, 8)
      expect(page.droppedUpTo).to.equal(positions[9 - page.events.length])
      store = await make({ maxLogAgeMs: 1_000 })
      const { position } = await store.append(event())
      await later(1_050)
      expect(await store.read('paid', [''], PAGE)).to.deep.include({ events: [], droppedUpTo: position })
    })

    it(`${name} gives a delivery to one taker, until it is settled`, async () => {
      await store.subscribe(record('a'), LIMITS)
      const { position } = await store.append(event(['a', 'unknown']))
      expect((await store.get('a'))?.firstPending).to.equal(position)
      const taken = await Promise.all([take(), take(), take()])
      expect(taken.flat()).to.have.length(1)
      const one = taken.flat()[0] as TakenDelivery
      expect(one).to.deep.include({ kind: 'event', position, body: event().body, attempts: 0 })
      expect(one.subscription).to.deep.include({ ...record('a'), firstPending: position })
      expect(await store.settle({ ...one, lease: 'wrong' }, { outcome: 'delivered' })).to.equal(false)
      expect(await store.settle(one, { outcome: 'delivered' })).to.equal(true)
      expect(await store.settle(one, { outcome: 'delivered' })).to.equal(false)
      const { firstPending, status } = (await store.get('a')) ?? expect.fail()
      expect(firstPending).to.equal(undefined)
      expect(Object.keys(status)).to.deep.equal(['lastDeliveryAtMs'])
      expect((await store.take({ leaseMs: 1, max: 1 })).nextInMs).to.equal(Number.POSITIVE_INFINITY)
    })

    it(`${name} gives a delivery to another taker after its lease, and ignores the first one then`, async () => {
      await store.subscribe(record('a'), LIMITS)
      await store.append(event(['a']))
      const first = await takeOne(1_000)
      expect((await store.take({ leaseMs: 1_000, max: 1 })).nextInMs).to.be.within(1, 1_000)
      await later(1_100)
      const second = await takeOne()
      expect(second.id).to.equal(first.id)
      expect(second.lease).to.not.equal(first.lease)
      expect(await store.settle(first, { outcome: 'delivered' })).to.equal(false)
      expect((await store.get('a'))?.firstPending).to.equal(first.position)
      expect(await store.settle(second, { outcome: 'delivered' })).to.equal(true)
    })

    it(`${name} repeats a failed delivery after its delay, and at once after a renewal`, async () => {
      await store.subscribe(record('a'), LIMITS)
      await store.append(event(['a']))
      await store.settle(await takeOne(), { outcome: 'failed', error: 'timeout', delayMs: 1_000 })
      const { status } = (await store.get('a')) ?? expect.fail()
      expect(status.lastError).to.equal('timeout')
      expect(Math.abs((status.failedSinceMs ?? 0) - Date.now())).to.be.lessThan(5_000)
      expect(await take()).to.deep.equal([])
      await later(1_100)
      const again = await takeOne()
      expect(again.attempts).to.equal(1)
      await store.settle(again, { outcome: 'failed', error: 'http_5xx', delayMs: 60_000 })
      expect((await store.get('a'))?.status).to.deep.equal({ ...status, lastError: 'http_5xx' })
      expect(await take()).to.deep.equal([])
      await store.subscribe(record('a'), LIMITS)
      const third = await takeOne()
      expect(third.attempts).to.equal(2)
      await store.settle(third, { outcome: 'delivered' })
      expect((await store.get('a'))?.status).to.have.all.keys('lastDeliveryAtMs')
    })

    it(`${name} does not count a postponed attempt`, async () => {
      await store.subscribe(record('a'), LIMITS)
      await store.append(event(['a']))
      await store.settle(await takeOne(), { outcome: 'postponed', delayMs: 1 })
      await later(10)
      expect((await takeOne()).attempts).to.equal(0)
      expect((await store.get('a'))?.status).to.deep.equal({})
    })

    it(`${name} adds one gap for events that were abandoned`, async () => {
      await store.subscribe(record('a'), LIMITS)
      for (let index = 0; index < 2; index++) await store.append(event(['a']))
      for (const one of [await takeOne(), await takeOne()])
        expect(await store.settle(one, { outcome: 'abandoned', error: 'http_4xx' })).to.equal(true)
      const gap = await takeOne()
      expect(gap).to.deep.include({ kind: 'gap', body: '' })
      expect(gap.position).to.be.greaterThan(1)
      expect(gap.subscription.firstPending).to.equal(undefined)
      expect(await store.settle(gap, { outcome: 'abandoned' })).to.equal(true)
      expect(await take()).to.deep.equal([])
      // The next one is another message.
      await store.append(event(['a']))
      await store.settle(await takeOne(), { outcome: 'abandoned' })
      expect((await takeOne()).id).to.not.equal(gap.id)
    })

    it(`${name} drops deliveries of an owner beyond its bytes, adds a gap, and has room for others`, async () => {
      store = await make({ maxBytesPerOwner: 10_000 })
      await store.subscribe(record('a'), LIMITS)
      await store.subscribe(record('b', { owner: 'bob' }), LIMITS)
      const body = `{"x":"${'x'.repeat(1_500)}"}`
      const dropped: string[][] = []
      for (let index = 0; index < 8; index++)
        dropped.push([...(await store.append(event(['a'], { body }))).dropped])
      expect(dropped[0]).to.deep.equal([])
      expect(dropped[7]).to.deep.equal(['a'])
      expect((await store.append(event(['b'], { body }))).dropped).to.deep.equal([])
      expect((await store.subscribe(record('c', { args: 'x'.repeat(10_000) }), LIMITS)).outcome).to.equal(
        'owner-full',
      )
      const kinds: string[] = []
      for (let [one] = await take(1); one !== undefined; [one] = await take(1)) {
        kinds.push(one.kind)
        await store.settle(one, { outcome: 'delivered' })
      }
      expect(kinds.filter((kind) => kind === 'gap')).to.have.length(1)
      expect((await store.append(event(['a'], { body }))).dropped).to.deep.equal([])
    })

    it(`${name} names the webhooks without room when it adds logged events to them, each once`, async () => {
      store = await make({ maxBytesPerOwner: 10_000 })
      await store.subscribe(record('a'), LIMITS)
      await store.subscribe(record('b', { owner: 'bob' }), LIMITS)
      const body = `{"x":"${'x'.repeat(1_500)}"}`
      const positions: number[] = []
      for (let index = 0; index < 8; index++)
        positions.push((await store.append(event([], { body }))).position)
      const extend = async (which: readonly number[], deliveries: readonly string[]) =>
        (await store.extend('paid', which, { channels: [], deliveries })).dropped
      expect(await extend(positions.slice(0, 1), ['a', 'b'])).to.deep.equal([])
      expect(await extend(positions, ['a'])).to.deep.equal(['a'])
      expect(await extend(positions.slice(0, 2), ['b'])).to.deep.equal([])
    })

    it(`${name} lets the owner with few deliveries go first, next to one with many`, async () => {
      await store.subscribe(record('a'), LIMITS)
      await store.subscribe(record('b', { owner: 'bob' }), LIMITS)
      for (let index = 0; index < 40; index++) await store.append(event(['a']))
      expect(await take(8)).to.not.deep.equal([])
      await store.append(event(['b']))
      const owners = [...(await take(8)), ...(await take(8))].map(({ subscription }) => subscription.owner)
      expect(owners).to.include('bob')
      expect(owners).to.include('ada')
    })

    it(`${name} leaves the deliveries to busy hosts and of busy owners for later`, async () => {
      await store.subscribe(record('a'), LIMITS)
      const other = { url: 'https://other.example.com:8443/b', secrets: [{ secret: SECRET }] }
      await store.subscribe(record('b', { webhook: other }), LIMITS)
      await store.subscribe(record('c', { owner: 'bob', webhook: other }), LIMITS)
      await store.append(event(['a', 'b', 'c']))
      const takeExcept = (hosts: readonly string[], owners: readonly string[]) =>
        store.take({ leaseMs: 1, max: 10, busy: { hosts, owners } })
      const idsOf = ({ deliveries }: Awaited<ReturnType<EventStore['take']>>) =>
        deliveries.map(({ subscription }) => subscription.id).sort()
      const nothing = await takeExcept(['example.com', 'other.example.com:8443'], [])
      expect(idsOf(nothing)).to.deep.equal([])
      expect(nothing.nextInMs).to.be.within(200, 250)
      await later(260)
      expect(idsOf(await takeExcept(['other.example.com:8443'], []))).to.deep.equal(['a'])
      await later(260)
      expect(idsOf(await takeExcept([], ['ada']))).to.deep.equal(['c'])
      await later(260)
      expect(idsOf(await takeExcept([], []))).to.deep.equal(['a', 'b', 'c'])
    })

    it(`${name} takes deliveries to a host behind many to a busy host of the same owner`, async () => {
      await store.subscribe(record('a'), LIMITS)
      const other = { url: 'https://other.example.com/b', secrets: [{ secret: SECRET }] }
      await store.subscribe(record('b', { webhook: other }), LIMITS)
      for (let index = 0; index < 60; index++) await store.append(event(['a']))
      await store.append(event(['b']))
      const busy = { hosts: ['example.com'], owners: [] }
      const { deliveries } = await store.take({ leaseMs: 60_000, max: 5, busy })
      expect(deliveries.map(({ subscription }) => subscription.id)).to.deep.equal(['b'])
    })

    it(`${name} ends a subscription with its deliveries, and sends a last message if there is one`, async () => {
      for (const id of ['a', 'b']) await store.subscribe(record(id), LIMITS)
      await store.append(event(['a', 'b']))
      const taken = await take()
      expect(await store.end('a')).to.equal(true)
      expect(await store.end('a')).to.equal(false)
      expect(await store.end('b', '{"type":"terminated"}')).to.equal(true)
      for (const one of taken) expect(await store.settle(one, { outcome: 'delivered' })).to.equal(false)
      expect(await store.get('b')).to.equal(undefined)
      expect((await store.list('paid')).subscriptions).to.deep.equal([])
      const last = await takeOne()
      expect(last).to.deep.include({ kind: 'terminated', body: '{"type":"terminated"}', position: 0 })
      expect(last.subscription.webhook).to.deep.equal(record('b').webhook)
      await store.settle(last, { outcome: 'failed', error: 'timeout', delayMs: 0 })
      expect(await store.settle(await takeOne(), { outcome: 'delivered' })).to.equal(true)
      expect(await take()).to.deep.equal([])
    })

    it(`${name} drops the last message of a subscription that is made again`, async () => {
      await store.subscribe(record('a'), LIMITS)
      await store.end('a', '{"type":"terminated"}')
      expect((await store.subscribe(record('a'), LIMITS)).outcome).to.equal('added')
      expect(await take()).to.deep.equal([])
    })

    it(`${name} remembers for a time that an owner has verified a URL`, async () => {
      await store.setVerified('ada', 'https://example.com/x', 60_000)
      await store.setVerified('ada', 'https://example.com/y', 20)
      await later(40)
      const known = await Promise.all(
        [
          ['ada', 'x'],
          ['ada', 'y'],
          ['bob', 'x'],
        ].map(([owner = '', path]) => store.isVerified(owner, `https://example.com/${path}`)),
      )
      expect(known).to.deep.equal([true, false, false])
    })

    it(`${name} notifies its listeners of events, and has one epoch`, async () => {
      const names: unknown[] = []
      const unwatch = store.watch((one) => names.push(one))
      await store.append(event())
      unwatch()
      await store.append(event())
      expect(names.filter((one) => one !== undefined)).to.deep.equal(['paid'])
      expect(await store.epoch()).to.equal(await store.epoch())
      expect(await store.epoch()).to.match(/^[\w-]{8}$/)
    })
  })
}

describe('mcp/events: memoryEventStore', () => {
  behavesAsEventStore('memoryEventStore', async (limits) => memoryEventStore(limits))
})

describe('redis: redisEventStore', () => {
  let redis: RedisServer
  before(async function () {
    skipIf(this, redisMissing())
    redis = await startRedis()
  })
  after(() => redis?.stop())

  for (const kind of REDIS_CLIENTS) {
    describe(kind.name, () => {
      const open: { end(): void }[] = []
      const stores: RedisEventStore[] = []
      let count = 0
      const make = async (limits: EventStoreLimits, prefix = `test-${kind.name}-${count++}`) => {
        const client = await kind.connect(redis.port)
        open.push(client)
        const store = redisEventStore(client as unknown as EventRedisClient, { ...limits, prefix })
        stores.push(store)
        return store
      }
      afterEach(async () => {
        await Promise.all(stores.splice(0).map((store) => store.close()))
        for (const client of open.splice(0)) client.end()
      })

      behavesAsEventStore(`redisEventStore with ${kind.name}`, make)

      it(`redisEventStore with ${kind.name} notifies the other node, and both share everything`, async () => {
        const [one, two] = [await make({}, `shared-${kind.name}`), await make({}, `shared-${kind.name}`)]
        await until(() => one.connected && two.connected, 5)
        const names: unknown[] = []
        two.watch((name) => names.push(name))
        await one.subscribe(record('a'), LIMITS)
        await one.append(event(['a']))
        await until(() => names.includes('paid'), 5)
        expect((await two.get('a'))?.id).to.equal('a')
        expect(await two.epoch()).to.equal(await one.epoch())
        const taken = await Promise.all([one, two].map((store) => store.take({ leaseMs: 60_000, max: 5 })))
        expect(taken.flatMap(({ deliveries }) => deliveries)).to.have.length(1)
      })

      it(`redisEventStore with ${kind.name} appends one event for 1,200 subscriptions, and lists them all`, async () => {
        const store = await make({})
        const ids = Array.from({ length: 1_200 }, (_, index) => `s${index}`)
        for (const id of ids) await store.subscribe(record(id, { owner: `o${id}` }), LIMITS)
        expect((await store.list('paid')).subscriptions).to.have.length(1_200)
        await store.append(event(ids))
        const seen = new Set<string>()
        for (let more = await store.take({ leaseMs: 60_000, max: 32 }); more.deliveries.length > 0; ) {
          for (const { subscription } of more.deliveries) seen.add(subscription.id)
          more = await store.take({ leaseMs: 60_000, max: 32 })
        }
        expect(seen.size).to.equal(1_200)
      }).timeout(30_000)

      it(`redisEventStore with ${kind.name} leaves nothing behind but counters and the log when all is settled`, async () => {
        const prefix = `empty-${kind.name}`
        const store = await make({ maxLogBytes: 1 }, prefix)
        await store.subscribe(record('a'), LIMITS)
        await store.subscribe(record('b'), LIMITS)
        await store.append(event(['a', 'b'], { channels: ['', 'x'] }))
        for (const outcome of ['delivered', 'abandoned', 'delivered'] as const) {
          const [one] = (await store.take({ leaseMs: 60_000, max: 1 })).deliveries
          await store.settle(one ?? expect.fail(), { outcome })
        }
        await store.end('a')
        await store.end('b', '{}')
        const [last] = (await store.take({ leaseMs: 60_000, max: 1 })).deliveries
        await store.settle(last ?? expect.fail(), { outcome: 'abandoned' })
        const client = (open.at(-1) ?? expect.fail()) as unknown as {
          keys(pattern: string): Promise<string[]>
        }
        const keys = (await client.keys(`{${prefix}}*`)).map((key) => key.slice(prefix.length + 3))
        expect(keys.sort()).to.deep.equal(['dropped', 'head'])
      })
    })
  }

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
