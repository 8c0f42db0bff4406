/**
 * The fast path serves a single JSON-RPC request of a common method with a server of the SDK, but without the SDK's HTTP handler
 * around it. For such a request the handler only builds a web-standard `Request` and `Response`, classifies the body a second
 * time, and opens a stream; the fast path does the same work on plain values. It takes 306 µs of CPU time per `tools/call`
 * instead of 824 µs (docs/reference/benchmarks.md, b). `fast-request.ts` decides which requests qualify. The tests in
 * test/mcp/sdk/fast-path compare both ways response by response.
 *
 * Delete this folder when the SDK can serve a single request without web-standard objects. Then `SdkHandler` calls the SDK for
 * every request, and `usesFastPath` is not needed any more.
 */
import {
  type JSONRPCMessage,
  type JSONRPCNotification,
  type MessageExtraInfo,
  PerRequestHTTPServerTransport,
  ProtocolErrorCode,
  type Server,
  type TransportSendOptions,
} from '@modelcontextprotocol/server'
import type { HttpResponse, PlainResponse } from '../../../http/plain-response.ts'
import { EVENT_STREAM_HEADERS, KEEP_ALIVE, messageEvent } from '../../wire/event-stream.ts'
import type { Exchange } from '../../wire/exchange.ts'
import { CLIENT_GONE } from '../../wire/json-rpc.ts'
import { responseText } from '../../wire/json-safe.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import { unreceivableRequest } from '../refused-requests.ts'
import { EventOutlet } from '../streams/event-outlet.ts'
import type { StreamClock, TimedStream } from '../streams/stream-clock.ts'
import type { FastRequest } from './fast-request.ts'

/** A request on the fast path. */
export interface FastCall extends FastRequest {
  readonly exchange: Exchange
  readonly request: McpRequest
  readonly clock: StreamClock
}

const JSON_HEADERS = { 'Content-Type': 'application/json' }

/** The HTTP status of an error that the server returns before it calls a handler, by its code (2026-07-28). */
const STATUS_BEFORE_HANDLER: ReadonlyMap<number, number> = new Map([
  [ProtocolErrorCode.ParseError, 400],
  [ProtocolErrorCode.InvalidRequest, 400],
  [ProtocolErrorCode.MethodNotFound, 404],
  [ProtocolErrorCode.UnsupportedProtocolVersion, 400],
])

/**
 * Serves one request. The response is JSON or, if notifications come before the result, an event stream. In a 2025 revision, it
 * is always an event stream, as that of the SDK. If it has only one event, its body is a string.
 */
export function serveFast(server: Server, call: FastCall): Promise<HttpResponse> {
  return new FastTransport(call).serve(server)
}

/**
 * The requests in progress. The signal of a web-standard `Request` aborts only while the request is reachable. A handler that
 * only waits for its signal does not keep it reachable: both would be garbage, and the signal would never abort.
 */
const inProgress = new Set<object>()

/**
 * A transport for one request. It extends the SDK's transport only because a server reads the revision from it; all methods
 * are replaced.
 */
class FastTransport extends PerRequestHTTPServerTransport implements TimedStream {
  readonly #call: FastCall
  readonly #extra: MessageExtraInfo
  /** Resolves the response. */
  #respond: ((response: HttpResponse) => void) | undefined
  #outlet: EventOutlet | undefined
  #stopWatching: (() => void) | undefined
  #ended = false
  /** `true` while the server receives the request. Handlers run later. */
  #isDelivering = false

  constructor(call: FastCall) {
    const { classification } = call
    super({ classification })
    const { auth } = call.exchange
    this.#call = call
    this.#extra = auth === undefined ? { classification } : { classification, authInfo: auth }
  }

  async serve(server: Server): Promise<HttpResponse> {
    if (this.#isLegacy) this.#watch()
    await server.connect(this)
    const responded = new Promise<HttpResponse>((resolve) => {
      this.#respond = resolve
    })
    inProgress.add(this)
    this.#call.request.onDisconnect(() => void this.close())
    // If the client has disconnected already, nothing would stop the handler.
    if (this.#ended) return await responded
    this.#isDelivering = true
    try {
      this.onmessage?.(this.#call.message, this.#extra)
    } catch (error) {
      await this.close()
      throw error
    }
    this.#isDelivering = false
    return await responded
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if ('method' in message && 'id' in message) throw unreceivableRequest()
    if (this.#ended) return
    const last = 'result' in message || 'error' in message
    // No other stream could carry a message that does not belong to this request.
    if ((last ? message.id : options?.relatedRequestId) !== this.#call.message.id) return
    if (last && this.#outlet === undefined) {
      this.#ended = true
      inProgress.delete(this)
      this.#stopWatching?.()
      // The server is not closed. It becomes garbage.
      this.#respond?.(this.#responseOf(message))
      return
    }
    const event = messageEvent(last ? responseText(message) : JSON.stringify(message))
    if (last) {
      const settled = this.#outlet?.settle()
      if (settled !== undefined) await settled
      this.#write(event)
      // A server aborts the handlers that are running when it closes. So it must have finished the request before.
      setImmediate(() => void this.close())
      return
    }
    const outlet = this.#begun()
    const notify = async (notice: JSONRPCMessage): Promise<void> =>
      this.#write(messageEvent(JSON.stringify(notice)))
    if (!outlet.admits(message as JSONRPCNotification, Buffer.byteLength(event), notify)) return
    outlet.write(event)
    if (outlet.hasRoom) return
    await outlet.room()
  }

  override async close(): Promise<void> {
    if (this.#ended && this.#outlet === undefined) return
    this.#ended = true
    inProgress.delete(this)
    this.#stopWatching?.()
    this.#respond?.(CLIENT_GONE)
    const outlet = this.#outlet
    this.#outlet = undefined
    outlet?.end()
    this.onclose?.()
  }

  /** Sends a comment, and begins the stream for it if necessary. */
  keepAlive(): void {
    // Comments must not accumulate for a client that does not read.
    if (this.#outlet?.hasRoom !== false) this.#write(KEEP_ALIVE)
  }

  get #isLegacy(): boolean {
    return this.#call.classification.era === 'legacy'
  }

  /** Returns the response that consists of one message. */
  #responseOf(message: JSONRPCMessage): PlainResponse {
    const body = responseText(message)
    return this.#isLegacy
      ? { status: 200, headers: EVENT_STREAM_HEADERS, body: messageEvent(body) }
      : { status: statusOf(message, this.#isDelivering), headers: JSON_HEADERS, body }
  }

  /** Sends a comment every 15 s from now on. */
  #watch(): void {
    this.#stopWatching ??= this.#call.clock.watch(this)
  }

  #write(text: string): void {
    if (!this.#ended) this.#begun().write(text)
  }

  #begun(): EventOutlet {
    if (this.#outlet !== undefined) return this.#outlet
    const outlet = new EventOutlet({ onEnd: () => void this.close() })
    this.#outlet = outlet
    this.#call.exchange.outflow = outlet
    this.#respond?.(new Response(outlet.body, { status: 200, headers: EVENT_STREAM_HEADERS }))
    this.#watch()
    return outlet
  }
}

function statusOf(message: JSONRPCMessage, beforeHandler: boolean): number {
  if (!('error' in message)) return 200
  const { code } = message.error
  // The specification defines the status of this error also if a handler returns it.
  if (code === ProtocolErrorCode.MissingRequiredClientCapability) return 400
  return (beforeHandler ? STATUS_BEFORE_HANDLER.get(code) : undefined) ?? 200
}
