import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import { SubscribedUris, type Subscriptions } from '../../operations/subscriptions.ts'
import { EVENT_STREAM_HEADERS, KEEP_ALIVE_MS, messageEvent } from '../../wire/event-stream.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import { endAtExpiry } from './token-expiry.ts'

const METHODS: Readonly<Record<Exclude<ServerEvent['kind'], 'resource_updated'>, string>> = {
  tools_list_changed: 'notifications/tools/list_changed',
  prompts_list_changed: 'notifications/prompts/list_changed',
  resources_list_changed: 'notifications/resources/list_changed',
}

interface EventStream {
  readonly owner: string
  readonly subscriptions: SubscribedUris
  readonly permitsResource: (uri: string) => boolean
}

/** Whose stream it is, and until when. */
export interface StreamOptions {
  readonly owner: string
  /** Seconds since 1970: the stream ends with its token. */
  readonly expiresAt: number | undefined
  /** Who reads it: a host that has lost its client may do nothing with the stream. */
  readonly client: Pick<McpRequest, 'onDisconnect'>
  /** Whether the token that opens the stream may read a resource. */
  readonly permitsResource: (uri: string) => boolean
  /** Called once, when the stream has ended. */
  readonly onEnd: () => void
}

/**
 * The streams that clients of 2025 revisions open with GET, where no session is: they carry list-changed
 * notifications, updates of the resources that their owner has subscribed to while they were open, as far as the token that
 * opened the stream has their scopes, and a comment every 15 s.
 */
export class EventStreams implements Subscriptions {
  readonly #bus: ServerEventBus
  readonly #open = new Set<EventStream>()

  constructor(bus: ServerEventBus) {
    this.#bus = bus
  }

  open(options: StreamOptions): Response {
    const { owner, permitsResource } = options
    const stream: EventStream = { owner, subscriptions: new SubscribedUris(), permitsResource }
    this.#open.add(stream)
    return new Response(this.#bodyOf(stream, options), { headers: EVENT_STREAM_HEADERS })
  }

  /** Updates of `uri` go to the streams that `owner` has open with a token that may read it. */
  subscribe(owner: string, uri: string): void {
    for (const stream of this.#open) {
      if (stream.owner === owner && stream.permitsResource(uri)) stream.subscriptions.add(uri)
    }
  }

  unsubscribe(owner: string, uri: string): void {
    for (const stream of this.#open) if (stream.owner === owner) stream.subscriptions.delete(uri)
  }

  #bodyOf(stream: EventStream, { expiresAt, client, onEnd }: StreamOptions): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder()
    /** What a client that does not read has missed; a second notification of the same words says nothing more. */
    const missed = new Set<string>()
    let keepAlive: NodeJS.Timeout | undefined
    let stopExpiry: (() => void) | undefined
    let unsubscribe: (() => void) | undefined
    const end = (): void => {
      this.#open.delete(stream)
      clearInterval(keepAlive)
      stopExpiry?.()
      unsubscribe?.()
      onEnd()
    }
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        controller.enqueue(encoder.encode(': open\n\n'))
        keepAlive = setInterval(() => {
          // A client that does not read shall not pile them up.
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(': keep-alive\n\n'))
        }, KEEP_ALIVE_MS)
        keepAlive.unref()
        const close = (): void => {
          if (!this.#open.has(stream)) return
          end()
          controller.close()
        }
        stopExpiry = endAtExpiry(expiresAt, close)
        unsubscribe = this.#bus.subscribe((event) => {
          const text = eventText(event, stream)
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

function eventText(event: ServerEvent, { subscriptions }: EventStream): string | undefined {
  if (event.kind === 'resource_updated' && !subscriptions.has(event.uri)) return undefined
  const notification = notificationOf(event)
  if (notification === undefined) return undefined
  return messageEvent(JSON.stringify({ jsonrpc: '2.0', ...notification }))
}

/** What clients of the 2025 revisions are told of an event; undefined for one they know nothing of. */
export function notificationOf(event: ServerEvent): { method: string; params?: { uri: string } } | undefined {
  if (event.kind === 'resource_updated')
    return { method: 'notifications/resources/updated', params: { uri: event.uri } }
  const method = METHODS[event.kind]
  return method === undefined ? undefined : { method }
}
