import { randomUUID } from 'node:crypto'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'
import { isRedisClient } from '../base/options/redis-client.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'
import { isLikeNodeRedis } from './run-script.ts'

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
  /** Stops sharing, and closes the connection that was opened for it. Never rejects. */
  close(): Promise<void>
}

/** A receiver of messages from other nodes. It is called with undefined when messages may have been missed. It must not throw. */
export type BroadcastListener = (message: string | undefined) => void

/** A client of either library. */
type AnyClient = Readonly<Record<string, any>>

const RETRY_MS = 1_000
const REPORT_EVERY_MS = 10_000

/** The maximum number of different messages that wait for Redis. Beyond it, a gap is announced to the other nodes. */
const MAX_WAITING = 1_000
const GAP = ''

/** A connection to the other nodes. */
export interface RedisBroadcast extends RedisSubscription {
  /** Sends a message to the other nodes in the background. */
  send(message: string): void
  /** Adds a listener. Returns a function that removes it. */
  listen(listener: BroadcastListener): () => void
  /** Calls the listeners of this node. */
  receive: BroadcastListener
  /** Calls `onError` with the message of `cause` only: some clients attach the arguments of AUTH to an error. */
  report(what: string, cause: unknown): void
}

/**
 * Sends short messages to all other nodes with Redis pub/sub, which does not store them. A message that could not be sent
 * is sent again until it succeeds, and a node that was disconnected is notified of a gap. A message may arrive twice. If
 * the same message is sent many times in a short time, it is published at most twice: at the beginning and at the end.
 * @param defaultChannel the default of the option `channel`
 * @throws {KitMcpConfigError} if `redis` is not a client, or an option is invalid.
 */
export function redisBroadcast(
  owner: string,
  redis: unknown,
  options: RedisBroadcastOptions,
  defaultChannel: string,
): RedisBroadcast {
  const { callable, invalidKind, readOptions, text } = optionChecksOf(owner)
  const expected = 'must be called with options such as { channel, onError: console.warn }'
  const { channel, onError, onCaughtUp } = readOptions(owner, expected, options, {
    channel: optional(text, defaultChannel),
    onError: optional(callable<(error: Error) => void>('it is called when Redis is unavailable')),
    onCaughtUp: optional(callable<() => void>('it is called when the subscription is established')),
  } satisfies RulesFor<RedisBroadcastOptions>)
  const node = randomUUID()
  if (!isRedisClient(redis, ['publish', 'duplicate']))
    throw invalidKind(owner, 'must be called with an ioredis or node-redis client', redis)
  const publisher = redis as AnyClient
  const subscriber = duplicateOf(publisher)
  const listeners = new Set<BroadcastListener>()
  /** Messages that Redis has not confirmed, and whether they were sent again since they were published. */
  const waiting = new Map<string, boolean>()
  let isConnected = false
  let isClosed = false
  let reportedAt = Number.NEGATIVE_INFINITY

  function report(what: string, cause: unknown): void {
    const now = performance.now()
    if (isClosed || now - reportedAt < REPORT_EVERY_MS) return
    reportedAt = now
    const { message } = Object(cause)
    const why = typeof message === 'string' && message !== '' ? `: ${message}` : ''
    // An error or a rejection of the function cannot be reported anywhere else.
    tryOrUndefined(() => onError?.(new Error(`Redis channel ${channel}: ${what}${why}`)))
  }

  function later(run: () => unknown): void {
    setTimeout(() => isClosed || run(), RETRY_MS).unref()
  }

  function send(message: string): void {
    if (isClosed) return
    if (waiting.has(message)) waiting.set(message, true)
    else if (waiting.size >= MAX_WAITING && message !== GAP) send(GAP)
    else void publish(message)
  }

  async function publish(message: string): Promise<void> {
    waiting.set(message, false)
    try {
      await publisher.publish(channel, `${node} ${message}`)
      const again = waiting.get(message)
      waiting.delete(message)
      if (again === true) send(message)
    } catch (error) {
      report('could not publish', error)
      later(() => publish(message))
    }
  }

  function receive(message: string | undefined): void {
    for (const listener of listeners) listener(message)
  }

  function onPayload(payload: string): void {
    const space = payload.indexOf(' ')
    if (isClosed || payload.slice(0, space) === node) return
    const message = payload.slice(space + 1)
    receive(message === GAP && space >= 0 ? undefined : message)
  }

  async function subscribe(): Promise<void> {
    try {
      await subscriber.subscribe(channel, ...listener)
      if (isClosed || isConnected) return
      isConnected = true
      receive(undefined)
      tryOrUndefined(() => onCaughtUp?.())
    } catch (error) {
      report('could not subscribe', error)
      later(() => isConnected || subscribe())
    }
  }

  function disconnected(): void {
    isConnected = false
  }

  const listener = isLikeNodeRedis(subscriber) ? [onPayload] : []
  const handlers = {
    ready: () => isClosed || subscribe(),
    error: (error: unknown) => report('the connection failed', error),
    reconnecting: disconnected,
    end: disconnected,
    // Only ioredis emits messages.
    message: (from: string, payload: string) => from === channel && onPayload(payload),
  }
  for (const [event, handler] of Object.entries(handlers)) subscriber.on(event, handler)
  const { status, isReady, isOpen } = subscriber
  if (status === 'ready' || isReady === true) void subscribe()
  // A duplicate of a node-redis client, or of a lazy ioredis client, must be connected explicitly.
  else if (status === 'wait' || isOpen === false) subscriber.connect().catch(handlers.error)

  async function close(): Promise<void> {
    if (isClosed) return
    isClosed = true
    // The connection may be closed already.
    tryOrUndefined(() => (subscriber.destroy ?? subscriber.disconnect).call(subscriber))
  }

  const listen = (listener: BroadcastListener): (() => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  return { close, send, listen, receive, report }
}

/**
 * Opens a second connection. An ioredis client must not subscribe by itself after an outage: it ignores the promise of that
 * command, so that the process would end with an unhandled rejection if the connection closed before the response.
 */
function duplicateOf(client: AnyClient): AnyClient {
  return client.duplicate(...(client.isCluster === false ? [{ autoResubscribe: false }] : []))
}
