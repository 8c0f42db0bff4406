import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import { canonicalUri } from '../../router/uris/canonical-uri.ts'

/**
 * `bus`, whose listeners hear of updated resources by their canonical URIs, in which form clients have subscribed to
 * them. Events come from this process, from other nodes, and from the application.
 */
export function canonicalEventBus(bus: ServerEventBus): ServerEventBus {
  /** An event goes to every open stream. */
  const known = new WeakMap<ServerEvent, ServerEvent>()
  const canonicalEvent = (event: ServerEvent): ServerEvent => {
    if (event.kind !== 'resource_updated') return event
    const before = known.get(event)
    if (before !== undefined) return before
    const uri = typeof event.uri === 'string' ? canonicalUri(event.uri) : undefined
    const canonical = uri === undefined || uri === event.uri ? event : { ...event, uri }
    known.set(event, canonical)
    return canonical
  }
  return {
    publish: (event) => bus.publish(event),
    subscribe: (listener) => bus.subscribe((event) => listener(canonicalEvent(event))),
  }
}
