import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'
import { checkRedisClient } from '../base/options/redis-client.ts'
import { isOne, valueIn } from '../base/redis-replies.ts'
import type {
  Delivery,
  DeliveryOutcome,
  EventStore,
  EventStoreLimits,
  LoggedEvent,
  LogPage,
  Position,
  StoredSubscription,
  Subscriber,
  SubscriptionRecord,
} from '../mcp/events/store.ts'
import { RedisBroadcast, type RedisClient } from './broadcast.ts'
import { checkBull, type EventJob, EventJobs } from './event-jobs.ts'
import { APPEND, BATCH, DONE, SUBSCRIBE, WAIT } from './event-scripts.ts'
import { type RunScript, scriptRunner } from './run-script.ts'

const checks = optionChecksOf('redisEventStore')
const { callable, readOptions, text, wholeNumber } = checks

/** The part of an ioredis or node-redis client that {@link redisEventStore} uses. */
export interface EventRedisClient {
  /** Runs a Lua script. */
  eval(...args: any[]): unknown
  /** Sends a message to a channel. */
  publish(...args: any[]): unknown
  /** Creates a client with the same options, for the subscription and for BullMQ. */
  duplicate(...args: any[]): unknown
}

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
export interface RedisEventStore extends EventStore {
  /** `true` while this node receives the notifications of other nodes. */
  readonly connected: boolean
  /** Closes the connections that were opened. Never rejects. */
  close(): Promise<void>
}

const RULES = {
  maxLogBytes: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxLogAgeMs: optional(wholeNumber(1_000), 3_600_000),
  maxBytesPerOwner: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxSubscriptions: optional(wholeNumber(1), 100_000),
  prefix: optional(text, 'mcp-gatekit:events'),
  onError: optional(
    callable<(error: Error) => void>('set it to a function that is called when Redis is unavailable'),
  ),
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
  client: EventRedisClient,
  options: RedisEventStoreOptions = {},
): RedisEventStore {
  checkRedisClient(checks, 'client', client, ['eval', 'publish', 'duplicate'])
  const expected = `must be an object such as { prefix: 'my-server:events' }`
  const read = readOptions('redisEventStore', expected, options, RULES, 'options')
  checkBull()
  return new EventsInRedis(client, read)
}

class EventsInRedis implements RedisEventStore {
  readonly #limits: ReadBy<typeof RULES>
  readonly #eval: RunScript
  readonly #broadcast: RedisBroadcast
  readonly #jobs: EventJobs
  #count = 0
  readonly #listeners = new Set<(name: string | undefined) => void>()

  constructor(client: EventRedisClient, limits: ReadBy<typeof RULES>) {
    this.#limits = limits
    this.#eval = scriptRunner(client)
    const { prefix, onError } = limits
    this.#broadcast = new RedisBroadcast(
      'redisEventStore',
      client as unknown as RedisClient,
      { channel: `${prefix}:changes`, ...(onError !== undefined && { onError }) },
      { onMessage: (name) => this.#call(name), onGap: () => this.#call(undefined) },
    )
    this.#jobs = new EventJobs(client, prefix, (error) => this.#broadcast.report('deliveries', error))
  }

  get connected(): boolean {
    return this.#broadcast.connected
  }

  async subscribe(
    record: SubscriptionRecord,
    { ttlMs, max }: Parameters<EventStore['subscribe']>[1],
  ): ReturnType<EventStore['subscribe']> {
    const { id, owner, name, webhook } = record
    const kind = webhook === undefined ? 'r:' : 'w:'
    const values = [id, kind, owner, name, JSON.stringify(record), ttlMs, Date.now(), await this.#head(name)]
    for (;;) {
      const reply = await this.#run(SUBSCRIBE, ...values, max, this.#limits.maxSubscriptions)
      const outcome = valueIn(reply)
      if (outcome === 'new' || outcome === 'renewed') {
        const [subscription, head] = await Promise.all([this.get(id), this.#head(name)])
        return subscription && { isNew: outcome === 'new', subscription, head }
      }
      if (outcome === 'owner' && webhook !== undefined) return undefined
      if (!(await this.#endOldest(outcome === 'owner' ? owner : undefined))) return undefined
    }
  }

  get(id: string): Promise<StoredSubscription | undefined> {
    return this.#load(id, false)
  }

  async *subscribers(
    name: string,
    { owners, hasWebhook, needsArgs }: Parameters<EventStore['subscribers']>[1],
  ): AsyncGenerator<readonly Subscriber[]> {
    const kind = hasWebhook ? 'w:' : 'r:'
    for (const key of owners?.map((owner) => `own:${kind}${owner}`) ?? [`type:${kind}${name}`])
      for (let cursor: string | undefined; cursor !== '0'; ) {
        const scan = await this.#command('ZSCAN', key, cursor ?? '0', 'COUNT', PAGE)
        const [next, entries] = scan as [unknown, unknown]
        cursor = valueIn(next) ?? '0'
        // A member is followed by its time of expiry.
        const found = textsIn(entries).flatMap((member, index, all) => {
          const [id = '', owner = '', since, type] = member.split(' ')
          const isLive = type === name && Number(all[index + 1]) > Date.now()
          return isLive ? [{ id, owner, since: Number(since) }] : []
        })
        const records = await this.#batch(
          ...(needsArgs ? found : []).map(({ id }): Command => ['HGET', `sub:${id}`, 'record']),
        )
        yield found.flatMap((one, index) => {
          const record = valueIn(records[index])
          if (record === undefined) return needsArgs ? [] : [one]
          return [{ ...one, args: JSON.parse(record).args }]
        })
      }
  }

  async end(id: string, terminated?: string): Promise<boolean> {
    const subscription = await this.get(id)
    if (subscription === undefined) return false
    const { owner, since, name, webhook } = subscription
    const isFirst = isOne(await this.#command('HSETNX', `sub:${id}`, 'ended', 1))
    const isLast = terminated !== undefined && webhook !== undefined
    await this.#forget(`${id} ${owner} ${since} ${name}`, webhook === undefined ? 'r:' : 'w:', isLast)
    if (isLast && isFirst) await this.#jobs.add('terminated', subscription, terminated)
    return isFirst
  }

  async append(name: string, event: Pick<LoggedEvent, 'body' | 'channels'>): Promise<Position> {
    const { maxLogBytes, maxLogAgeMs } = this.#limits
    const atMs = Date.now()
    const limits = [maxLogBytes, maxLogAgeMs, maxLogAgeMs + DAY_MS]
    const values = [name, atMs * 1_000, atMs, JSON.stringify({ ...event, atMs }), ...limits]
    const position = Number(await this.#run(APPEND, ...values))
    this.#call(name)
    this.#broadcast.send(name)
    return position
  }

  async read(name: string, after: Position, max: number): Promise<LogPage> {
    const [, , head, oldest, found] = await this.#batch(
      ...this.#headOf(name),
      ['XRANGE', `log:${name}`, '-', '+', 'COUNT', 1],
      ['XRANGE', `log:${name}`, `(${after}-0`, '+', 'COUNT', max],
    )
    const newest = Number(valueIn(head))
    const [first] = eventsIn(oldest)
    return { events: eventsIn(found), head: newest, droppedUpTo: (first?.position ?? newest + 1) - 1 }
  }

  async deliver(
    _name: string,
    { position, body }: Pick<LoggedEvent, 'position' | 'body'>,
    subscribers: readonly Subscriber[],
  ): Promise<readonly string[]> {
    const limits = [MAX_WAITING, this.#limits.maxBytesPerOwner, 2 * DAY_MS]
    const dropped = subscribers.map(async (subscriber) => {
      // In the order of the calls, also in one millisecond.
      const at = Date.now() * 1_000 + (this.#count++ % 1_000)
      const { id, owner, since } = subscriber
      const values = [owner, `${id}.${since}`, position, Buffer.byteLength(body), at, ...limits]
      const [count, ...oldest] = (await this.#run(WAIT, ...values)) as unknown[]
      // The owner with fewer events that wait comes first.
      await this.#jobs.add('event', subscriber, body, position, Number(count))
      return await Promise.all(textsIn(oldest).map((member) => this.#drop(owner, member)))
    })
    return (await Promise.all(dropped)).flat()
  }

  work(attempt: Parameters<EventStore['work']>[0], max: number): () => Promise<void> {
    return this.#jobs.work((job) => this.#attempt(job, attempt), max)
  }

  watch(listener: (name: string | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    await this.#broadcast.close()
    await this.#jobs.close()
  }

  /** Ends the oldest subscription without a webhook of an owner, by default of the one with the most. Returns `false` without one. */
  async #endOldest(owner?: string): Promise<boolean> {
    const [top] = owner === undefined ? textsIn(await this.#command('ZREVRANGE', 'most', 0, 0)) : [owner]
    if (top === undefined) return false
    const [popped, count] = await this.#batch(['ZPOPMIN', `own:r:${top}`], ['ZCARD', `own:r:${top}`])
    const size = Number(count)
    await this.#command(...((size === 0 ? ['ZREM', 'most', top] : ['ZADD', 'most', size, top]) as Command))
    const [oldest] = textsIn(popped)
    if (oldest !== undefined) await this.#forget(oldest, 'r:', false)
    return true
  }

  /** Removes a subscription. @param member `id owner since type` */
  async #forget(member: string, kind: string, isKept: boolean): Promise<void> {
    const [id, owner, , type] = member.split(' ')
    await this.#batch(
      ['PEXPIRE', `sub:${id}`, isKept ? DAY_MS : 0],
      ['ZREM', `own:${kind}${owner}`, member],
      ['ZREM', `type:${kind}${type}`, member],
      ['ZREM', 'all', member],
    )
  }

  async #load(id: string, isEnded: boolean): Promise<StoredSubscription | undefined> {
    const [found, stored, [pending]] = (await this.#batch(
      ['HMGET', `sub:${id}`, 'record', 'since', 'expiresAt', 'ended'],
      ['GET', `status:${id}`],
      ['ZRANGE', `pend:${id}`, 0, 0],
    )) as [unknown, unknown, unknown[]]
    const [record = '', since, expiresAt, ended] = textsIn(found)
    if (record === '' || isEnded !== (ended !== '')) return undefined
    return {
      ...(JSON.parse(record) as SubscriptionRecord),
      since: Number(since),
      expiresAtMs: Number(expiresAt),
      status: JSON.parse(valueIn(stored) ?? '{}'),
      ...(pending !== undefined && { firstPending: Number(valueIn(pending)) }),
    }
  }

  async #head(name: string): Promise<Position> {
    return Number(valueIn((await this.#batch(...this.#headOf(name)))[2]))
  }

  /** Reads the newest position. A log that is not there begins, so that every node sees the same one. */
  #headOf(name: string): readonly Command[] {
    const key = `meta:${name}`
    const lifeMs = this.#limits.maxLogAgeMs + DAY_MS
    return [
      ['HSETNX', key, 'head', Date.now() * 1_000],
      ['PEXPIRE', key, lifeMs],
      ['HGET', key, 'head'],
    ]
  }

  /** Removes the job of an event that no longer waits, and returns the id of its subscription. */
  async #drop(owner: string, member: string): Promise<string> {
    const [name = '', position] = member.split(' ')
    const [id = '', since] = name.split('.')
    await this.#jobs.remove(`${name}.${position}`)
    await this.#jobs.add('gap', { id, owner, since: Number(since) })
    return id
  }

  /** Attempts a job. Returns undefined if it is done. */
  async #attempt(
    { id: jobId, name: kind, data, attemptsMade: attempts, timestamp: addedAtMs }: EventJob,
    attempt: Parameters<EventStore['work']>[0],
  ): ReturnType<Parameters<EventJobs['work']>[0]> {
    const { id, owner, since, position, body } = data
    const found = await this.#load(id, kind === 'terminated')
    let outcome: DeliveryOutcome = { outcome: 'delivered' }
    if (found?.since === since) {
      const subscription = found as Delivery['subscription']
      const message = { id: String(jobId), kind, position, body, attempts, addedAtMs }
      outcome = await attempt({ ...message, subscription, head: await this.#head(found.name) })
      const { status } = outcome
      if (status !== undefined)
        await this.#command('SET', `status:${id}`, JSON.stringify(status), 'PX', DAY_MS)
      if ('delayMs' in outcome) return outcome
    }
    if (kind !== 'event') return undefined
    await this.#run(DONE, owner, `${id}.${since}`, position, Buffer.byteLength(body))
    if (outcome.outcome === 'abandoned') await this.#jobs.add('gap', data)
    return undefined
  }

  #call(name: string | undefined): void {
    for (const listener of this.#listeners) listener(name)
  }

  #run(script: string, ...values: readonly (string | number)[]): Promise<unknown> {
    return this.#eval(script, [`{${this.#limits.prefix}}:s:`], values.map(String))
  }

  async #batch(...commands: readonly Command[]): Promise<unknown[]> {
    const texts = commands.map((command) => command.map(String))
    return texts.length === 0 ? [] : ((await this.#run(BATCH, JSON.stringify(texts))) as unknown[])
  }

  async #command(...command: Command): Promise<unknown> {
    return (await this.#batch(command))[0]
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
