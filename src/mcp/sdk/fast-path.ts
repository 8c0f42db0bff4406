/**
 * The fast path serves a single JSON-RPC request of a common method with a server of the SDK, but without the SDK's HTTP handler
 * around it. For such a request the handler only builds a web-standard `Request` and `Response`, classifies the body a second
 * time, and opens a stream; the fast path does the same work on plain values. It takes 306 µs of CPU time per `tools/call`
 * instead of 824 µs (docs/reference/benchmarks.md, b). `fastRequest` decides which requests qualify. The tests in
 * test/mcp/sdk/fast-path compare both ways response by response.
 *
 * Delete this file when the SDK can serve a single request without web-standard objects. Then `SdkHandler` calls the SDK for
 * every request, and `usesFastPath` is not needed any more.
 */
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  classifyInboundRequest,
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  LOG_LEVEL_META_KEY,
  type MessageClassification,
  type MessageExtraInfo,
  PerRequestHTTPServerTransport,
  PROTOCOL_VERSION_META_KEY,
  ProtocolErrorCode,
  type Server,
  SUPPORTED_PROTOCOL_VERSIONS,
  type TransportSendOptions,
} from '@modelcontextprotocol/server'
import { LRUCache } from 'lru-cache'
import type { HttpResponse } from '../../base/http/plain-response.ts'
import { MODERN_REVISION, methodNamed } from '../methods.ts'
import type { RouterTable } from '../router/router-table.ts'
import { messageEvent } from '../wire/event-stream.ts'
import type { Exchange } from '../wire/exchange.ts'
import { CLIENT_GONE } from '../wire/json-rpc.ts'
import { responseText } from '../wire/json-safe.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { accepts, SERVED_TYPES } from '../wire/request-headers.ts'
import { unreceivableRequest } from './refused-requests.ts'
import { keepOpen, Reply } from './streams/event-outlet.ts'

/** A request that the fast path can serve. */
export interface FastRequest {
  readonly message: JSONRPCRequest
  readonly classification: MessageClassification
}

const LEGACY: MessageClassification = { era: 'legacy' }

/**
 * Returns `body` as a request for the fast path, if it is one: a single well-formed JSON-RPC request of a known method, whose
 * headers agree with it and do not repeat arguments. Returns undefined for every other body, which the handler of the SDK
 * serves.
 */
export function fastRequest(request: McpRequest, body: unknown, table: RouterTable): FastRequest | undefined {
  const { method, params } = (body ?? {}) as { method?: unknown; params?: Record<string, unknown> | null }
  const { isFast, names } = methodNamed(method) ?? {}
  if (isFast === undefined) return undefined
  if (names === 'tool' && table.tools.get(params?.name as string)?.declaresHeaders === true) return undefined
  const classification = classifyRequest(body)
  if (classification === undefined) return undefined
  const message = body as JSONRPCRequest
  if (classification === 'legacy')
    return isServedLegacy(request) ? { message, classification: LEGACY } : undefined
  // The modern revision has neither of these methods.
  if (isFast === 'legacy') return undefined
  const name = request.header('mcp-name')
  const headersAgree =
    classification.revision === MODERN_REVISION &&
    request.header('mcp-protocol-version') === MODERN_REVISION &&
    request.header('mcp-method') === method &&
    (names === undefined ||
      names === 'reference' ||
      (name === params?.[names === 'resource' ? 'uri' : 'name'] && isUnencoded(name)))
  return headersAgree ? { message, classification } : undefined
}

/** Returns `true` if the headers of a request without an envelope are those of a 2025 revision that the SDK serves. */
function isServedLegacy(request: McpRequest): boolean {
  const revision = request.header('mcp-protocol-version')
  return (
    (revision === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(revision)) &&
    SERVED_TYPES.every((type) => accepts(request.header('accept'), type))
  )
}

/** Returns `true` if a header value is not encoded as `=?base64?…?=`. */
function isUnencoded(value: string | undefined): boolean {
  return value !== undefined && !value.startsWith('=?')
}

/** The SDK's classification of the envelope (`params._meta`) of a modern request, or `legacy` for a request without one. */
export type Classification = MessageClassification | 'legacy'

/** The maximum number of envelopes in the cache. */
const MAX_KNOWN = 1_000
/** The maximum length of an envelope in the cache, in characters of JSON. */
const MAX_LENGTH = 1_024

const known = new LRUCache<string, MessageClassification>({ max: MAX_KNOWN })

/**
 * Returns the SDK's classification of a body that is one well-formed request. Returns undefined for any other body.
 *
 * A client sends the same envelope with every request, and classifying it costs more than reading the body. Therefore the
 * classifications of envelopes are cached. The caller must compare the headers with the message.
 */
export function classifyRequest(body: unknown): Classification | undefined {
  const envelope = hasShapeOfRequest(body) ? envelopeOf(body) : undefined
  if (envelope === 'none') return 'legacy'
  const cached = envelope === undefined ? undefined : known.get(envelope)
  if (cached !== undefined) return cached
  const outcome = classifyInboundRequest({ httpMethod: 'POST', body })
  if (outcome.kind === 'modern' && outcome.messageKind === 'request') {
    if (envelope !== undefined && envelope.length <= MAX_LENGTH) known.set(envelope, outcome.classification)
    return outcome.classification
  }
  return outcome.kind === 'legacy' && outcome.reason === 'no-claim' ? 'legacy' : undefined
}

const REQUEST_MEMBERS: ReadonlySet<string> = new Set(['jsonrpc', 'id', 'method', 'params'])

/** Returns `true` if a body is a JSON-RPC request with any envelope. May return `false` for an unusual request. */
function hasShapeOfRequest(body: unknown): body is JSONRPCRequest {
  if (!isPlain(body)) return false
  for (const member of Object.keys(body)) if (!REQUEST_MEMBERS.has(member)) return false
  const { jsonrpc, id, method, params } = body
  return (
    jsonrpc === '2.0' &&
    (typeof id === 'string' || Number.isSafeInteger(id)) &&
    typeof method === 'string' &&
    (params === undefined || isPlain(params))
  )
}

const ENVELOPE_MEMBERS: ReadonlySet<string> = new Set([
  PROTOCOL_VERSION_META_KEY,
  CLIENT_INFO_META_KEY,
  CLIENT_CAPABILITIES_META_KEY,
  LOG_LEVEL_META_KEY,
])

/** Returns the envelope as JSON, or undefined if it has members that may differ between the requests of a client. */
function envelopeOf({ params }: JSONRPCRequest): string | 'none' | undefined {
  const meta: unknown = params?._meta
  if (meta === undefined) return 'none'
  if (!isPlain(meta)) return undefined
  for (const member of Object.keys(meta)) if (!ENVELOPE_MEMBERS.has(member)) return undefined
  return JSON.stringify(meta)
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
}

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
