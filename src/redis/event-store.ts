import { createHash, randomUUID } from 'node:crypto'
import type { EventStoreLimits } from '../mcp/events/event-store-limits.ts'
import type {
  DeliveryOutcome,
  EventStore,
  LogPage,
  NewEvent,
  Position,
  StoredSubscription,
  SubscriptionRecord,
  TakenDelivery,
  WebhookError,
  WebhookTarget,
} from '../mcp/events/store.ts'
import { optionChecksOf } from '../options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../options/option-rules.ts'
import { checkRedisClient } from '../options/redis-client.ts'
import { isOne, valueIn } from '../redis-replies.ts'
import { RedisBroadcast, type RedisClient } from './broadcast.ts'
import * as scripts from './event-scripts.ts'
import { type RunScript, scriptRunner } from './run-script.ts'

const checks = optionChecksOf('redisEventStore')
const { callable, readOptions, text, wholeNumber } = checks

/** The part of an ioredis or node-redis client that {@link redisEventStore} uses. */
export interface EventRedisClient {
  /** Runs a Lua script. */
  eval(...args: any[]): unknown
  /** Sends a message to a channel. */
  publish(...args: any[]): unknown
  /** Creates a client with the same options, for the subscription. */
  duplicate(...args: any[]): unknown
}

/** Options of {@link redisEventStore}. */
export interface RedisEventStoreOptions extends EventStoreLimits {
  /** The beginning of its keys, and the name of its channel. Defaults to `mcp-gatekit:event-store`. */
  readonly prefix?: string | undefined
  /** Called when Redis is unavailable for notifications between nodes, at most once every ten seconds. */
  readonly onError?: ((error: Error) => void) | undefined
}

/** A store of events in Redis, as {@link redisEventStore} returns it. */
export interface RedisEventStore extends EventStore {
  /** `true` while this node receives the notifications of other nodes. */
  readonly connected: boolean
  /** Closes the connection that was opened for notifications. Never rejects. */
  close(): Promise<void>
}

const RULES = {
  prefix: optional(text, 'mcp-gatekit:event-store'),
  maxLogBytes: optional(wholeNumber(1), 8 * 1024 * 1024),
  maxLogAgeMs: optional(wholeNumber(1_000), 3_600_000),
  maxBytesPerOwner: optional(wholeNumber(1), 8 * 1024 * 1024),
  onError: optional(
    callable<(error: Error) => void>('set it to a function that is called when Redis is unavailable'),
  ),
} satisfies RulesFor<RedisEventStoreOptions>

/** The maximum number of deliveries that one script adds, and of subscriptions that one script returns. */
const PAGE = 500

/** The maximum number of URLs that an owner has verified. */
const MAX_VERIFIED = 100

/** The number of values of a subscription and of a delivery in a reply. */
const SUBSCRIPTION_VALUES = 7
const DELIVERY_VALUES = 7

/**
 * Creates a store that keeps subscriptions, the log of events, and pending deliveries in Redis (6.2 or later), so that every node
 * of a server serves every subscription, and no event is lost when a node ends. Secrets of webhooks, arguments, and the data of
 * events are stored as they are: protect Redis as you protect them, and let it write to disk (`appendonly yes`), because what
 * Redis loses is lost. The store opens one further connection with `client.duplicate()` for notifications between nodes.
 * @param client an ioredis or node-redis client, or a cluster client of either. It is neither connected nor closed.
 * @param options the prefix of the keys, the limits, and a function for errors.
 * @returns a store for the adapter option `events.store`, with `close()`.
 * @throws {KitMcpConfigError} if `client` is not a client, or an option is invalid or unknown.
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
  return new EventsInRedis(client, readOptions('redisEventStore', expected, options, RULES, 'options'))
}

class EventsInRedis implements RedisEventStore {
  readonly #base: string
  readonly #limits: readonly string[]
  readonly #eval: RunScript
  readonly #broadcast: RedisBroadcast
  readonly #listeners = new Set<(name: string | undefined) => void>()

  constructor(client: EventRedisClient, options: ReadBy<typeof RULES>) {
    const { prefix, onError, maxLogBytes, maxLogAgeMs, maxBytesPerOwner } = options
    this.#base = `{${prefix}}`
    this.#limits = [maxLogBytes, maxLogAgeMs, maxBytesPerOwner].map(String)
    this.#eval = scriptRunner(client)
    const listener = { onMessage: (name: string) => this.#call(name), onGap: () => this.#call(undefined) }
    const channel = { channel: `${prefix}:changes`, ...(onError !== undefined && { onError }) }
    this.#broadcast = new RedisBroadcast(
      'redisEventStore',
      client as unknown as RedisClient,
      channel,
      listener,
    )
  }

  get connected(): boolean {
    return this.#broadcast.connected
  }

  async subscribe(
    record: SubscriptionRecord,
    { ttlMs, max }: Parameters<EventStore['subscribe']>[1],
  ): ReturnType<EventStore['subscribe']> {
    const { id, owner, name, webhook } = record
    const kind = webhook === undefined ? '0' : '1'
    const host = webhook === undefined ? '' : new URL(webhook.url).host
    const values = [id, owner, name, kind, JSON.stringify(record), String(ttlMs), String(max), host]
    const [outcome, head, ...rest] = await this.#run(scripts.SUBSCRIBE, values)
    if (outcome === 'owner-full') return { outcome }
    const subscription = subscriptionIn(rest)
    if (outcome === 'renewed' && subscription.firstPending !== undefined) this.#notify(name)
    return { outcome: outcome === 'added' ? 'added' : 'renewed', subscription, head: Number(head) }
  }

  async get(id: string): Promise<StoredSubscription | undefined> {
    const reply = await this.#run(scripts.GET, [id])
    return reply.length === 0 ? undefined : subscriptionIn(reply)
  }

  async list(
    name: string,
    { owners, after = 0 }: { readonly owners?: readonly string[]; readonly after?: Position } = {},
  ): ReturnType<EventStore['list']> {
    if (owners !== undefined) {
      const [head, , ...rest] = await this.#run(scripts.LIST_OWNERS, [
        name,
        String(after),
        JSON.stringify(owners),
      ])
      return { subscriptions: subscriptionsIn(rest), head: Number(head) }
    }
    const subscriptions: StoredSubscription[] = []
    let first: Position | undefined
    for (let last: string | undefined = String(after); last !== undefined && last !== ''; ) {
      const [head, end, ...rest]: string[] = await this.#run(scripts.LIST, [name, last, String(PAGE)])
      first ??= Number(head)
      subscriptions.push(...subscriptionsIn(rest))
      last = end
    }
    return { subscriptions, head: first ?? 0 }
  }

  async end(id: string, terminated: string = ''): Promise<boolean> {
    const [name] = await this.#run(scripts.END, [id, terminated])
    if (name !== undefined && terminated !== '') this.#notify(name)
    return name !== undefined
  }

  async append({ name, body, channels, deliveries }: NewEvent): ReturnType<EventStore['append']> {
    const [first = [], ...others] = pagesOf(deliveries)
    const values = [name, body, JSON.stringify(channels), JSON.stringify(first)]
    const [position, ...dropped] = await this.#run(scripts.APPEND, values)
    for (const more of others) {
      const added = await this.extend(name, [Number(position)], { channels: [], deliveries: more })
      dropped.push(...added.dropped)
    }
    this.#notify(name)
    return { position: Number(position), dropped }
  }

  async extend(
    name: string,
    positions: readonly Position[],
    { channels, deliveries }: Pick<NewEvent, 'channels' | 'deliveries'>,
  ): ReturnType<EventStore['extend']> {
    const dropped = new Set<string>()
    for (const page of deliveries.length === 0 ? [[]] : pagesOf(deliveries)) {
      const values = [positions, channels, page].map((list) => JSON.stringify(list))
      for (const id of await this.#run(scripts.EXTEND, [name, ...values])) dropped.add(id)
    }
    this.#notify(name)
    return { dropped: [...dropped] }
  }

  async read(
    name: string,
    channels: readonly string[],
    { after, maxEvents, maxBytes }: Parameters<EventStore['read']>[2],
  ): Promise<LogPage> {
    const values = [name, JSON.stringify(channels), ...[after, maxEvents, maxBytes].map(String)]
    const [head, droppedUpTo, hasMore, ...rest] = await this.#run(scripts.READ, values)
    const events = chunksOf(rest, 3).map(([position, atMs, body = '']) => ({
      position: Number(position),
      atMs: Number(atMs),
      body,
    }))
    return { events, hasMore: hasMore === '1', head: Number(head), droppedUpTo: Number(droppedUpTo) }
  }

  async epoch(): Promise<string> {
    const reply = await this.#eval(scripts.EPOCH, [this.#base], [...this.#limits, randomUUID().slice(0, 8)])
    return valueIn(reply) ?? ''
  }

  async take({ leaseMs, max, busy }: Parameters<EventStore['take']>[0]): ReturnType<EventStore['take']> {
    const { hosts = [], owners = [] } = busy ?? {}
    const values = [leaseMs, max, randomUUID()].map(String)
    values.push(JSON.stringify(hosts), JSON.stringify(owners))
    const [nextInMs, ...rest] = await this.#run(scripts.TAKE, values)
    return {
      deliveries: chunksOf(rest, DELIVERY_VALUES + SUBSCRIPTION_VALUES).map(deliveryIn),
      nextInMs: nextInMs === '' ? Number.POSITIVE_INFINITY : Number(nextInMs),
    }
  }

  async settle(
    { id, lease }: Pick<TakenDelivery, 'id' | 'lease'>,
    outcome: DeliveryOutcome,
  ): Promise<boolean> {
    const delayMs = 'delayMs' in outcome ? outcome.delayMs : 0
    const error = 'error' in outcome ? (outcome.error ?? '') : ''
    const values = [...this.#limits, id, lease, outcome.outcome, String(delayMs), error]
    return isOne(await this.#eval(scripts.SETTLE, [this.#base], values))
  }

  async setVerified(owner: string, url: string, ttlMs: number): Promise<void> {
    const values = [owner, hashOf(url), String(ttlMs), String(MAX_VERIFIED)]
    await this.#eval(scripts.SET_VERIFIED, [this.#base], [...this.#limits, ...values])
  }

  async isVerified(owner: string, url: string): Promise<boolean> {
    return isOne(await this.#eval(scripts.IS_VERIFIED, [this.#base], [...this.#limits, owner, hashOf(url)]))
  }

  watch(listener: (name: string | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async close(): Promise<void> {
    await this.#broadcast.close()
  }

  #notify(name: string): void {
    this.#call(name)
    this.#broadcast.send(name)
  }

  #call(name: string | undefined): void {
    for (const listener of this.#listeners) listener(name)
  }

  async #run(script: string, values: readonly string[]): Promise<string[]> {
    const reply = await this.#eval(script, [this.#base], [...this.#limits, ...values])
    if (!Array.isArray(reply)) throw new Error('The reply of Redis has an unexpected type')
    return reply.map((value) => valueIn(value) ?? '')
  }
}

function deliveryIn(values: readonly string[]): TakenDelivery {
  const [id = '', lease = '', kind, position, attempts, addedAtMs, body = ''] = values
  return {
    id,
    lease,
    kind: kind as TakenDelivery['kind'],
    position: Number(position),
    attempts: Number(attempts),
    addedAtMs: Number(addedAtMs),
    body,
    subscription: subscriptionIn(values.slice(DELIVERY_VALUES)) as StoredSubscription & {
      readonly webhook: WebhookTarget
    },
  }
}

function subscriptionIn(values: readonly string[]): StoredSubscription {
  const [record = '', since, expiresAtMs, lastDeliveryAtMs, lastError, failedSinceMs, firstPending] = values
  return {
    ...(JSON.parse(record) as SubscriptionRecord),
    since: Number(since),
    expiresAtMs: Number(expiresAtMs),
    status: {
      ...(lastDeliveryAtMs && { lastDeliveryAtMs: Number(lastDeliveryAtMs) }),
      ...(lastError && { lastError: lastError as WebhookError }),
      ...(failedSinceMs && { failedSinceMs: Number(failedSinceMs) }),
    },
    ...(firstPending && { firstPending: Number(firstPending) }),
  }
}

function subscriptionsIn(values: readonly string[]): StoredSubscription[] {
  return chunksOf(values, SUBSCRIPTION_VALUES).map(subscriptionIn)
}

function pagesOf(ids: readonly string[]): (readonly string[])[] {
  return chunksOf(ids, PAGE)
}

function chunksOf<Value>(values: readonly Value[], size: number): (readonly Value[])[] {
  return Array.from({ length: Math.ceil(values.length / size) }, (_, index) =>
    values.slice(index * size, (index + 1) * size),
  )
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
