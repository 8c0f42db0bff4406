import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import { canonicalUri } from '../../router/uris/canonical-uri.ts'

/**
 * Returns a bus like `bus` whose listeners receive the canonical URIs of updated resources. Subscriptions are kept in this
 * form. Events come from this process, from other nodes, and from the application.
 */
export function canonicalEventBus(bus: ServerEventBus): ServerEventBus {
  /** The canonical form of each event. An event goes to every open stream. */
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
