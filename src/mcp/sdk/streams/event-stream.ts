import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { EVENT_STREAM_HEADERS, KEEP_ALIVE, messageEvent } from '../../wire/event-stream.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import type { StreamClock } from './stream-clock.ts'

const encoder = new TextEncoder()

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
  /** The client. If it has disconnected, the host may leave the stream open. */
  readonly client: Pick<McpRequest, 'onDisconnect'>
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
  readonly #clock: StreamClock
  /** The open streams, each with the resources that it has subscribed to. */
  readonly #open = new Map<StreamOptions, SubscribedUris>()

  constructor(bus: ServerEventBus, clock: StreamClock) {
    this.#bus = bus
    this.#clock = clock
  }

  open(options: StreamOptions): Response {
    const subscribed = new SubscribedUris()
    this.#open.set(options, subscribed)
    return new Response(this.#bodyOf(options, subscribed), { headers: EVENT_STREAM_HEADERS })
  }

  /** Subscribes the open streams of `owner` whose token may read `uri`. */
  subscribe(owner: string, uri: string): void {
    for (const [stream, subscribed] of this.#open)
      if (stream.owner === owner && stream.permitsResource(uri)) subscribed.add(uri)
  }

  unsubscribe(owner: string, uri: string): void {
    for (const [stream, subscribed] of this.#open) if (stream.owner === owner) subscribed.delete(uri)
  }

  #bodyOf(stream: StreamOptions, subscribed: SubscribedUris): ReadableStream<Uint8Array> {
    const { expiresAt, client, onEnd } = stream
    /** The events that a client that does not read has missed. Each is kept once. */
    const missed = new Set<string>()
    let stopWatching: (() => void) | undefined
    let unsubscribe: (() => void) | undefined
    const end = (): void => {
      this.#open.delete(stream)
      stopWatching?.()
      unsubscribe?.()
      onEnd()
    }
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        controller.enqueue(encoder.encode(': open\n\n'))
        const close = (): void => {
          if (!this.#open.has(stream)) return
          end()
          controller.close()
        }
        const keepAlive = (): void => {
          // Comments must not accumulate for a client that does not read.
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(KEEP_ALIVE))
        }
        stopWatching = this.#clock.watch({ keepAlive, expire: close }, expiresAt)
        unsubscribe = this.#bus.subscribe((event) => {
          const text = eventOf(event, subscribed)
          if (text === undefined) return
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(text))
          else missed.add(text)
        })
        client.onDisconnect(close)
      },
      pull: (controller) => {
        if (missed.size === 0) return
        controller.enqueue(encoder.encode([...missed].join('')))
        missed.clear()
      },
      cancel: end,
    })
  }
}

function eventOf(event: ServerEvent, subscribed: SubscribedUris): string | undefined {
  if (event.kind === 'resource_updated' && !subscribed.has(event.uri)) return undefined
  const notification = notificationOf(event)
  if (notification === undefined) return undefined
  return messageEvent(JSON.stringify({ jsonrpc: '2.0', ...notification }))
}

/** Returns the notification of an event for clients of the 2025 revisions. Returns undefined for an unknown event. */
export function notificationOf(event: ServerEvent): { method: string; params?: { uri: string } } | undefined {
  if (event.kind === 'resource_updated')
    return { method: 'notifications/resources/updated', params: { uri: event.uri } }
  const method = METHODS[event.kind]
  return method === undefined ? undefined : { method }
}
