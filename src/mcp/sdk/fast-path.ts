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
import { type ClientConnection, messageEvent } from '../wire/event-stream.ts'
import type { Exchange } from '../wire/exchange.ts'
import { CLIENT_GONE } from '../wire/json-rpc.ts'
import { responseText, withBoundedError } from '../wire/json-safe.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { accepts, SERVED_TYPES } from '../wire/request-headers.ts'
import { unreceivableRequest } from './refused-requests.ts'
import { keepOpen, Reply } from './streams/event-outlet.ts'

/** A request that the fast path can serve. */
export interface FastRequest {
  readonly message: JSONRPCRequest
  readonly classification: MessageClassification
}

/** The classification of a request without an envelope. */
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
  const served = { message: body as JSONRPCRequest, classification }
  if (classification.era === 'legacy') return isServedLegacy(request) ? served : undefined
  // The modern revision has neither of these methods.
  if (isFast === 'legacy') return undefined
  const name = request.header('mcp-name')
  const headersAgree =
    classification.revision === MODERN_REVISION &&
    request.header('mcp-protocol-version') === MODERN_REVISION &&
    request.header('mcp-method') === method &&
    (names === undefined ||
      names === 'reference' ||
      (name === params?.[names === 'resource' ? 'uri' : 'name'] && name?.startsWith('=?') === false))
  return headersAgree ? served : undefined
}

/** Returns `true` if the headers of a request without an envelope are those of a 2025 revision that the SDK serves. */
function isServedLegacy(request: McpRequest): boolean {
  const revision = request.header('mcp-protocol-version')
  return (
    (revision === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(revision)) &&
    SERVED_TYPES.every((type) => accepts(request.header('accept'), type))
  )
}

/** The maximum number of envelopes in the cache. */
const MAX_KNOWN = 1_000
/** The maximum length of an envelope in the cache, in characters of JSON. */
const MAX_LENGTH = 1_024

const known = new LRUCache<string, MessageClassification>({ max: MAX_KNOWN })

/**
 * Returns the SDK's classification of a body that is one well-formed request, by its envelope (`params._meta`). Returns undefined for
 * any other body.
 *
 * A client sends the same envelope with every request, and classifying it costs more than reading the body. Therefore the
 * classifications of envelopes are cached. The caller must compare the headers with the message.
 */
function classifyRequest(body: unknown): MessageClassification | undefined {
  const envelope = hasShapeOfRequest(body) ? envelopeOf(body) : undefined
  if (envelope === 'none') return LEGACY
  const cached = envelope === undefined ? undefined : known.get(envelope)
  if (cached !== undefined) return cached
  const outcome = classifyInboundRequest({ httpMethod: 'POST', body })
  if (outcome.kind === 'modern' && outcome.messageKind === 'request') {
    if (envelope !== undefined && envelope.length <= MAX_LENGTH) known.set(envelope, outcome.classification)
    return outcome.classification
  }
  return outcome.kind === 'legacy' && outcome.reason === 'no-claim' ? LEGACY : undefined
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

const JSON_HEADERS = { 'Content-Type': 'application/json' }

/** The HTTP status of an error that the server returns before it calls a handler, by its code (2026-07-28). */
const STATUS_BEFORE_HANDLER: ReadonlyMap<number, number> = new Map([
  [ProtocolErrorCode.ParseError, 400],
  [ProtocolErrorCode.InvalidRequest, 400],
  [ProtocolErrorCode.MethodNotFound, 404],
  [ProtocolErrorCode.UnsupportedProtocolVersion, 400],
])

/**
 * The requests in progress. The signal of a web-standard `Request` aborts only while the request is reachable. A handler that
 * only waits for its signal does not keep it reachable: both would be garbage, and the signal would never abort.
 */
const inProgress = new Set<object>()

/**
 * A transport for one request. It extends the SDK's transport only because a server reads the revision from it; all methods
 * are replaced.
 */
export class FastTransport extends PerRequestHTTPServerTransport {
  readonly #fast: FastRequest
  readonly #client: ClientConnection
  readonly #exchange: Exchange
  /** The event stream of a 2025 revision, or of a response with notifications before the result. */
  #stream: Reply | undefined
  #respond: (response: HttpResponse | Promise<HttpResponse>) => void = () => undefined
  #stopWatching: (() => void) | undefined
  #ended = false
  /** `true` while the server receives the request. Handlers run later. */
  #isDelivering = false

  constructor(fast: FastRequest, client: ClientConnection, exchange: Exchange) {
    super({ classification: fast.classification })
    this.#fast = fast
    this.#client = client
    this.#exchange = exchange
  }

  /**
   * Serves the request. The response is JSON or, if notifications come before the result, an event stream. In a 2025 revision, it
   * is always an event stream, as that of the SDK.
   */
  async serve(server: Server): Promise<HttpResponse> {
    const { message, classification } = this.#fast
    const { auth } = this.#exchange
    const response = new Promise<HttpResponse>((resolve) => {
      this.#respond = resolve
    })
    if (classification.era === 'legacy') {
      const stream = this.#openStream()
      // It begins after 15 s at the latest.
      this.#stopWatching = keepOpen(() => stream.begin())
    }
    await server.connect(this)
    inProgress.add(this)
    this.#client.onDisconnect(() => void this.close())
    // If the client has disconnected already, nothing would stop the handler.
    if (this.#ended) return await response
    this.#isDelivering = true
    try {
      const extra = auth === undefined ? { classification } : { classification, authInfo: auth }
      this.#exchange.telemetry.delivered(message, () => this.onmessage?.(message, extra))
    } catch (error) {
      await this.close()
      throw error
    }
    this.#isDelivering = false
    return await response
  }

  #openStream(): Reply {
    this.#stream = new Reply({ client: this.#client, onEnd: () => void this.close() })
    this.#respond(this.#stream.response)
    return this.#stream
  }

  override async send(message: JSONRPCMessage, options?: TransportSendOptions): Promise<void> {
    if ('method' in message && 'id' in message) throw unreceivableRequest()
    if (this.#ended) return
    const last = 'result' in message || 'error' in message
    // No other stream could carry a message that does not belong to this request.
    if ((last ? message.id : options?.relatedRequestId) !== this.#fast.message.id) return
    if (!last) return await this.#notify(message as JSONRPCNotification)
    const response = withBoundedError(message)
    this.#exchange.telemetry.messageSent(response, false)
    const status = statusOf(response, this.#isDelivering)
    // The server is not closed, because it would abort the handler. It becomes garbage.
    this.#end()
    const body = responseText(response)
    if (this.#stream === undefined) this.#respond({ status, headers: JSON_HEADERS, body })
    else this.#stream.end(messageEvent(body))
  }

  async #notify(message: JSONRPCNotification): Promise<void> {
    const stream = this.#stream ?? this.#openStream()
    const { outflow } = stream
    this.#exchange.outflow = outflow
    const admitted = outflow.admitted(message)
    if (admitted === undefined) return
    stream.write(messageEvent(JSON.stringify(admitted)))
    if (!outflow.hasRoom) await outflow.room()
  }

  override async close(): Promise<void> {
    if (this.#ended) return
    this.#end()
    if (this.#stream === undefined) this.#respond(CLIENT_GONE)
    else this.#stream.close(CLIENT_GONE)
    this.onclose?.()
  }

  #end(): void {
    this.#ended = true
    inProgress.delete(this)
    this.#stopWatching?.()
  }
}

function statusOf(message: JSONRPCMessage, beforeHandler: boolean): number {
  if (!('error' in message)) return 200
  const { code } = message.error
  // The specification defines the status of this error also if a handler returns it.
  if (code === ProtocolErrorCode.MissingRequiredClientCapability) return 400
  return (beforeHandler ? STATUS_BEFORE_HANDLER.get(code) : undefined) ?? 200
}
