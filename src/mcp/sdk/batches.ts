import type { HttpResponse } from '../../base/http/plain-response.ts'
import { AsyncContext } from '../../base/runtime.ts'
import { type ClientConnection, EVENT_STREAM_HEADERS, messageEvent } from '../wire/event-stream.ts'
import { requestIdOf } from '../wire/json-rpc.ts'
import { EventOutlet } from './streams/event-outlet.ts'

/**
 * Serves the messages of a batch like messages of their own, first notifications and responses, and then one request after the
 * other. Returns the responses as one event stream. A request begins when the client has room for its response: a small batch
 * could otherwise cause many large responses that wait for a client that does not read. When the client has left, no further
 * request begins.
 */
export async function serveBatch(
  client: ClientConnection,
  messages: readonly unknown[],
  serve: (message: unknown, connection: ClientConnection) => Promise<HttpResponse>,
): Promise<HttpResponse> {
  const isRequest = (message: unknown): boolean => requestIdOf(message) !== null
  const waiting = [...messages.filter((one) => !isRequest(one)), ...messages.filter(isRequest)]
  // A request must not begin in the context of the previous one, such as its span.
  const context = new AsyncContext('McpBatch')
  /** The listeners of the current message. Those of earlier ones would keep their responses. */
  let listeners: (() => void)[] = []
  const connection: ClientConnection = {
    get disconnected() {
      return client.disconnected
    },
    onDisconnect(listener) {
      if (client.disconnected) listener()
      else listeners.push(listener)
    },
  }
  client.onDisconnect(() => {
    for (const listener of listeners) listener()
  })
  const next = (): Promise<HttpResponse> => {
    const message = waiting.shift()
    listeners = []
    return context.runInAsyncScope(() => serve(message, connection))
  }
  let first = await next()
  while (first.body === undefined && waiting.length > 0) first = await next()
  // A problem that all messages have in common, or no request.
  if (first.body === undefined || first.status >= 400) return first

  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  // The responses have their own comments. The client has left: an error of a response has no receiver.
  const outlet = new EventOutlet({ isSilent: true, onEnd: () => reader?.cancel().catch(() => undefined) })
  client.onDisconnect(() => outlet.end())
  const end = (): void => outlet.end()
  sendAll(first).then(end, end)
  const { 'Mcp-Session-Id': session } = first.headers
  return outlet.open('', {
    ...EVENT_STREAM_HEADERS,
    ...(session !== undefined && { 'Mcp-Session-Id': session }),
  })

  async function sendAll(begun: HttpResponse): Promise<void> {
    for (let response = begun; ; response = await next()) {
      await send(response)
      // Other connections get their turn.
      await new Promise(setImmediate)
      await outlet.room()
      if (waiting.length === 0 || !outlet.isOpen) return
    }
  }

  async function send({ body = '' }: HttpResponse): Promise<void> {
    if (typeof body === 'string') {
      outlet.write(body.startsWith('{') ? messageEvent(body) : body)
      return
    }
    reader = body.getReader()
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      outlet.write(read.value)
      await outlet.room()
    }
  }
}
