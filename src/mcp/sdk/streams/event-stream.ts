import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { canonicalUri } from '../../router/uris/canonical-uri.ts'
import type { ClientConnection } from '../../wire/client-connection.ts'
import { messageEvent, type StreamResponse } from '../../wire/event-stream.ts'
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
  readonly #open = new Set<EventStream>()

  constructor(bus: ServerEventBus) {
    this.#bus = bus
  }

  open(client: ClientConnection, options: StreamOptions): StreamResponse {
    const outlet = new EventOutlet({
      expiresAt: options.expiresAt,
      onEnd: () => {
        this.#open.delete(stream)
        unsubscribe()
        options.onEnd()
      },
    })
    const stream = new EventStream(outlet, options)
    this.#open.add(stream)
    const unsubscribe = this.#bus.subscribe((event) => stream.receive(event))
    // A web-standard host may leave the body open.
    client.onDisconnect(() => outlet.end())
    return outlet.open()
  }

  /** Subscribes the open streams of `owner` whose token may read `uri`. */
  subscribe(owner: string, uri: string): void {
    for (const stream of this.#open) if (stream.owner === owner) stream.subscribe(uri)
  }

  unsubscribe(owner: string, uri: string): void {
    for (const stream of this.#open) if (stream.owner === owner) stream.unsubscribe(uri)
  }
}

class EventStream {
  readonly owner: string
  readonly #outlet: EventOutlet
  readonly #permitsResource: (uri: string) => boolean
  #subscribed: SubscribedUris | undefined
  /** The events that a client that does not read has missed. Each is kept once. */
  #missed: Set<string> | undefined

  constructor(outlet: EventOutlet, { owner, permitsResource }: StreamOptions) {
    this.#outlet = outlet
    this.owner = owner
    this.#permitsResource = permitsResource
  }

  subscribe(uri: string): void {
    if (!this.#permitsResource(uri)) return
    this.#subscribed ??= new SubscribedUris()
    this.#subscribed.add(uri)
  }

  unsubscribe(uri: string): void {
    this.#subscribed?.delete(uri)
  }

  receive(event: ServerEvent): void {
    if (event.kind === 'resource_updated' && this.#subscribed?.has(event.uri) !== true) return
    const notification = notificationOf(event)
    if (notification === undefined) return
    const text = messageEvent(JSON.stringify({ jsonrpc: '2.0', ...notification }))
    if (this.#missed === undefined && this.#outlet.unsentBytes === 0) this.#outlet.write(text)
    else this.#miss(text)
  }

  /** Keeps an event until the client can take more. */
  #miss(text: string): void {
    if (this.#missed === undefined) {
      this.#missed = new Set()
      void this.#outlet.room().then(() => {
        this.#outlet.write([...(this.#missed ?? [])].join(''))
        this.#missed = undefined
      })
    }
    this.#missed.add(text)
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
