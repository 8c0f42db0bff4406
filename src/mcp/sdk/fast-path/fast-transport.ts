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
import type { HttpResponse } from '../../../http/plain-response.ts'
import { messageEvent } from '../../wire/event-stream.ts'
import type { Exchange } from '../../wire/exchange.ts'
import { CLIENT_GONE } from '../../wire/json-rpc.ts'
import { responseText } from '../../wire/json-safe.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import { unreceivableRequest } from '../refused-requests.ts'
import { Reply } from '../streams/event-outlet.ts'
import { keepOpen } from '../streams/keep-open.ts'
import type { FastRequest } from './fast-request.ts'

/** A request on the fast path. */
export interface FastCall extends FastRequest {
  readonly exchange: Exchange
  readonly request: McpRequest
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
 * is always an event stream, as that of the SDK.
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
class FastTransport extends PerRequestHTTPServerTransport {
  readonly #call: FastCall
  readonly #extra: MessageExtraInfo
  readonly #reply: Reply
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
    this.#reply = new Reply({ client: call.request, onEnd: () => void this.close() })
  }

  async serve(server: Server): Promise<HttpResponse> {
    const { request, message } = this.#call
    // A stream of a 2025 revision begins after 15 s at the latest.
    if (this.#isLegacy) this.#stopWatching = keepOpen(() => this.#reply.begin())
    await server.connect(this)
    inProgress.add(this)
    request.onDisconnect(() => void this.close())
    // If the client has disconnected already, nothing would stop the handler.
    if (this.#ended) return await this.#reply.response
    this.#isDelivering = true
    try {
      this.onmessage?.(message, this.#extra)
    } catch (error) {
      await this.close()
      throw error
    }
    this.#isDelivering = false
    return await this.#reply.response
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if ('method' in message && 'id' in message) throw unreceivableRequest()
    if (this.#ended) return
    const last = 'result' in message || 'error' in message
    // No other stream could carry a message that does not belong to this request.
    if ((last ? message.id : options?.relatedRequestId) !== this.#call.message.id) return
    if (!last) return await this.#notify(message as JSONRPCNotification)
    const status = statusOf(message, this.#isDelivering)
    const settled = this.#reply.settle()
    if (settled !== undefined) await settled
    // The server is not closed, because it would abort the handler. It becomes garbage.
    this.#end()
    const body = responseText(message)
    if (this.#isLegacy || this.#reply.hasBegun) this.#reply.end(messageEvent(body))
    else this.#reply.end('', { status, headers: JSON_HEADERS, body })
  }

  async #notify(message: JSONRPCNotification): Promise<void> {
    const { outflow } = this.#reply
    this.#call.exchange.outflow = outflow
    const event = messageEvent(JSON.stringify(message))
    const notify = async (notice: JSONRPCMessage): Promise<void> =>
      this.#reply.write(messageEvent(JSON.stringify(notice)))
    if (!outflow.admits(message, Buffer.byteLength(event), notify)) return
    this.#reply.write(event)
    if (!outflow.hasRoom) await outflow.room()
  }

  override async close(): Promise<void> {
    if (this.#ended) return
    this.#end()
    this.#reply.close(CLIENT_GONE)
    this.onclose?.()
  }

  #end(): void {
    this.#ended = true
    inProgress.delete(this)
    this.#stopWatching?.()
  }

  get #isLegacy(): boolean {
    return this.#call.classification.era === 'legacy'
  }
}

function statusOf(message: JSONRPCMessage, beforeHandler: boolean): number {
  if (!('error' in message)) return 200
  const { code } = message.error
  // The specification defines the status of this error also if a handler returns it.
  if (code === ProtocolErrorCode.MissingRequiredClientCapability) return 400
  return (beforeHandler ? STATUS_BEFORE_HANDLER.get(code) : undefined) ?? 200
}
