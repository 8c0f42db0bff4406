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
    const outlet = new EventOutlet({
      endsWhenFull: true,
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
      outlet.write(messageEvent(JSON.stringify({ jsonrpc: '2.0', ...notification })))
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
  const canonicalEvent = (event: ServerEvent): ServerEvent => {
    const uri = 'uri' in event && typeof event.uri === 'string' ? canonicalUri(event.uri) : undefined
    return uri === undefined ? event : ({ ...event, uri } as ServerEvent)
  }
  return {
    publish: (event) => bus.publish(event),
    subscribe: (listener) => bus.subscribe((event) => listener(canonicalEvent(event))),
  }
}
