import { InMemoryServerEventBus, type ServerEvent, type ServerEventBus } from '@modelcontextprotocol/server'
import {
  type PubSubRedis,
  RedisBroadcast,
  type RedisBroadcastOptions,
  type RedisShared,
} from './broadcast.ts'

/** An event bus that reaches the clients of all nodes. */
export interface RedisEventBus extends ServerEventBus, RedisShared {}

const LIST_CHANGES: readonly ServerEvent[] = [
  { kind: 'tools_list_changed' },
  { kind: 'prompts_list_changed' },
  { kind: 'resources_list_changed' },
]

/**
 * Carries `notify` to the clients of all nodes that share a Redis: the option `eventBus`. What a node says its own
 * clients hear at once, whether Redis is there or not. Where something may have been missed (Redis was away, or
 * the node was), clients are told that all lists have changed, once; an update of a resource that was missed meanwhile
 * is not repeated, unless the node that said it was the one without Redis.
 * @param redis see `PubSubRedis`. Give pub/sub the primary: a replica tells nobody but its own subscribers.
 * @param options `channel` is by default `mcp-gatekit:events`.
 * @throws {KitMcpConfigError} for anything else.
 */
export function redisEventBus(redis: PubSubRedis, options: RedisBroadcastOptions = {}): RedisEventBus {
  const local = new InMemoryServerEventBus((error) => broadcast.report('a listener failed', error))
  const channel = options?.channel ?? 'mcp-gatekit:events'
  const given = typeof options === 'object' && options !== null ? { ...options, channel } : options
  const broadcast: RedisBroadcast = new RedisBroadcast('redisEventBus', redis, given, {
    onText(text) {
      const event = readEvent(text)
      if (event === undefined) broadcast.report('a message could not be read', undefined)
      else local.publish(event)
    },
    onGap() {
      for (const event of LIST_CHANGES) local.publish(event)
    },
  })
  return {
    publish(event) {
      local.publish(event)
      broadcast.send(JSON.stringify(event))
    },
    subscribe: (listener) => local.subscribe(listener),
    get connected() {
      return broadcast.connected
    },
    close: () => broadcast.close(),
  }
}

function readEvent(text: string): ServerEvent | undefined {
  let event: Partial<Record<'kind' | 'uri' | 'params', unknown>> | null
  try {
    event = JSON.parse(text)
  } catch {
    return undefined
  }
  const { kind, uri, params } = event ?? {}
  if (params !== undefined && (typeof params !== 'object' || params === null)) return undefined
  if (kind === 'resource_updated') return typeof uri === 'string' ? (event as ServerEvent) : undefined
  return LIST_CHANGES.some((change) => change.kind === kind) ? (event as ServerEvent) : undefined
}
