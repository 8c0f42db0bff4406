import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import { isRecord } from '../base/options/value-kinds.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'
import { type RedisBroadcastOptions, type RedisSubscription, redisBroadcast } from './broadcast.ts'
import type { RedisClient } from './run-script.ts'

/** An event bus that reaches the clients of all nodes. Returned by {@link redisEventBus}. */
export interface RedisEventBus extends ServerEventBus, RedisSubscription {}

const LIST_CHANGES: readonly ServerEvent[] = [
  { kind: 'tools_list_changed' },
  { kind: 'prompts_list_changed' },
  { kind: 'resources_list_changed' },
]

/**
 * Creates an event bus that carries `notify` to the clients of all nodes that share a Redis. Pass it as the option
 * `eventBus`.
 *
 * The clients of the node that emits an event receive it at once, even if Redis is unavailable. After an outage of Redis
 * or of a node, clients are notified once that all lists have changed. A resource update that a node missed during an
 * outage may not be repeated.
 * @param redis an ioredis or node-redis client, which is neither connected nor closed. Connect it to the primary: a replica delivers
 * messages to its own subscribers only.
 * @param options the channel and callbacks.
 * @returns the event bus. Call `close()` when the server shuts down.
 * @throws {KitMcpConfigError} if `redis` is not a client, or an option is invalid.
 * @example
 * ```ts
 * import { Redis } from 'ioredis'
 * import { createMcpAdapter, KitMcpRouter, redisEventBus } from 'mcp-gatekit'
 *
 * const eventBus = redisEventBus(new Redis(), { onError: console.warn })
 * const adapter = createMcpAdapter({ router: KitMcpRouter.create(), eventBus })
 * ```
 * @see docs/guides/many-nodes.md
 */
export function redisEventBus(redis: RedisClient, options: RedisBroadcastOptions = {}): RedisEventBus {
  const channel = 'mcp-gatekit:events'
  const { close, send, listen, receive, report } = redisBroadcast('redisEventBus', redis, options, channel)
  const tell = (listener: (event: ServerEvent) => void, message: string | undefined): void => {
    const events = message === undefined ? LIST_CHANGES : eventIn(message)
    if (events.length === 0) report('a message could not be read', undefined)
    for (const event of events) {
      try {
        listener(event)
      } catch (error) {
        report('a listener failed', error)
      }
    }
  }
  return {
    close,
    publish(event: ServerEvent) {
      const message = JSON.stringify(event)
      receive(message)
      send(message)
    },
    subscribe: (listener: (event: ServerEvent) => void) => listen((message) => tell(listener, message)),
  }
}

/** Returns the event of a message, or nothing if it is not one. */
function eventIn(message: string): readonly ServerEvent[] {
  const event = tryOrUndefined(() => JSON.parse(message))
  const { kind, uri, params }: Record<'kind' | 'uri' | 'params', unknown> = Object(event)
  const isEvent =
    kind === 'resource_updated' ? typeof uri === 'string' : LIST_CHANGES.some((one) => one.kind === kind)
  return isEvent && (params === undefined || isRecord(params)) ? [event] : []
}
