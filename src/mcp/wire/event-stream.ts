import type { HttpResponse } from '../../base/http/plain-response.ts'

/** The interval of the comments that keep a silent event stream open, in milliseconds. */
export const KEEP_ALIVE_MS = 15_000

/** The comment that keeps a silent event stream open. */
export const KEEP_ALIVE = ': keep-alive\n\n'

/** The comment that begins an event stream, because proxies hold the headers of a response until its first byte. */
export const OPEN = ': open\n\n'

/** The headers of a response that is an event stream. */
export const EVENT_STREAM_HEADERS: Readonly<Record<string, string>> = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
}

/** Returns the server-sent event of a message. @param json the message as JSON */
export function messageEvent(json: string): string {
  return `event: message\ndata: ${json}\n\n`
}

/** A response that is an event stream. */
export type StreamResponse = HttpResponse & { readonly body: ReadableStream<Uint8Array> }

/** Returns `true` if a response is an event stream. */
export function isEventStream(response: HttpResponse): response is StreamResponse {
  return typeof response.body === 'object'
}

/** Headers that the host sets itself. */
const HOP_BY_HOP: ReadonlySet<string> = new Set(['connection', 'transfer-encoding'])

/** Converts a web-standard response of the SDK to one of plain values. Reads its body, unless it is an event stream. */
export async function fromResponse(response: Response): Promise<HttpResponse> {
  const { status, body } = response
  const headers = Object.fromEntries([...response.headers].filter(([name]) => !HOP_BY_HOP.has(name)))
  if (body !== null && headers['content-type']?.startsWith('text/event-stream'))
    return { status, headers, body }
  const text = await response.text()
  return text === '' ? { status, headers } : { status, headers, body: text }
}

/** Returns a response like `response`. Calls `onEnd` when its stream ends or its client disconnects. */
export function withEnd(
  response: StreamResponse,
  client: ClientConnection,
  onEnd: () => void,
): StreamResponse {
  client.onDisconnect(onEnd)
  return { ...response, body: withBodyEnd(response.body, onEnd) }
}

/** Returns a stream like `body`. Calls `onEnd` once the stream has ended, has failed, or was canceled. */
export function withBodyEnd(body: ReadableStream<Uint8Array>, onEnd: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read()
          if (!done) return controller.enqueue(value)
          onEnd()
          controller.close()
        } catch (error) {
          onEnd()
          controller.error(error)
        }
      },
      async cancel(reason) {
        onEnd()
        // The client has left: an error of the source has no receiver.
        await reader.cancel(reason).catch(() => undefined)
      },
    },
    { highWaterMark: 0 },
  )
}

/** The connection on which a client waits for its response. */
export interface ClientConnection {
  /** `true` if the client has disconnected before its response was complete. */
  readonly disconnected: boolean
  /** Calls `listener` when the client disconnects, or at once if it has disconnected already. */
  onDisconnect(listener: () => void): void
}
