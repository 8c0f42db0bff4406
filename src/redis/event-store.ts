import { randomUUID } from 'node:crypto'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor, unchecked } from '../base/options/option-rules.ts'
import { checkRedisClient } from '../base/options/redis-client.ts'
import { valueIn } from '../base/redis-replies.ts'
import type {
  Delivery,
  DeliveryOutcome,
  EventStore,
  EventStoreLimits,
  LoggedEvent,
  Position,
  StoredSubscription,
  SubscriptionRecord,
} from '../mcp/events/store.ts'
import { type RedisSubscription, redisBroadcast } from './broadcast.ts'
import { checkBull, type EventJob, eventJobs } from './event-jobs.ts'
import { APPEND, BATCH, DONE, SUBSCRIBE, WAIT } from './event-scripts.ts'
import { type RedisScriptClient, scriptRunner } from './run-script.ts'

const checks = optionChecksOf('redisEventStore')
const { readOptions, text, wholeNumber } = checks

/** Options of {@link redisEventStore}. */
export interface RedisEventStoreOptions extends EventStoreLimits {
  /** The beginning of its keys, and the name of its channel. Defaults to `mcp-gatekit:events`. */
  readonly prefix?: string | undefined
  /**
   * The maximum number of subscriptions of all owners together. Beyond it, the oldest one without a webhook of the owner with the
   * most ends. Defaults to 100 000.
   */
  readonly maxSubscriptions?: number | undefined
  /** Called when Redis is unavailable for notifications or deliveries, at most once every ten seconds. */
  readonly onError?: ((error: Error) => void) | undefined
}

/** A store of events in Redis, as {@link redisEventStore} returns it. */
export interface RedisEventStore extends EventStore, RedisSubscription {}

const RULES = {
  maxLogBytes: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxLogAgeMs: optional(wholeNumber(1_000), 3_600_000),
  maxBytesPerOwner: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxSubscriptions: optional(wholeNumber(1), 100_000),
  prefix: optional(text, 'mcp-gatekit:events'),
  onError: unchecked<RedisEventStoreOptions['onError']>(),
} satisfies RulesFor<RedisEventStoreOptions>

/** The maximum number of subscriptions in one page. */
const PAGE = 500
/** The lifetime of the state of deliveries, and of a log without readers. */
const DAY_MS = 86_400_000
/** The maximum number of events that wait for the webhooks of one owner. */
const MAX_WAITING = 1_000
type Command = readonly [name: string, key: string, ...values: (string | number)[]]

/**
 * Creates a store that keeps subscriptions and the log of events in Redis (6.2 or later), and what waits for webhooks in jobs of
 * BullMQ, so that every node of a server serves every subscription, and no event is lost when a node ends. Secrets of webhooks,
 * arguments, and the data of events are stored as they are: protect Redis as you protect them. Let it write to disk
 * (`appendonly yes`) and never evict keys (`maxmemory-policy noeviction`). The store opens three further connections with
 * `client.duplicate()`.
 * @param client an ioredis or node-redis client. It is neither connected nor closed.
 * @param options the prefix of the keys, the limits, and a function for errors.
 * @returns a store for the adapter option `events.store`, with `close()`.
 * @throws {KitMcpConfigError} if `client` is not a client, an option is invalid or unknown, or `bullmq` is not installed.
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { createMcpAdapter, KitMcpRouter, redisEventStore } from 'mcp-gatekit'
 * import { z } from 'zod'
 *
 * const router = KitMcpRouter.create().event('tick', { description: 'A minute has passed', payload: z.object({}) })
 * const store = redisEventStore(new Redis(), { onError: console.warn })
 * const adapter = createMcpAdapter({ router, events: { store } })
 * ```
 * @see docs/guides/events.md
 */
export function redisEventStore(
  client: RedisScriptClient,
  options: RedisEventStoreOptions = {},
): RedisEventStore {
  checkRedisClient(checks, 'client', client, ['eval', 'publish', 'duplicate'])
  const expected = `must be an object such as { prefix: 'my-server:events' }`
  const limits = readOptions('redisEventStore', expected, options, RULES, 'options')
  checkBull()
  const { prefix, onError, maxLogBytes, maxLogAgeMs, maxBytesPerOwner, maxSubscriptions } = limits
  const broadcast = redisBroadcast('redisEventStore', client, { onError }, `${prefix}:changes`)
  const jobs = eventJobs(client, prefix, (error) => broadcast.report('deliveries', error))
  const evaluate = scriptRunner(client)
  const run = (script: string, ...values: readonly (string | number)[]): Promise<unknown> =>
    evaluate(script, [`{${prefix}}:s:`], values.map(String))
  const batch = async (...commands: readonly Command[]): Promise<unknown[]> => {
    const texts = commands.map((command) => command.map(String))
    return texts.length === 0 ? [] : ((await run(BATCH, JSON.stringify(texts))) as unknown[])
  }
  const command = async (...one: Command): Promise<unknown> => (await batch(one))[0]
  let calls = 0

  /** Reads the newest position. A log that is not there begins, so that every node sees the same one. */
  const headOf = (name: string): readonly Command[] => [
    ['HSETNX', `meta:${name}`, 'head', Date.now() * 1_000],
    ['PEXPIRE', `meta:${name}`, maxLogAgeMs + DAY_MS],
    ['HGET', `meta:${name}`, 'head'],
  ]
  const newest = async (name: string): Promise<Position> => Number(valueIn((await batch(...headOf(name)))[2]))

  async function get(id: string): Promise<StoredSubscription | undefined> {
    const [found, stored, pending] = (await batch(
      ['HMGET', `sub:${id}`, 'record', 'since', 'expiresAt'],
      ['GET', `status:${id}`],
      ['ZRANGE', `pend:${id}`, 0, 0],
    )) as [unknown, unknown, unknown[]]
    const [record = '', since, expiresAt] = textsIn(found)
    if (record === '') return undefined
    return {
      ...(JSON.parse(record) as SubscriptionRecord),
      since: Number(since),
      expiresAtMs: Number(expiresAt),
      status: JSON.parse(valueIn(stored) ?? '{}'),
      ...(pending.length > 0 && { firstPending: Number(valueIn(pending[0])) }),
    }
  }

  /** Removes a subscription. @param member `id owner since type` */
  async function forget(member: string, hasWebhook: boolean): Promise<void> {
    const [id, owner, , type] = member.split(' ')
    await batch(
      ['DEL', `sub:${id}`],
      ['ZREM', `own:${hasWebhook}:${owner}`, member],
      ['ZREM', `type:${hasWebhook}:${type}`, member],
      ['ZREM', 'all', member],
    )
  }

  /** Ends the oldest subscription without a webhook of an owner, by default of the one with the most. Returns `false` without one. */
  async function endOldest(owner?: string): Promise<boolean> {
    const [top] = owner === undefined ? textsIn(await command('ZREVRANGE', 'most', 0, 0)) : [owner]
    if (top === undefined) return false
    const [oldest] = textsIn(await command('ZRANGE', `own:false:${top}`, 0, 0))
    if (oldest !== undefined) await forget(oldest, false)
    await (oldest === undefined
      ? command('ZREM', 'most', top)
      : command('ZADD', 'most', 'XX', 'INCR', -1, top))
    return true
  }

  /** Attempts a job. Returns undefined if it is done. */
  async function attempted(
    { id: jobId, name: kind, data, attemptsMade: attempts, timestamp: addedAtMs }: EventJob,
    attempt: Parameters<EventStore['work']>[0],
  ): ReturnType<Parameters<typeof jobs.work>[0]> {
    const { id, owner, since, position, body } = data
    const found = (await get(id)) as Delivery['subscription'] | undefined
    let outcome: DeliveryOutcome = { outcome: 'delivered' }
    if (found?.since === since) {
      const message = { id: String(jobId), kind, position, body, attempts, addedAtMs }
      outcome = await attempt({ ...message, subscription: found, head: await newest(found.name) })
      const { status } = outcome
      if (status !== undefined) await command('SET', `status:${id}`, JSON.stringify(status), 'PX', DAY_MS)
      if ('delayMs' in outcome) return outcome
    }
    if (kind !== 'event') return undefined
    await run(DONE, owner, `${id}.${since}`, position, Buffer.byteLength(body))
    if (outcome.outcome === 'abandoned') await jobs.add('gap', { ...data, position: 0, body: '' })
    return undefined
  }

  return {
    get,

    async subscribe(record, { ttlMs, max }) {
      const { id, owner, name, webhook } = record
      const head = await newest(name)
      const texts = [id, String(webhook !== undefined), owner, name, JSON.stringify(record)]
      const numbers = [ttlMs, Date.now(), head, max, maxSubscriptions]
      const made = randomUUID()
      for (;;) {
        const outcome = valueIn(await run(SUBSCRIBE, ...texts, ...numbers, made))
        if (outcome === 'new' || outcome === 'renewed') {
          const stored = await get(id)
          return stored && { isNew: outcome === 'new', subscription: stored, head }
        }
        if (outcome === 'owner' && webhook !== undefined) return undefined
        if (!(await endOldest(outcome === 'owner' ? owner : undefined))) return undefined
      }
    },

    async *subscribers(name, { owners, hasWebhook, needsArgs }) {
      const keyOf = (owner: string): string => `own:${hasWebhook}:${owner}`
      for (const key of owners?.map(keyOf) ?? [`type:${hasWebhook}:${name}`])
        for (let cursor: string | undefined; cursor !== '0'; ) {
          const scan = await command('ZSCAN', key, cursor ?? '0', 'COUNT', PAGE)
          const [next, entries] = scan as [unknown, unknown]
          cursor = valueIn(next) ?? '0'
          // A member is followed by its time of expiry.
          const found = textsIn(entries).flatMap((member, index, all) => {
            const [id = '', owner = '', since, type] = member.split(' ')
            const isLive = type === name && Number(all[index + 1]) > Date.now()
            return isLive ? [{ id, owner, since: Number(since) }] : []
          })
          const records = await batch(
            ...(needsArgs ? found : []).map(({ id }): Command => ['HGET', `sub:${id}`, 'record']),
          )
          yield found.flatMap((one, index) => {
            const record = valueIn(records[index])
            if (record === undefined) return needsArgs ? [] : [one]
            return [{ ...one, args: JSON.parse(record).args }]
          })
        }
    },

    async end(id) {
      const ended = await get(id)
      if (ended === undefined) return false
      const { owner, since, name, webhook } = ended
      await forget(`${id} ${owner} ${since} ${name}`, webhook !== undefined)
      return true
    },

    async append(name, event) {
      const atMs = Date.now()
      const log = [maxLogBytes, maxLogAgeMs, maxLogAgeMs + DAY_MS]
      const values = [name, atMs * 1_000, atMs, JSON.stringify({ ...event, atMs })]
      const position = Number(await run(APPEND, ...values, ...log))
      broadcast.receive(name)
      broadcast.send(name)
      return position
    },

    async read(name, after, max) {
      const [, , last, oldest, found] = await batch(
        ...headOf(name),
        ['XRANGE', `log:${name}`, '-', '+', 'COUNT', 1],
        ['XRANGE', `log:${name}`, `(${after}-0`, '+', 'COUNT', max],
      )
      const head = Number(valueIn(last))
      const [first] = eventsIn(oldest)
      return { events: eventsIn(found), head, droppedUpTo: (first?.position ?? head + 1) - 1 }
    },

    async deliver({ position, body }, subscribers) {
      const all = subscribers.map(async ({ id, owner, since }) => {
        // In the order of the calls, also in one millisecond.
        const at = Date.now() * 1_000 + (calls++ % 1_000)
        const values = [owner, `${id}.${since}`, position, Buffer.byteLength(body), at]
        const reply = await run(WAIT, ...values, MAX_WAITING, maxBytesPerOwner, 2 * DAY_MS)
        const [count, ...dropped] = reply as unknown[]
        // The owner with fewer events that wait comes first.
        await jobs.add('event', { id, owner, since, position, body }, Number(count))
        return await Promise.all(
          textsIn(dropped).map(async (member) => {
            const [name = '', oldest] = member.split(' ')
            const [of = '', made] = name.split('.')
            // In this order, an event is not lost in silence.
            await jobs.add('gap', { id: of, owner, since: Number(made), position: 0, body: '' })
            await jobs.remove(`${name}.${oldest}`)
            return of
          }),
        )
      })
      return (await Promise.all(all)).flat()
    },

    work: (attempt, max) => jobs.work((job) => attempted(job, attempt), max),

    watch: broadcast.listen,

    async close() {
      await broadcast.close()
      await jobs.close()
    },
  }
}

/** Returns the texts of a list. What is not there becomes an empty text. */
function textsIn(reply: unknown): string[] {
  return (reply as unknown[]).map((value) => valueIn(value) ?? '')
}

/** Returns the events of a log: the fields `at` and `event` by position. */
function eventsIn(reply: unknown): LoggedEvent[] {
  return (reply as [unknown, unknown][]).map(([id, fields]) => ({
    ...JSON.parse(textsIn(fields)[3] ?? ''),
    position: Number.parseInt(valueIn(id) ?? '', 10),
  }))
}
