import {
  type JSONRPCMessage,
  type JSONRPCRequest,
  type MessageClassification,
  PerRequestHTTPServerTransport,
  type Server,
  type Transport,
  type TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { Answer } from '../oauth/answer.ts'
import type { AuthInfo } from '../oauth/auth-info.ts'
import type { McpIncoming } from './incoming.ts'

/** One request, and who waits for its answer. */
export interface DirectCall {
  readonly message: JSONRPCRequest
  readonly auth: AuthInfo | undefined
  readonly incoming: McpIncoming
}

/** How long a call of a 2025-era revision may be silent before its stream is begun, and then between signs of life. */
const KEEP_ALIVE_MS = 15_000

const JSON_HEADERS = { 'Content-Type': 'application/json' }

const EVENT_STREAM_HEADERS = {
  'Content-Type': 'text/event-stream',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
}

/** What nobody will read, because the client has hung up. */
const CLIENT_GONE: Answer = { status: 499, headers: {} }

/**
 * Has `server` answer one request of revision 2026-07-28. A lone result is given as it is, without a web `Response`
 * around it; whatever else happens (notifications before it, errors with a status of their own) is the SDK's transport's.
 */
export async function serveModern(
  server: Server,
  call: DirectCall,
  classification: MessageClassification,
): Promise<Answer | Response> {
  const transport = new ModernTransport({ classification })
  await server.connect(transport)
  return await transport.serve(call)
}

class ModernTransport extends PerRequestHTTPServerTransport {
  #answer: ((answer: Answer) => void) | undefined

  async serve({ message, auth, incoming }: DirectCall): Promise<Answer | Response> {
    const answered = new Promise<Answer>((resolve) => {
      this.#answer = resolve
    })
    incoming.onDisconnect(() => void this.close())
    const handled = this.handleMessage(message, auth === undefined ? {} : { authInfo: auth })
    try {
      return await Promise.race([answered, handled])
    } catch (error) {
      if (incoming.disconnected) return CLIENT_GONE
      throw error
    }
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if (this.#answer === undefined || !('result' in message)) {
      this.#answer = undefined
      await super.send(message, options)
      return
    }
    this.#answer({ status: 200, headers: JSON_HEADERS, body: JSON.stringify(message) })
    this.#answer = undefined
    queueMicrotask(() => void this.close())
  }
}

/**
 * Has `server` answer one request of a 2025-era revision, statelessly. The answer is an event stream, as the SDK's is;
 * one that holds nothing but the result is given as a text.
 */
export async function serveLegacy(server: Server, call: DirectCall): Promise<Answer | Response> {
  const transport = new LegacyTransport(call)
  await server.connect(transport)
  return await transport.serve()
}

class LegacyTransport implements Transport {
  onclose?: () => void
  onerror?: (error: Error) => void
  onmessage?: Transport['onmessage']
  readonly #call: DirectCall
  #answer: ((answer: Answer | Response) => void) | undefined
  #stream: ReadableStreamDefaultController<string> | undefined
  #keepAlive: NodeJS.Timeout | undefined
  #closed = false

  constructor(call: DirectCall) {
    this.#call = call
  }

  async start(): Promise<void> {}

  serve(): Promise<Answer | Response> {
    const { message, auth, incoming } = this.#call
    const answered = new Promise<Answer | Response>((resolve) => {
      this.#answer = resolve
    })
    incoming.onDisconnect(() => void this.close())
    this.#keepAlive = setInterval(() => this.#write(': keepalive\n\n'), KEEP_ALIVE_MS).unref()
    this.onmessage?.(message, auth === undefined ? {} : { authInfo: auth })
    return answered
  }

  async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    const last = 'result' in message || 'error' in message
    // Without a session there is no other stream that could carry it.
    if (!last && options?.relatedRequestId !== this.#call.message.id) return
    const event = `event: message\ndata: ${JSON.stringify(message)}\n\n`
    if (last && this.#stream === undefined) {
      this.#answer?.({ status: 200, headers: EVENT_STREAM_HEADERS, body: event })
    } else {
      this.#write(event)
    }
    if (last) queueMicrotask(() => void this.close())
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    clearInterval(this.#keepAlive)
    this.#answer?.(CLIENT_GONE)
    try {
      this.#stream?.close()
    } catch {
      // Its reader has gone already.
    }
    this.onclose?.()
  }

  #write(text: string): void {
    if (this.#closed) return
    this.#stream ??= this.#begin()
    this.#stream.enqueue(text)
  }

  #begin(): ReadableStreamDefaultController<string> {
    let controller!: ReadableStreamDefaultController<string>
    const texts = new ReadableStream<string>({
      start: (given) => {
        controller = given
      },
      cancel: () => this.close(),
    })
    const body = texts.pipeThrough(new TextEncoderStream())
    this.#answer?.(new Response(body, { status: 200, headers: EVENT_STREAM_HEADERS }))
    return controller
  }
}
