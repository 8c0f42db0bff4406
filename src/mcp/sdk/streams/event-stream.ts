import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { canonicalUri } from '../../router/uris/canonical-uri.ts'
import { type ClientConnection, messageEvent, type StreamResponse } from '../../wire/event-stream.ts'
import { EventOutlet } from './event-outlet.ts'

const METHODS: Readonly<Record<Exclude<ServerEvent['kind'], 'resource_updated'>, string>> = {
  tools_list_changed: 'notifications/tools/list_changed',
  prompts_list_changed: 'notifications/prompts/list_changed',
  resources_list_changed: 'notifications/resources/list_changed',
}

/** The options of an event stream. */
export interface StreamOptions {
  readonly owner: string
  /** The time at which the token expires and the stream ends, in seconds since 1970. */
  readonly expiresAt: number | undefined
  /** Returns `true` if the token that opens the stream may read a resource. */
  readonly permitsResource: (uri: string) => boolean
  /** Called once, when the stream has ended. */
  readonly onEnd: () => void
}

/**
 * The streams that clients of 2025 revisions open with GET if sessions are disabled. They carry list-changed notifications, and
 * updates of the resources that their owner has subscribed to while they were open and that their token may read. A comment
 * every 15 s keeps them open.
 */
export class EventStreams implements Subscriptions {
  readonly #bus: ServerEventBus
  readonly #open = new Set<
    Pick<StreamOptions, 'owner' | 'permitsResource'> & { readonly subscribed: SubscribedUris }
  >()

  constructor(bus: ServerEventBus) {
    this.#bus = bus
  }

  open(
    client: ClientConnection,
    { owner, expiresAt, permitsResource, onEnd }: StreamOptions,
  ): StreamResponse {
    const stream = { owner, permitsResource, subscribed: new SubscribedUris() }
    /** The events that a client that does not read has missed. Each is kept once, until the client can take more. */
    let missed: Set<string> | undefined
    const outlet = new EventOutlet({
      expiresAt,
      onEnd: () => {
        this.#open.delete(stream)
        unsubscribe()
        onEnd()
      },
    })
    const unsubscribe = this.#bus.subscribe((event) => {
      if (event.kind === 'resource_updated' && !stream.subscribed.has(event.uri)) return
      const notification = notificationOf(event)
      if (notification === undefined) return
      const text = messageEvent(JSON.stringify({ jsonrpc: '2.0', ...notification }))
      if (missed === undefined && outlet.unsentBytes === 0) return outlet.write(text)
      if (missed === undefined) {
        const events = new Set<string>()
        missed = events
        void outlet.room().then(() => {
          missed = undefined
          outlet.write([...events].join(''))
        })
      }
      missed.add(text)
    })
    this.#open.add(stream)
    // A web-standard host may leave the body open.
    client.onDisconnect(() => outlet.end())
    return outlet.open()
  }

  /** Subscribes the open streams of `owner` whose token may read `uri`. */
  subscribe(owner: string, uri: string): void {
    for (const stream of this.#open)
      if (stream.owner === owner && stream.permitsResource(uri)) stream.subscribed.add(uri)
  }

  unsubscribe(owner: string, uri: string): void {
    for (const stream of this.#open) if (stream.owner === owner) stream.subscribed.delete(uri)
  }
}

/** Returns the notification of an event for clients of the 2025 revisions. Returns undefined for an unknown event. */
export function notificationOf(event: ServerEvent): { method: string; params?: { uri: string } } | undefined {
  if (event.kind === 'resource_updated')
    return { method: 'notifications/resources/updated', params: { uri: event.uri } }
  const method = METHODS[event.kind]
  return method === undefined ? undefined : { method }
}

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
