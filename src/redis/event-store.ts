import { createHash, randomUUID } from 'node:crypto'
import type * as Bull from 'bullmq'
import type { EventStoreLimits } from '../mcp/events/memory-event-store.ts'
import type {
  Delivery,
  DeliveryOutcome,
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
import { isInstalled, peerProblem } from '../peer-problem.ts'
import { isOne, valueIn } from '../redis-replies.ts'
import { RedisBroadcast, type RedisClient } from './broadcast.ts'
import { APPEND, CALL, DONE, SUBSCRIBE, WAIT } from './event-scripts.ts'
import { isLikeNodeRedis, type RunScript, scriptRunner } from './run-script.ts'

const checks = optionChecksOf('redisEventStore')
const { callable, readOptions, text, unusableOption, wholeNumber } = checks

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

const COMMAND = 'npm install bullmq@6'
const QUEUE = 'webhooks'
/** The maximum number of subscriptions in one page, and of events that one read looks at. */
const PAGE = 500
const MAX_SCANNED = 1_000
/** The maximum number of events that wait for the webhooks of one owner, and of URLs that an owner has verified. */
const MAX_WAITING = 1_000
const MAX_VERIFIED = 100
/** The lifetime of the state of deliveries, and of the identity of a log without readers. */
const DAY_MS = 86_400_000
/** Errors of Redis during an attempt count as attempts of BullMQ, and must not end a delivery. */
const MAX_STARTS = 1_000
const RETRY_MS = 30_000
/** The time after which the messages of a node that was killed are those of another one. An attempt takes half of it. */
const LOCK_MS = 20_000

/** The data of a job, without a secret. */
interface JobData extends Pick<Subscriber, 'id' | 'owner' | 'since'> {
  readonly name: string
  readonly position: Position
  readonly body: string
  readonly bytes: number
}

/** Lets BullMQ repeat an attempt. */
class AttemptFailed extends Error {
  readonly delayMs: number

  constructor(delayMs: number) {
    super('The attempt has failed')
    this.delayMs = delayMs
  }
}

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

async function loadBull(): Promise<typeof Bull> {
  try {
    return await import('bullmq')
  } catch (cause) {
    throw notLoaded(cause)
  }
}

function notLoaded(cause: unknown): Error {
  const { reason, fix } = peerProblem(cause, COMMAND)
  return unusableOption('redisEventStore', `needs packages (bullmq) that ${reason}`, fix)
}

class EventsInRedis implements RedisEventStore {
  readonly #client: EventRedisClient
  readonly #prefix: string
  readonly #limits: Omit<ReadBy<typeof RULES>, 'prefix' | 'onError'>
  readonly #eval: RunScript
  readonly #broadcast: RedisBroadcast
  readonly #listeners = new Set<(name: string | undefined) => void>()
  readonly #bull: Promise<typeof Bull>
  #queue: Promise<Bull.Queue> | undefined
  #connection: any

  constructor(client: EventRedisClient, options: ReadBy<typeof RULES>) {
    const { prefix, onError, ...limits } = options
    this.#client = client
    this.#prefix = `{${prefix}}`
    this.#limits = limits
    this.#eval = scriptRunner(client)
    const listener = { onMessage: (name: string) => this.#call(name), onGap: () => this.#call(undefined) }
    const channel = { channel: `${prefix}:changes`, ...(onError !== undefined && { onError }) }
    this.#broadcast = new RedisBroadcast(
      'redisEventStore',
      client as unknown as RedisClient,
      channel,
      listener,
    )
    this.#bull = loadBull()
    this.#bull.catch((error) => this.#broadcast.report('no deliveries', error))
  }

  get connected(): boolean {
    return this.#broadcast.connected
  }

  async subscribe(
    record: SubscriptionRecord,
    { ttlMs, max }: Parameters<EventStore['subscribe']>[1],
  ): ReturnType<EventStore['subscribe']> {
    const { id, owner, name, webhook } = record
    const kind = kindOf(webhook !== undefined)
    const values = [id, kind, owner, name, JSON.stringify(record), String(ttlMs), String(max)]
    const outcome = Number(await this.#run(SUBSCRIBE, values))
    if (outcome < 0) return undefined
    if (outcome === 1) await this.#command('DEL', `ended:${id}`)
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
    const subscribersIn = async (members: readonly string[]): Promise<readonly Subscriber[]> => {
      const all = members.map((member) => member.split(' ')).filter(([, , , type]) => type === name)
      const found = all.map(async ([id = '', owner = '', since]): Promise<Subscriber> => {
        const subscriber = { id, owner, since: Number(since) }
        const record = needsArgs ? valueIn(await this.#command('HGET', `sub:${id}`, 'record')) : undefined
        return record === undefined ? subscriber : { ...subscriber, args: JSON.parse(record).args }
      })
      return (await Promise.all(found)).filter(({ args }) => !needsArgs || args !== undefined)
    }
    for (let first = 0; owners !== undefined && first < owners.length; first += PAGE) {
      const page = owners.slice(first, first + PAGE)
      const members = page.map((owner) =>
        this.#list('ZRANGEBYSCORE', `own:${kind}${owner}`, String(now), '+inf'),
      )
      yield await subscribersIn((await Promise.all(members)).flat())
    }
    for (let cursor = owners === undefined ? '' : '0'; cursor !== '0'; ) {
      const scan = ['ZSCAN', `type:${kind}${name}`, cursor || '0', 'COUNT', String(PAGE)] as const
      const [next, entries] = (await this.#command(...scan)) as [unknown, unknown[]]
      cursor = valueIn(next) ?? '0'
      const pairs = entries.map(valueIn)
      yield await subscribersIn(
        pairs.filter((member, index): member is string => index % 2 === 0 && Number(pairs[index + 1]) > now),
      )
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
      const { firstPending: _, status: __, expiresAtMs: ___, ...kept } = subscription
      await this.#command('HSET', `ended:${id}`, 'record', JSON.stringify(kept), 'since', String(since))
      await this.#command('PEXPIRE', `ended:${id}`, String(DAY_MS))
    }
    const ended = this.#command('DEL', `sub:${id}`)
    await Promise.all([
      this.#command('ZREM', `own:${kind}${owner}`, member),
      this.#command('ZREM', `type:${kind}${name}`, member),
      this.#command('DEL', `status:${id}`),
      this.#command('DEL', `pend:${id}.${since}`),
    ])
    if (isLast) await this.#add('terminated', { ...subscription, body: terminated })
    return isOne(await ended)
  }

  async append(name: string, body: string, channels: readonly string[]): Promise<Position> {
    const { maxLogBytes, maxLogAgeMs } = this.#limits
    const limits = [maxLogBytes, maxLogAgeMs, maxLogAgeMs + DAY_MS].map(String)
    const values = [name, newEpoch(), body, JSON.stringify(channels), ...limits]
    const position = Number(await this.#run(APPEND, values))
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
      this.#command('XRANGE', `log:${name}`, from, '+', 'COUNT', String(count))
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

  async deliver(
    name: string,
    { position, body }: Pick<LoggedEvent, 'position' | 'body'>,
    subscribers: readonly Subscriber[],
  ): Promise<readonly string[]> {
    const bytes = Buffer.byteLength(body)
    const limits = [MAX_WAITING, this.#limits.maxBytesPerOwner, DAY_MS * 2].map(String)
    const waiting = subscribers.map(async ({ id, owner, since }) => {
      const values = [owner, id, ...[since, position, bytes].map(String), ...limits]
      const [count, ...dropped] = (await this.#run(WAIT, values)) as unknown[]
      return {
        id,
        owner,
        since,
        count: Number(count),
        dropped: dropped.map((member) => String(valueIn(member))),
      }
    })
    const all = await Promise.all(waiting)
    const jobs = all.filter(({ count }) => count > 0)
    const queue = await this.#open()
    if (jobs.length > 0)
      await queue.addBulk(
        jobs.map(({ id, owner, since, count }) => ({
          name: 'event',
          data: { id, owner, since, name, position, body, bytes } satisfies JobData,
          // The owner with fewer events that wait comes first.
          opts: { ...JOB, jobId: `${id}.${since}.${position}`, priority: count },
        })),
      )
    const dropped = all.flatMap((one) => one.dropped.map((member) => ({ owner: one.owner, member })))
    return await Promise.all(
      dropped.map(async ({ owner, member }) => {
        const [id = '', since, at] = member.split(' ')
        // An attempt that runs may still succeed.
        await queue.remove(`${id}.${since}.${at}`).catch(() => undefined)
        await this.#addGap({ id, owner, since: Number(since), name })
        return id
      }),
    )
  }

  work(attempt: Parameters<EventStore['work']>[0], max: number): () => Promise<void> {
    const working = this.#bull.then((bull) => {
      const worker = new bull.Worker<JobData>(
        QUEUE,
        (job, token) => this.#attempt(bull, job, token, attempt),
        {
          connection: this.#connected(bull),
          prefix: this.#prefix,
          concurrency: max,
          maxStalledCount: MAX_STARTS,
          lockDuration: LOCK_MS,
          stalledInterval: LOCK_MS / 2,
          settings: {
            backoffStrategy: (_made, _type, error) =>
              error instanceof AttemptFailed ? error.delayMs : RETRY_MS,
          },
        },
      )
      worker.on('error', (error) => this.#broadcast.report('deliveries', error))
      return worker
    })
    working.catch(() => undefined)
    return async () => await (await working).close()
  }

  async setVerified(owner: string, url: string, ttlMs: number): Promise<void> {
    const key = `ok:${owner}`
    await this.#command('ZADD', key, String(Date.now() + ttlMs), hashOf(url))
    await this.#command('ZREMRANGEBYRANK', key, '0', String(-MAX_VERIFIED - 1))
    await this.#command('PEXPIRE', key, String(Math.max(ttlMs, DAY_MS)))
  }

  async isVerified(owner: string, url: string): Promise<boolean> {
    return Number(valueIn(await this.#command('ZSCORE', `ok:${owner}`, hashOf(url)))) > Date.now()
  }

  watch(listener: (name: string | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    await this.#broadcast.close()
    const queue = await this.#queue?.catch(() => undefined)
    await queue?.close().catch(() => undefined)
    this.#connection?.disconnect()
  }

  #connected(bull: typeof Bull): any {
    if (this.#connection === undefined) {
      const isNodeRedis = isLikeNodeRedis(this.#client)
      const options = { maxRetriesPerRequest: null, keyPrefix: '' }
      const client = isNodeRedis ? this.#client.duplicate() : this.#client.duplicate(options)
      this.#connection = isNodeRedis ? bull.createNodeRedisClient(client as never) : client
    }
    return this.#connection
  }

  #open(): Promise<Bull.Queue> {
    this.#queue ??= this.#bull.then((bull) => {
      const queue = new bull.Queue(QUEUE, {
        connection: this.#connected(bull),
        prefix: this.#prefix,
        streams: { events: { maxLen: 100 } },
      })
      queue.on('error', (error) => this.#broadcast.report('deliveries', error))
      return queue
    })
    return this.#queue
  }

  async #add(
    kind: Delivery['kind'],
    { id, owner, since, name, body = '' }: Subscriber & { readonly name: string; readonly body?: string },
  ): Promise<void> {
    const data: JobData = { id, owner, since, name, position: 0, body, bytes: 0 }
    await (await this.#open()).add(kind, data, { ...JOB, jobId: `${id}.${randomUUID()}`, priority: 1 })
  }

  async #addGap(subscriber: Subscriber & { readonly name: string }): Promise<void> {
    const isNew = await this.#command(
      'SET',
      `gap:${subscriber.id}.${subscriber.since}`,
      '1',
      'NX',
      'PX',
      String(DAY_MS),
    )
    if (isNew !== null) await this.#add('gap', subscriber)
  }

  async #attempt(
    bull: typeof Bull,
    job: Bull.Job<JobData>,
    token: string | undefined,
    attempt: Parameters<EventStore['work']>[0],
  ): Promise<void> {
    const kind = job.name as Delivery['kind']
    const { id, owner, since, name, position, body, bytes } = job.data
    const subscription = await this.#load(kind === 'terminated' ? `ended:${id}` : `sub:${id}`, id)
    let outcome: DeliveryOutcome = { outcome: 'abandoned' }
    const isLive = subscription?.since === since
    if (isLive) {
      if (kind === 'gap') await this.#command('DEL', `gap:${id}.${since}`)
      outcome = await attempt({
        id: String(job.id),
        kind,
        subscription: subscription as Delivery['subscription'],
        log: await this.#log(name),
        position,
        body,
        attempts: job.attemptsMade,
        postponed: job.attemptsStarted - job.attemptsMade - 1,
        addedAtMs: job.timestamp,
      })
      const { status } = outcome
      if (status !== undefined)
        await this.#command('SET', `status:${id}`, JSON.stringify(status), 'PX', String(DAY_MS))
    }
    if (outcome.outcome === 'postponed') {
      await job.moveToDelayed(Date.now() + outcome.delayMs, token)
      throw new bull.DelayedError()
    }
    if (outcome.outcome === 'failed') throw new AttemptFailed(outcome.delayMs)
    if (kind !== 'event') return
    await this.#run(DONE, [owner, id, ...[since, position, bytes].map(String)])
    if (outcome.outcome === 'abandoned' && isLive) await this.#addGap({ id, owner, since, name })
  }

  async #load(key: string, id: string): Promise<StoredSubscription | undefined> {
    const [record = '', since, expiresAt] = await this.#list('HMGET', key, 'record', 'since', 'expiresAt')
    if (record === '') return undefined
    const [status, pending] = await Promise.all([
      this.#command('GET', `status:${id}`),
      this.#list('ZRANGE', `pend:${id}.${since}`, '0', '0'),
    ])
    return {
      ...(JSON.parse(record) as SubscriptionRecord),
      since: Number(since),
      expiresAtMs: Number(expiresAt),
      status: JSON.parse(valueIn(status) ?? '{}'),
      ...(pending[0] !== undefined && { firstPending: Number(pending[0]) }),
    }
  }

  /** Returns the log of an event type. A log that is not there gets an identity, so that every node sees the same one. */
  async #log(name: string): Promise<LogState> {
    const key = `meta:${name}`
    const [, , [epoch = '', head]] = await Promise.all([
      this.#command('HSETNX', key, 'epoch', newEpoch()),
      this.#command('PEXPIRE', key, String(this.#limits.maxLogAgeMs + DAY_MS)),
      this.#list('HMGET', key, 'epoch', 'head'),
    ])
    return { epoch, head: Number(head) }
  }

  #call(name: string | undefined): void {
    for (const listener of this.#listeners) listener(name)
  }

  /** Runs one command. The key follows the prefix. */
  #command(...command: readonly [name: string, key: string, ...args: string[]]): Promise<unknown> {
    return this.#run(CALL, command)
  }

  async #list(...command: readonly [name: string, key: string, ...args: string[]]): Promise<string[]> {
    const reply = await this.#command(...command)
    if (!Array.isArray(reply)) throw new Error('The reply of Redis has an unexpected type')
    return reply.map((value) => valueIn(value) ?? '')
  }

  #run(script: string, values: readonly string[]): Promise<unknown> {
    return this.#eval(script, [`${this.#prefix}:s:`], values)
  }
}

const JOB = {
  attempts: MAX_STARTS,
  backoff: { type: 'custom' },
  removeOnComplete: true,
  removeOnFail: true,
  stackTraceLimit: 0,
} as const

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
