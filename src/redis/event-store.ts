import { createHash, randomUUID } from 'node:crypto'
import type { EventStoreLimits } from '../mcp/events/memory-event-store.ts'
import type {
  EventStore,
  LoggedEvent,
  LogPage,
  LogState,
  Position,
  StoredSubscription,
  Subscriber,
  SubscriptionRecord,
} from '../mcp/events/store.ts'
import { optionChecksOf } from '../options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../options/option-rules.ts'
import { checkRedisClient } from '../options/redis-client.ts'
import { isInstalled } from '../peer-problem.ts'
import { isOne, valueIn } from '../redis-replies.ts'
import { RedisBroadcast, type RedisClient } from './broadcast.ts'
import { DAY_MS, EventDeliveries, notLoaded } from './event-deliveries.ts'
import { APPEND, EventKeys, SUBSCRIBE } from './event-scripts.ts'

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
  /** The beginning of its keys, and the name of its channel. Defaults to `mcp-gatekit:event-store`. */
  readonly prefix?: string | undefined
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
  prefix: optional(text, 'mcp-gatekit:event-store'),
  onError: optional(
    callable<(error: Error) => void>('set it to a function that is called when Redis is unavailable'),
  ),
} satisfies RulesFor<RedisEventStoreOptions>

/** The maximum number of subscriptions in one page, and of events that one read looks at. */
const PAGE = 500
const MAX_SCANNED = 1_000
/** The maximum number of URLs that an owner has verified. */
const MAX_VERIFIED = 100

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
  // A bundle contains all packages, and the import reports others.
  if (isInstalled('jose') && !isInstalled('bullmq')) throw notLoaded({ code: 'MODULE_NOT_FOUND' })
  return new EventsInRedis(client, read)
}

class EventsInRedis implements RedisEventStore {
  readonly #prefix: string
  readonly #limits: ReadBy<typeof RULES>
  readonly #keys: EventKeys
  readonly #broadcast: RedisBroadcast
  readonly #deliveries: EventDeliveries
  readonly #listeners = new Set<(name: string | undefined) => void>()

  constructor(client: EventRedisClient, options: ReadBy<typeof RULES>) {
    const { prefix, onError } = options
    this.#prefix = `{${prefix}}:s:`
    this.#limits = options
    this.#keys = new EventKeys(client, this.#prefix)
    this.#broadcast = new RedisBroadcast(
      'redisEventStore',
      client as unknown as RedisClient,
      { channel: `${prefix}:changes`, ...(onError !== undefined && { onError }) },
      { onMessage: (name) => this.#call(name), onGap: () => this.#call(undefined) },
    )
    this.#deliveries = new EventDeliveries({
      client,
      prefix: `{${prefix}}`,
      keys: this.#keys,
      maxBytes: options.maxBytesPerOwner,
      load: (key, id) => this.#load(key, id),
      log: (name) => this.#log(name),
      report: (error) => this.#broadcast.report('deliveries', error),
    })
  }

  get connected(): boolean {
    return this.#broadcast.connected
  }

  async subscribe(
    record: SubscriptionRecord,
    { ttlMs, max }: Parameters<EventStore['subscribe']>[1],
  ): ReturnType<EventStore['subscribe']> {
    const { id, owner, name, webhook } = record
    const values = [id, kindOf(webhook !== undefined), owner, name, JSON.stringify(record), ttlMs, max]
    const outcome = Number(await this.#keys.run(SUBSCRIBE, values))
    if (outcome < 0) return undefined
    if (outcome === 1) await this.#keys.command('DEL', `ended:${id}`)
    const [subscription, log] = await Promise.all([this.get(id), this.#log(name)])
    return subscription && { isNew: outcome === 1, subscription, log }
  }

  get(id: string): Promise<StoredSubscription | undefined> {
    return this.#load(`sub:${id}`, id)
  }

  async *subscribers(
    name: string,
    { owners, hasWebhook, needsArgs }: Parameters<EventStore['subscribers']>[1],
  ): AsyncGenerator<readonly Subscriber[]> {
    const kind = kindOf(hasWebhook)
    const now = Date.now()
    for (let first = 0; owners !== undefined && first < owners.length; first += PAGE) {
      const ofOwner = (owner: string): Promise<string[]> =>
        this.#keys.list('ZRANGEBYSCORE', `own:${kind}${owner}`, now, '+inf')
      const members = await Promise.all(owners.slice(first, first + PAGE).map(ofOwner))
      yield await this.#subscribersIn(name, members.flat(), needsArgs)
    }
    for (let cursor = owners === undefined ? '' : '0'; cursor !== '0'; ) {
      const scan = this.#keys.command('ZSCAN', `type:${kind}${name}`, cursor || '0', 'COUNT', PAGE)
      const [next, entries] = (await scan) as [unknown, unknown[]]
      cursor = valueIn(next) ?? '0'
      const pairs = entries.map((entry) => valueIn(entry) ?? '')
      const members = pairs.filter((_, index) => index % 2 === 0 && Number(pairs[index + 1]) > now)
      yield await this.#subscribersIn(name, members, needsArgs)
    }
  }

  async end(id: string, terminated?: string): Promise<boolean> {
    const subscription = await this.get(id)
    if (subscription === undefined) return false
    const { owner, since, name, webhook } = subscription
    const kind = kindOf(webhook !== undefined)
    const member = `${id} ${owner} ${since} ${name}`
    const isLast = terminated !== undefined && webhook !== undefined
    if (isLast) {
      await this.#keys.command('RENAME', `sub:${id}`, `${this.#prefix}ended:${id}`)
      await this.#keys.command('PEXPIRE', `ended:${id}`, DAY_MS)
    }
    const [ended] = await Promise.all([
      this.#keys.command('DEL', `sub:${id}`),
      this.#keys.command('ZREM', `own:${kind}${owner}`, member),
      this.#keys.command('ZREM', `type:${kind}${name}`, member),
      this.#keys.command('DEL', `status:${id}`),
      this.#keys.command('DEL', `pend:${id}.${since}`),
    ])
    if (isLast) await this.#deliveries.add('terminated', { id, owner, since }, terminated)
    return isLast || isOne(ended)
  }

  async append(name: string, body: string, channels: readonly string[]): Promise<Position> {
    const { maxLogBytes, maxLogAgeMs } = this.#limits
    const limits = [maxLogBytes, maxLogAgeMs, maxLogAgeMs + DAY_MS]
    const values = [name, newEpoch(), body, JSON.stringify(channels), ...limits]
    const position = Number(await this.#keys.run(APPEND, values))
    this.#call(name)
    this.#broadcast.send(name)
    return position
  }

  async read(
    name: string,
    channels: readonly string[],
    { after, maxEvents, maxBytes }: Parameters<EventStore['read']>[2],
  ): Promise<LogPage> {
    const range = (from: string, count: number): Promise<unknown> =>
      this.#keys.command('XRANGE', `log:${name}`, from, '+', 'COUNT', count)
    const [state, oldest, found] = await Promise.all([
      this.#log(name),
      range('-', 1),
      range(`(${after}-0`, MAX_SCANNED),
    ])
    const [first] = entriesIn(oldest)
    const all = entriesIn(found)
    const young = all.filter(({ atMs }) => atMs > Date.now() - this.#limits.maxLogAgeMs)
    const isTooOld = young.length < all.length
    const kept = isTooOld ? young[0] : first
    const droppedUpTo = (kept?.position ?? state.head + 1) - 1
    const events: LoggedEvent[] = []
    let bytes = 0
    for (const { to, ...event } of young) {
      if (!channels.some((channel) => to.includes(channel))) continue
      bytes += event.body.length
      const last = events.at(-1)
      if (last !== undefined && (events.length >= maxEvents || bytes > maxBytes))
        return { ...state, events, position: last.position, hasMore: true, droppedUpTo }
      events.push(event)
    }
    const hasMore = all.length === MAX_SCANNED
    // An event may have been added since the state was read.
    const position = Math.max(all.at(-1)?.position ?? 0, hasMore ? 0 : state.head)
    return { ...state, head: Math.max(position, state.head), events, position, hasMore, droppedUpTo }
  }

  deliver: EventStore['deliver'] = (_name, event, subscribers) => this.#deliveries.deliver(event, subscribers)

  work: EventStore['work'] = (attempt, max) => this.#deliveries.work(attempt, max)

  async setVerified(owner: string, url: string, ttlMs: number): Promise<void> {
    const key = `ok:${owner}`
    await this.#keys.command('ZADD', key, Date.now() + ttlMs, hashOf(url))
    await this.#keys.command('ZREMRANGEBYRANK', key, 0, -MAX_VERIFIED - 1)
    await this.#keys.command('PEXPIRE', key, Math.max(ttlMs, DAY_MS))
  }

  async isVerified(owner: string, url: string): Promise<boolean> {
    return Number(valueIn(await this.#keys.command('ZSCORE', `ok:${owner}`, hashOf(url)))) > Date.now()
  }

  watch(listener: (name: string | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    await this.#broadcast.close()
    await this.#deliveries.close()
  }

  async #subscribersIn(
    name: string,
    members: readonly string[],
    needsArgs: boolean,
  ): Promise<readonly Subscriber[]> {
    const all = members.map((member) => member.split(' ')).filter(([, , , type]) => type === name)
    const found = all.map(async ([id = '', owner = '', since]): Promise<Subscriber> => {
      const record = needsArgs ? valueIn(await this.#keys.command('HGET', `sub:${id}`, 'record')) : undefined
      return {
        id,
        owner,
        since: Number(since),
        ...(record !== undefined && { args: JSON.parse(record).args }),
      }
    })
    return (await Promise.all(found)).filter(({ args }) => !needsArgs || args !== undefined)
  }

  async #load(key: string, id: string): Promise<StoredSubscription | undefined> {
    const [record = '', since, expiresAt] = await this.#keys.list(
      'HMGET',
      key,
      'record',
      'since',
      'expiresAt',
    )
    if (record === '') return undefined
    const [status, [pending]] = await Promise.all([
      this.#keys.command('GET', `status:${id}`),
      this.#keys.list('ZRANGE', `pend:${id}.${since}`, 0, 0),
    ])
    return {
      ...(JSON.parse(record) as SubscriptionRecord),
      since: Number(since),
      expiresAtMs: Number(expiresAt),
      status: JSON.parse(valueIn(status) ?? '{}'),
      ...(pending !== undefined && { firstPending: Number(pending) }),
    }
  }

  /** Returns the log of an event type. A log that is not there gets an identity, so that every node sees the same one. */
  async #log(name: string): Promise<LogState> {
    const key = `meta:${name}`
    const [, , [epoch = '', head]] = await Promise.all([
      this.#keys.command('HSETNX', key, 'epoch', newEpoch()),
      this.#keys.command('PEXPIRE', key, this.#limits.maxLogAgeMs + DAY_MS),
      this.#keys.list('HMGET', key, 'epoch', 'head'),
    ])
    return { epoch, head: Number(head) }
  }

  #call(name: string | undefined): void {
    for (const listener of this.#listeners) listener(name)
  }
}

function kindOf(hasWebhook: boolean): string {
  return hasWebhook ? 'w:' : 'r:'
}

function entriesIn(reply: unknown): (LoggedEvent & { readonly to: readonly string[] })[] {
  return (reply as [unknown, unknown[]][]).map(([id, values]) => {
    const [, at, , to, , body] = values.map((value) => valueIn(value) ?? '')
    const position = Number.parseInt(valueIn(id) ?? '', 10)
    return { position, atMs: Number(at), to: JSON.parse(to ?? '[]'), body: body ?? '' }
  })
}

function newEpoch(): string {
  return randomUUID().slice(0, 8)
}

function hashOf(value: string): string {
  return createHash('sha256').update(value).digest('base64url')
}
