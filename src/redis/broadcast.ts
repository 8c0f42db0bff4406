import { randomUUID } from 'node:crypto'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'
import { isRedisClient } from '../base/options/redis-client.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'
import { within } from '../base/within.ts'
import { isLikeNodeRedis } from './run-script.ts'

/** The part of an ioredis or node-redis client that is used. */
export interface RedisClient {
  publish(...args: any[]): unknown
  subscribe(...args: any[]): unknown
  unsubscribe(...args: any[]): unknown
  duplicate(...args: any[]): unknown
  on(...args: any[]): unknown
  off(...args: any[]): unknown
}

/**
 * An ioredis or node-redis client, or two of them. With one client, a second connection is opened with `duplicate()`,
 * because a connection that subscribes cannot do anything else. Clients that you pass are neither connected nor closed.
 */
export type RedisClients =
  | RedisClient
  | {
      readonly publisher: Pick<RedisClient, 'publish'>
      readonly subscriber: Pick<RedisClient, 'subscribe' | 'unsubscribe' | 'on' | 'off'>
    }

/** The functions that share something through Redis. */
export type RedisBroadcastOwner =
  | 'redisEventBus'
  | 'redisEventStore'
  | 'redisTaskStore'
  | 'shareInvalidations'

/** Options of {@link redisEventBus} and {@link shareInvalidations}. */
export interface RedisBroadcastOptions {
  /**
   * The Redis channel. All nodes of one server use the same channel; other servers on the same Redis use another one.
   * Defaults to `mcp-gatekit:events` for `redisEventBus` and to `mcp-gatekit:invalidations` for `shareInvalidations`.
   */
  readonly channel?: string | undefined
  /**
   * Called when Redis is unavailable or returns an error, at most once every ten seconds. The node keeps working on its
   * own.
   */
  readonly onError?: ((error: Error) => void) | undefined
  /** Called when the subscription is established, the first time and after each outage, and missed messages are handled. */
  readonly onCaughtUp?: (() => void) | undefined
}

/** A subscription to what other nodes publish through Redis. */
export interface RedisSubscription {
  /** `true` while this node receives messages of other nodes. */
  readonly connected: boolean
  /**
   * Stops sharing, and closes the connection that was opened for it. Never rejects. Waits for Redis at most 500 ms.
   */
  close(): Promise<void>
}

/** The receiver of messages from other nodes. */
export interface BroadcastListener {
  onMessage(message: string): void
  /** Called when messages may have been missed. */
  onGap(): void
}

/** `RedisBroadcastOptions` with a channel. */
type Shared = RedisBroadcastOptions & { readonly channel: string }

type Method = (...args: any[]) => any
type AnyClient = Readonly<Record<string, Method>> & {
  readonly status?: string
  readonly isReady?: boolean
  readonly isOpen?: boolean
  readonly isCluster?: boolean
}

const RETRY_MS = 1_000
/** The maximum time for which `close` waits for Redis. A client may keep its commands until the end of an outage. */
const CLOSE_MS = 500
const REPORT_EVERY_MS = 10_000

/** The maximum number of different messages that wait for Redis. Beyond it, a gap is announced to the other nodes. */
const MAX_WAITING = 1_000
const GAP = ''

/**
 * Sends short messages to all other nodes with Redis pub/sub, which does not store them. A message that could not be sent
 * is sent again until it succeeds, and a node that was disconnected is notified of a gap. A message may arrive twice. If
 * the same message is sent many times in a short time, it is published at most twice: at the beginning and at the end.
 */
export class RedisBroadcast implements RedisSubscription {
  readonly #id = randomUUID()
  readonly #options: Shared
  readonly #listener: BroadcastListener
  readonly #publisher: AnyClient
  readonly #subscriber: AnyClient
  readonly #ownsSubscriber: boolean
  /** Messages that Redis has not confirmed, and whether they were sent again since they were published. */
  readonly #waiting = new Map<string, boolean>()
  readonly #handlers: readonly (readonly [string, Method])[]
  #connected = false
  #closed = false
  #attempt = 0
  #reportedAt = Number.NEGATIVE_INFINITY

  /** @throws {KitMcpConfigError} if an option is invalid. */
  constructor(owner: RedisBroadcastOwner, redis: RedisClients, options: Shared, listener: BroadcastListener) {
    this.#options = options
    this.#listener = listener
    const { publisher, subscriber } = checkRedis(owner, redis)
    this.#publisher = publisher
    this.#ownsSubscriber = subscriber === undefined
    this.#subscriber = subscriber ?? duplicateOf(publisher)
    const disconnected = (): void => this.#onDisconnected()
    this.#handlers = [
      ['ready', () => void this.#subscribe()],
      ['error', (error: unknown) => this.report('the connection failed', error)],
      ['close', disconnected],
      ['reconnecting', disconnected],
      ['end', disconnected],
      ...(isLikeNodeRedis(this.#subscriber) ? [] : ([['message', this.#onIoredisMessage]] as const)),
    ]
    for (const [event, handler] of this.#handlers) this.#subscriber.on?.(event, handler)
    this.#start()
  }

  get connected(): boolean {
    return this.#connected
  }

  /** Sends a message in the background. */
  send(message: string): void {
    if (this.#closed) return
    if (this.#waiting.has(message)) this.#waiting.set(message, true)
    else if (this.#waiting.size >= MAX_WAITING && message !== GAP) this.send(GAP)
    else void this.#publish(message)
  }

  /** Calls `onError` with the message of `cause` only: some clients attach the arguments of AUTH to an error. */
  report(what: string, cause: unknown): void {
    const now = performance.now()
    if (this.#closed || now - this.#reportedAt < REPORT_EVERY_MS) return
    this.#reportedAt = now
    const { message } = (cause ?? {}) as { readonly message?: unknown }
    const why = typeof message === 'string' && message !== '' ? `: ${message}` : ''
    // An error or a rejection of the function cannot be reported anywhere else.
    tryOrUndefined(() =>
      this.#options.onError?.(new Error(`Redis channel ${this.#options.channel}: ${what}${why}`)),
    )
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#connected = false
    const ended = this.#handlers.filter(([event]) => event !== 'error' || !this.#ownsSubscriber)
    for (const [event, handler] of ended) this.#subscriber.off?.(event, handler)
    try {
      if (!this.#ownsSubscriber) await within(this.#unsubscribe(), CLOSE_MS, () => new Error('late'))
      else if (isLikeNodeRedis(this.#subscriber)) this.#subscriber.destroy?.()
      else this.#subscriber.disconnect?.()
    } catch {
      // The connection is already closed, or Redis does not answer.
    }
  }

  #start(): void {
    const { status, isReady, isOpen } = this.#subscriber
    if (status === 'ready' || isReady === true) void this.#subscribe()
    // A duplicate of a node-redis client, or of a lazy ioredis client, must be connected explicitly.
    else if (this.#ownsSubscriber && (status === 'wait' || isOpen === false)) void this.#connect()
  }

  async #connect(): Promise<void> {
    try {
      await this.#subscriber.connect?.()
    } catch (error) {
      this.report('the connection failed', error)
    }
  }

  async #subscribe(): Promise<void> {
    const attempt = ++this.#attempt
    try {
      if (isLikeNodeRedis(this.#subscriber))
        await this.#subscriber.subscribe?.(this.#options.channel, this.#onPayload)
      else await this.#subscriber.subscribe?.(this.#options.channel)
      if (this.#closed || attempt !== this.#attempt) return
      this.#connected = true
      this.#listener.onGap()
      tryOrUndefined(() => this.#options.onCaughtUp?.())
    } catch (error) {
      this.report('could not subscribe', error)
      this.#later(() => attempt === this.#attempt && this.#subscribe())
    }
  }

  async #unsubscribe(): Promise<void> {
    if (isLikeNodeRedis(this.#subscriber))
      await this.#subscriber.unsubscribe?.(this.#options.channel, this.#onPayload)
    else await this.#subscriber.unsubscribe?.(this.#options.channel)
  }

  async #publish(message: string): Promise<void> {
    this.#waiting.set(message, false)
    try {
      await this.#publisher.publish?.(this.#options.channel, `${this.#id} ${message}`)
      const again = this.#waiting.get(message)
      this.#waiting.delete(message)
      if (again === true) this.send(message)
    } catch (error) {
      this.report('could not publish', error)
      this.#later(() => this.#publish(message))
    }
  }

  #onDisconnected(): void {
    if (!this.#connected) return
    this.#connected = false
    this.#attempt++
    this.report('the connection was lost', undefined)
  }

  readonly #onIoredisMessage = (channel: string, payload: string): void => {
    if (channel === this.#options.channel) this.#onPayload(payload)
  }

  readonly #onPayload = (payload: string): void => {
    const space = payload.indexOf(' ')
    if (this.#closed || payload.slice(0, space) === this.#id) return
    const message = payload.slice(space + 1)
    if (message === GAP && space >= 0) this.#listener.onGap()
    else this.#listener.onMessage(message)
  }

  #later(run: () => unknown): void {
    setTimeout(() => {
      if (!this.#closed) run()
    }, RETRY_MS).unref()
  }
}

/**
 * Opens a second connection. An ioredis client must not subscribe by itself after an outage: it ignores the promise of that
 * command, so that the process would end with an unhandled rejection if the connection closed before the response.
 */
function duplicateOf(client: AnyClient): AnyClient {
  const duplicate = client.duplicate as Method
  const options = { autoResubscribe: false }
  return client.isCluster === false ? duplicate.call(client, options) : duplicate.call(client)
}

const SUBSCRIBER = ['subscribe', 'unsubscribe', 'on', 'off']

function checkRedis(
  owner: RedisBroadcastOwner,
  redis: unknown,
): { publisher: AnyClient; subscriber?: AnyClient } {
  const { publisher, subscriber } = (redis ?? {}) as Record<'publisher' | 'subscriber', unknown>
  if (isRedisClient(publisher, ['publish']) && isRedisClient(subscriber, SUBSCRIBER))
    return { publisher: publisher as AnyClient, subscriber: subscriber as AnyClient }
  if (isRedisClient(redis, ['publish', 'duplicate'])) return { publisher: redis as AnyClient }
  throw optionChecksOf(owner).invalidKind(
    owner,
    'must be called with an ioredis or node-redis client, or with { publisher, subscriber }',
    redis,
  )
}

/**
 * Reads the options of a function that shares something through Redis.
 * @param channel the default of the option `channel`.
 */
export function readBroadcastOptions(owner: RedisBroadcastOwner, options: unknown, channel: string): Shared {
  const { callable, readOptions, text } = optionChecksOf(owner)
  const expected = 'must be called with options such as { channel, onError: console.warn }'
  return readOptions(owner, expected, options, {
    channel: optional(text, channel),
    onError: optional(
      callable<(error: Error) => void>('set it to a function that is called when Redis is unavailable'),
    ),
    onCaughtUp: optional(
      callable<() => void>('set it to a function that is called when the subscription is established'),
    ),
  } satisfies RulesFor<RedisBroadcastOptions>)
}
