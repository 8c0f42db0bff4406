import { randomUUID } from 'node:crypto'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'

/** An ioredis client, or a node-redis client. */
export interface PubSubRedisClient {
  publish(...args: any[]): unknown
  subscribe(...args: any[]): unknown
  unsubscribe(...args: any[]): unknown
  duplicate(...args: any[]): unknown
  on(...args: any[]): unknown
  off(...args: any[]): unknown
}

/**
 * A client, of which a second connection is made (`duplicate()`), since one that subscribes can do nothing else; or
 * two clients. Those that are given are neither connected nor closed here.
 */
export type PubSubRedis =
  | PubSubRedisClient
  | {
      readonly publisher: Pick<PubSubRedisClient, 'publish'>
      readonly subscriber: Pick<PubSubRedisClient, 'subscribe' | 'unsubscribe' | 'on' | 'off'>
    }

/** Who shares something through Redis. */
export type RedisBroadcastOwner = 'redisEventBus' | 'shareInvalidations'

/** How nodes talk over Redis. */
export interface RedisBroadcastOptions {
  /** The Redis channel. All nodes of one server name the same, other servers on that Redis another. */
  readonly channel?: string | undefined
  /**
   * Hears that Redis is away or refuses, at most once in ten seconds. The node goes on by itself meanwhile.
   * Default: nobody.
   */
  readonly onError?: ((error: Error) => void) | undefined
  /** Hears that the subscription stands, for the first time or again, and that what may have been missed is made good. */
  readonly onCaughtUp?: (() => void) | undefined
}

/** What is shared over Redis. */
export interface RedisShared {
  /** Whether this node hears the others at present. */
  readonly connected: boolean
  /** Stops sharing, and closes the connection that was made for it. Never rejects. */
  close(): Promise<void>
}

/** What becomes of what other nodes say. */
export interface BroadcastListener {
  onText(text: string): void
  /** Anything may have been said in the meantime. */
  onGap(): void
}

type Method = (...args: any[]) => any
type AnyClient = Readonly<Record<string, Method>> & {
  readonly status?: string
  readonly isReady?: boolean
  readonly isOpen?: boolean
}

const KNOWN_OPTIONS = ['channel', 'onError', 'onCaughtUp']
const RETRY_MS = 1_000
const REPORT_EVERY_MS = 10_000

/** So many different texts wait for Redis at most; beyond it the others are told that they missed something. */
const MAX_WAITING = 1_000
const GAP = ''

/**
 * Says short texts to all other nodes by Redis pub/sub, which forgets what nobody is there to hear. So a text that
 * could not be sent is sent again until it was, and whoever was away is told that there is a gap. A text may be heard
 * twice. The same text in a burst is said twice at most: as it began, and once more after all of it.
 */
export class RedisBroadcast implements RedisShared {
  readonly #id = randomUUID()
  readonly #channel: string
  readonly #options: RedisBroadcastOptions
  readonly #listener: BroadcastListener
  readonly #publisher: AnyClient
  readonly #subscriber: AnyClient
  readonly #ownsSubscriber: boolean
  /** Texts that Redis has not confirmed, and whether they were said again since they were sent. */
  readonly #waiting = new Map<string, boolean>()
  readonly #handlers: readonly (readonly [string, Method])[]
  #connected = false
  #closed = false
  #attempt = 0
  #reportedAt = Number.NEGATIVE_INFINITY

  /** @throws {KitMcpConfigError} naming the option. */
  constructor(
    owner: RedisBroadcastOwner,
    redis: PubSubRedis,
    options: RedisBroadcastOptions,
    listener: BroadcastListener,
  ) {
    this.#options = checkOptions(owner, options)
    this.#channel = options.channel as string
    this.#listener = listener
    const { publisher, subscriber } = checkRedis(owner, redis)
    this.#publisher = publisher
    this.#ownsSubscriber = subscriber === undefined
    this.#subscriber = subscriber ?? (publisher.duplicate as Method)()
    const away = (): void => this.#onAway()
    this.#handlers = [
      ['ready', () => void this.#subscribe()],
      ['error', (error: unknown) => this.report('the connection failed', error)],
      ['close', away],
      ['reconnecting', away],
      ['end', away],
      ...(isNodeRedis(this.#subscriber) ? [] : ([['message', this.#onIoredisMessage]] as const)),
    ]
    for (const [event, handler] of this.#handlers) this.#subscriber.on?.(event, handler)
    this.#start()
  }

  get connected(): boolean {
    return this.#connected
  }

  /** Returns at once. */
  send(text: string): void {
    if (this.#closed) return
    if (this.#waiting.has(text)) this.#waiting.set(text, true)
    else if (this.#waiting.size >= MAX_WAITING && text !== GAP) this.send(GAP)
    else void this.#publish(text)
  }

  /** Tells `onError`, without the command that failed: some clients keep the arguments of AUTH with an error. */
  report(what: string, cause: unknown): void {
    const now = performance.now()
    if (this.#closed || now - this.#reportedAt < REPORT_EVERY_MS) return
    this.#reportedAt = now
    const { message } = (cause ?? {}) as { readonly message?: unknown }
    const why = typeof message === 'string' && message !== '' ? `: ${message}` : ''
    this.#call(() => this.#options.onError?.(new Error(`Redis channel ${this.#channel}: ${what}${why}`)))
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#connected = false
    const ended = this.#handlers.filter(([event]) => event !== 'error' || !this.#ownsSubscriber)
    for (const [event, handler] of ended) this.#subscriber.off?.(event, handler)
    try {
      if (!this.#ownsSubscriber) await this.#unsubscribe()
      else if (isNodeRedis(this.#subscriber)) this.#subscriber.destroy?.()
      else this.#subscriber.disconnect?.()
    } catch {
      // It was closed already.
    }
  }

  #start(): void {
    const { status, isReady, isOpen } = this.#subscriber
    if (status === 'ready' || isReady === true) void this.#subscribe()
    // A duplicate of node-redis waits to be connected, and so does a lazy one of ioredis.
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
      if (isNodeRedis(this.#subscriber)) await this.#subscriber.subscribe?.(this.#channel, this.#onMessage)
      else await this.#subscriber.subscribe?.(this.#channel)
      if (this.#closed || attempt !== this.#attempt) return
      this.#connected = true
      this.#listener.onGap()
      this.#call(() => this.#options.onCaughtUp?.())
    } catch (error) {
      this.report('could not subscribe', error)
      this.#later(() => attempt === this.#attempt && this.#subscribe())
    }
  }

  async #unsubscribe(): Promise<void> {
    if (isNodeRedis(this.#subscriber)) await this.#subscriber.unsubscribe?.(this.#channel, this.#onMessage)
    else await this.#subscriber.unsubscribe?.(this.#channel)
  }

  async #publish(text: string): Promise<void> {
    this.#waiting.set(text, false)
    try {
      await this.#publisher.publish?.(this.#channel, `${this.#id} ${text}`)
      const again = this.#waiting.get(text)
      this.#waiting.delete(text)
      if (again === true) this.send(text)
    } catch (error) {
      this.report('could not publish', error)
      this.#later(() => this.#publish(text))
    }
  }

  #onAway(): void {
    if (!this.#connected) return
    this.#connected = false
    this.#attempt++
    this.report('the connection was lost', undefined)
  }

  readonly #onIoredisMessage = (channel: string, message: string): void => {
    if (channel === this.#channel) this.#onMessage(message)
  }

  readonly #onMessage = (message: string): void => {
    const space = message.indexOf(' ')
    if (this.#closed || message.slice(0, space) === this.#id) return
    const text = message.slice(space + 1)
    if (text === GAP && space >= 0) this.#listener.onGap()
    else this.#listener.onText(text)
  }

  #later(run: () => unknown): void {
    setTimeout(() => {
      if (!this.#closed) run()
    }, RETRY_MS).unref()
  }

  /** What the application gave may fail; nothing here does for it. */
  #call(run: () => void): void {
    try {
      run()
    } catch {
      // There is nobody else to tell.
    }
  }
}

function isNodeRedis(client: AnyClient): boolean {
  return typeof client.pSubscribe === 'function'
}

function checkRedis(
  owner: RedisBroadcastOwner,
  redis: unknown,
): { publisher: AnyClient; subscriber?: AnyClient } {
  const { publisher, subscriber } = (redis ?? {}) as Record<'publisher' | 'subscriber', unknown>
  if (hasMethods(publisher, ['publish']) && hasMethods(subscriber, ['subscribe', 'unsubscribe', 'on', 'off']))
    return { publisher, subscriber }
  if (hasMethods(redis, ['publish', 'duplicate'])) return { publisher: redis }
  throw optionChecksOf(owner).invalidKind(
    owner,
    'must be made of an ioredis or a node-redis client, or of { publisher, subscriber }, two such clients',
    redis,
  )
}

function hasMethods(client: unknown, names: readonly string[]): client is AnyClient {
  return names.every((name) => typeof (client as AnyClient | null | undefined)?.[name] === 'function')
}

function checkOptions(owner: RedisBroadcastOwner, options: RedisBroadcastOptions): RedisBroadcastOptions {
  const { checkFunction, checkKnownOptions, invalidKind, invalidOption } = optionChecksOf(owner)
  if (!isOptionsObject(options))
    throw invalidKind(owner, 'takes options such as { channel, onError: console.warn }', options)
  checkKnownOptions(owner, options, KNOWN_OPTIONS)
  const { channel, onError, onCaughtUp } = options
  if (typeof channel !== 'string' || channel === '')
    throw invalidOption('channel', 'must be a non-empty string', channel)
  if (onError !== undefined) checkFunction('onError', onError, 'it hears that Redis is away')
  if (onCaughtUp !== undefined) checkFunction('onCaughtUp', onCaughtUp, 'it hears that Redis is back')
  return { ...options }
}
