import type { ServerEvent, ServerEventBus } from '@modelcontextprotocol/server'
import type { Answer } from '../../oauth/answer.ts'
import type { McpIncoming } from '../incoming.ts'
import { jsonRpcError } from '../rpc.ts'

const MAX_STREAMS = 1024
const MAX_SUBSCRIPTIONS = 1024
const KEEP_ALIVE_MS = 15_000
const LONGEST_TIMER_MS = 2_147_483_647

const METHODS: Readonly<Record<Exclude<ServerEvent['kind'], 'resource_updated'>, string>> = {
  tools_list_changed: 'notifications/tools/list_changed',
  prompts_list_changed: 'notifications/prompts/list_changed',
  resources_list_changed: 'notifications/resources/list_changed',
}

/** Who wants to hear of which resources. */
export interface Subscriptions {
  subscribe(owner: string, uri: string): void
  unsubscribe(owner: string, uri: string): void
}

interface EventStream {
  readonly owner: string
  readonly subscriptions: Set<string>
}

/** Whose stream it is, and until when. */
export interface StreamOptions {
  readonly owner: string
  /** Seconds since 1970: the stream ends with its token. */
  readonly expiresAt: number | undefined
  /** Who reads it: a host that has lost its client may do nothing with the stream. */
  readonly client: Pick<McpIncoming, 'onDisconnect'>
}

/**
 * The streams that clients of 2025 revisions open with GET, where no session is: they carry list-changed
 * notifications, updates of the resources that their owner has subscribed to while they were open, and a comment every 15 s.
 * At most 1024 are open at a time, further ones get 503.
 */
export class EventStreams implements Subscriptions {
  readonly #bus: ServerEventBus
  readonly #open = new Set<EventStream>()

  constructor(bus: ServerEventBus) {
    this.#bus = bus
  }

  open({ owner, expiresAt, client }: StreamOptions): Response | Answer {
    if (this.#open.size >= MAX_STREAMS) {
      const answer = jsonRpcError(503, -32_000, 'Too many event streams are open')
      return { ...answer, headers: { ...answer.headers, 'Retry-After': '5' } }
    }
    const stream: EventStream = { owner, subscriptions: new Set() }
    this.#open.add(stream)
    return new Response(this.#bodyOf(stream, expiresAt, client), {
      headers: {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-cache, no-transform',
        'X-Accel-Buffering': 'no',
      },
    })
  }

  /** Updates of `uri` go to the streams that `owner` has open; at most 1024 URIs each. */
  subscribe(owner: string, uri: string): void {
    for (const stream of this.#open) {
      if (stream.owner === owner && stream.subscriptions.size < MAX_SUBSCRIPTIONS)
        stream.subscriptions.add(uri)
    }
  }

  unsubscribe(owner: string, uri: string): void {
    for (const stream of this.#open) if (stream.owner === owner) stream.subscriptions.delete(uri)
  }

  #bodyOf(
    stream: EventStream,
    expiresAt: number | undefined,
    client: StreamOptions['client'],
  ): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder()
    /** What a client that does not read has missed; a second notification of the same words says nothing more. */
    const missed = new Set<string>()
    let keepAlive: NodeJS.Timeout | undefined
    let expiry: NodeJS.Timeout | undefined
    let unsubscribe: (() => void) | undefined
    const end = (): void => {
      this.#open.delete(stream)
      clearInterval(keepAlive)
      clearTimeout(expiry)
      unsubscribe?.()
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
        if (expiresAt !== undefined) {
          const leftMs = Math.max(0, expiresAt * 1000 - Date.now())
          expiry = setTimeout(close, Math.min(leftMs, LONGEST_TIMER_MS))
          expiry.unref()
        }
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
  return `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...notification })}\n\n`
}

/** What clients of the 2025 revisions are told of an event; undefined for one they know nothing of. */
export function notificationOf(event: ServerEvent): { method: string; params?: { uri: string } } | undefined {
  if (event.kind === 'resource_updated')
    return { method: 'notifications/resources/updated', params: { uri: event.uri } }
  const method = METHODS[event.kind]
  return method === undefined ? undefined : { method }
}
