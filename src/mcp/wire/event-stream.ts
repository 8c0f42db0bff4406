import type { ClientConnection } from './client-connection.ts'

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

/** Returns `true` if a response is an event stream. */
export function isEventStream(response: Response): boolean {
  return (
    response.body !== null && response.headers.get('content-type')?.startsWith('text/event-stream') === true
  )
}

/** Returns a response like `response`, which is an event stream. Calls `onEnd` when it ends or its client disconnects. */
export function withEnd(response: Response, client: ClientConnection, onEnd: () => void): Response {
  client.onDisconnect(onEnd)
  return new Response(withBodyEnd(response.body as ReadableStream<Uint8Array>, onEnd), response)
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
