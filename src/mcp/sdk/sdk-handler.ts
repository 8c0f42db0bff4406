import {
  classifyInboundRequest,
  createMcpHandler,
  InMemoryServerEventBus,
  type McpHttpHandler,
  type ServerNotifier,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import { clientKey } from '../../http/client-address.ts'
import type { PlainResponse } from '../../http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { ownerOf } from '../operations/request-state.ts'
import { MAX_SUBSCRIBED_LENGTH } from '../operations/subscriptions.ts'
import { neededScopes, type ScopedOperations } from '../router/operation-scopes.ts'
import type { RouterTable } from '../router/router-table.ts'
import { namesRefusedUri, withCanonicalSubscriptions, withoutUri } from '../router/uris/message-uris.ts'
import type { Exchange } from '../wire/exchange.ts'
import { jsonRpcError } from '../wire/json-rpc.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { fastRequest } from './fast-path/fast-request.ts'
import { serveLegacy, serveModern } from './fast-path/fast-transport.ts'
import { SdkServers, type SdkServersProps } from './sdk-servers.ts'
import { servedRequest } from './served-request.ts'
import { retryLater } from './sessions/session.ts'
import { McpSessions } from './sessions/sessions.ts'
import { canonicalEventBus } from './streams/canonical-event-bus.ts'
import { EventOutlet } from './streams/event-outlet.ts'
import { EventStreams } from './streams/event-stream.ts'
import { OwnerSlots } from './streams/owner-slots.ts'

const FIRST_MODERN_REVISION = '2026-07-28'

/**
 * Has the official SDK answer what was let in, by one of three ways: its server alone for plain requests, which most are;
 * a session, where they are wanted; and its handler for everything else. Plain requests are answered alike by all.
 */
export class SdkHandler {
  /** Whether plain requests take the short way. Tests turn it off to see that both ways answer alike. */
  usesFastPath = true
  readonly #table: RouterTable | undefined
  readonly #operations: ScopedOperations | undefined
  /** Event streams and subscriptions, which clients keep open. */
  readonly #slots: OwnerSlots
  readonly #servers: SdkServers
  readonly #handler: McpHttpHandler
  readonly #streams: EventStreams
  readonly #sessions: McpSessions | undefined

  constructor(props: SdkServersProps) {
    const { eventBus, maxBodyBytes, sessions, streams } = props.options
    const servers = new SdkServers(props)
    this.#servers = servers
    this.#table = typeof props.router === 'function' ? undefined : props.router
    this.#operations = this.#table ?? props.options.scopes
    this.#slots = new OwnerSlots(streams)
    this.#handler = createMcpHandler(
      ({ requestInfo, era }) => servers.forRequest(requestInfo as Request, this.#streams, era),
      {
        maxRequestBodySize: maxBodyBytes,
        maxSubscriptions: streams.max,
        bus: canonicalEventBus(eventBus ?? new InMemoryServerEventBus()),
      },
    )
    const { bus } = this.#handler
    this.#streams = new EventStreams(bus)
    if (sessions !== undefined) {
      this.#sessions = new McpSessions(sessions, bus, {
        makeServer: (subscriptions, request) => servers.forSession(request, subscriptions),
        authorityOf: (auth) => servers.authorityOf(auth),
      })
    }
  }

  get notify(): ServerNotifier {
    return this.#handler.notify
  }

  /** Serves a request that has been authenticated and has its scopes. */
  handle(
    incoming: McpRequest,
    exchange: Exchange,
    { body, messages }: { readonly body: unknown; readonly messages: readonly unknown[] },
  ): Promise<Response | PlainResponse> {
    return incoming.method === 'POST'
      ? this.#post(incoming, exchange, body, messages)
      : this.#bodiless(incoming, exchange)
  }

  /** Answers the messages of a POST. @param given the message, or the batch */
  #post(
    incoming: McpRequest,
    exchange: Exchange,
    given: unknown,
    messages: readonly unknown[],
  ): Promise<Response | PlainResponse> {
    const checked = withCanonicalUris(given)
    if ('problem' in checked) return Promise.resolve(refusedUri(exchange, checked))
    const { body } = checked
    if (this.#sessions !== undefined && isLegacy(incoming, body)) {
      return this.#session(this.#sessions, incoming, exchange, body, messages)
    }
    const table = this.#table
    const plain = table === undefined || !this.usesFastPath ? undefined : fastRequest(incoming, body, table)
    if (table === undefined || plain === undefined) {
      return isListening(messages)
        ? this.#listen(incoming, exchange, body, messages)
        : this.#handled(incoming, exchange, body, messages)
    }
    const server = this.#servers.forPlain(table, exchange, this.#streams, plain)
    const call = { message: plain.message, exchange, incoming }
    return plain.era === 'modern'
      ? serveModern(server, call, plain.classification)
      : serveLegacy(server, call)
  }

  /** Answers everything that has no body: GET opens a stream of 2025 revisions, DELETE ends a session. */
  async #bodiless(incoming: McpRequest, exchange: Exchange): Promise<Response | PlainResponse> {
    const { method } = incoming
    const revision = incoming.header('mcp-protocol-version')
    const isModern = revision !== undefined && revision >= FIRST_MODERN_REVISION
    if (this.#sessions !== undefined && !isModern && (method === 'GET' || method === 'DELETE')) {
      return await this.#session(this.#sessions, incoming, exchange, undefined, [])
    }
    if (isModern || method !== 'GET') return methodNotAllowed(this.#sessions !== undefined)
    return this.#openStream(incoming, exchange, revision)
  }

  /** Has the SDK's handler answer. Its streams know nothing of their client's pace, and are relayed. */
  async #handled(
    incoming: McpRequest,
    exchange: Exchange,
    body: unknown,
    messages: readonly unknown[],
    outlet?: EventOutlet,
  ): Promise<Response> {
    const { auth } = exchange
    const request = servedRequest(incoming, exchange, messages)
    const relaying = outlet ?? new EventOutlet()
    exchange.outflow = relaying
    const response = await this.#handler.fetch(request, {
      parsedBody: body,
      ...(auth !== undefined && { authInfo: auth }),
    })
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    return response.body === null || !isStream
      ? response
      : new Response(relaying.relay(response.body), response)
  }

  /** Answers `subscriptions/listen`, which takes a slot as long as it is open. */
  async #listen(
    incoming: McpRequest,
    exchange: Exchange,
    body: unknown,
    messages: readonly unknown[],
  ): Promise<Response | PlainResponse> {
    // As long as the stream is open, all of the request is kept.
    if (JSON.stringify(body).length > MAX_SUBSCRIBED_LENGTH)
      return jsonRpcError(
        400,
        -32_602,
        `Invalid params: subscriptions/listen must have at most ${MAX_SUBSCRIBED_LENGTH} characters`,
      )
    const release = this.#takeStream(incoming, exchange)
    if (typeof release !== 'function') return release
    incoming.onDisconnect(release)
    const outlet = new EventOutlet({ endsWhenFull: true, onEnd: release })
    try {
      const response = await this.#handled(incoming, exchange, body, messages, outlet)
      if (response.body === null || !response.headers.get('content-type')?.startsWith('text/event-stream'))
        release()
      return response
    } catch (error) {
      release()
      throw error
    }
  }

  /** Takes a slot for an event stream, or refuses it. */
  #takeStream(incoming: McpRequest, { auth }: Exchange): (() => void) | PlainResponse {
    const owner = countedFor(incoming, auth)
    switch (this.#slots.exhausted(owner)) {
      case 'owner':
        return retryLater(429, 'Too Many Requests: too many event streams of this user are open')
      case 'all':
        return retryLater(503, 'Too many event streams are open')
      default:
        return this.#slots.take(owner)
    }
  }

  async #session(
    sessions: McpSessions,
    incoming: McpRequest,
    exchange: Exchange,
    body: unknown,
    messages: readonly unknown[],
  ): Promise<Response | PlainResponse> {
    const { auth, telemetry } = exchange
    const tellsTools = this.#table === undefined
    try {
      return await sessions.serve({
        request: servedRequest(incoming, exchange),
        body,
        auth,
        scopes: this.#operations === undefined ? [] : neededScopes(this.#operations, messages),
        judge: (scopes) => lacking(incoming, exchange, scopes),
        permitsResource: this.#resourceJudge(exchange),
        countedFor: countedFor(incoming, auth),
        takeStream: () => this.#takeStream(incoming, exchange),
        onDisconnect: (listener) => incoming.onDisconnect(listener),
        onAnswer: (answer) => telemetry.answered(answer, tellsTools),
        onStream: (outlet) => {
          exchange.outflow = outlet
        },
      })
    } catch {
      // As the SDK's handler answers when a server cannot be made; telemetry has been told why.
      return jsonRpcError(500, -32_603, 'Internal server error')
    }
  }

  /** Says which resources the token of a request may read. */
  #resourceJudge({ gate, auth }: Exchange): (uri: string) => boolean {
    const operations = this.#operations
    if (operations === undefined) return () => true
    return (uri) => {
      const scopes = neededScopes(operations, [{ method: 'resources/read', params: { uri } }])
      return gate === undefined || auth === undefined
        ? scopes.length === 0
        : gate.permits(auth.scopes, scopes)
    }
  }

  #openStream(
    incoming: McpRequest,
    exchange: Exchange,
    revision: string | undefined,
  ): Response | PlainResponse {
    if (revision !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(revision)) {
      return jsonRpcError(
        400,
        -32_000,
        `Bad Request: Unsupported protocol version (supported: ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')})`,
      )
    }
    if (!/\btext\/event-stream\b|\*\/\*/i.test(incoming.header('accept') ?? '*/*')) {
      return jsonRpcError(406, -32_000, 'Not Acceptable: Client must accept text/event-stream')
    }
    const onEnd = this.#takeStream(incoming, exchange)
    if (typeof onEnd !== 'function') return onEnd
    const { auth } = exchange
    return this.#streams.open({
      owner: ownerOf(auth),
      expiresAt: auth?.expiresAt,
      client: incoming,
      permitsResource: this.#resourceJudge(exchange),
      onEnd,
    })
  }
}

/** Who is counted: the user, or without OAuth the client's address, if it is known. */
function countedFor(incoming: McpRequest, auth: AuthInfo | undefined): string | undefined {
  return auth === undefined ? clientKey(incoming.clientAddress) : ownerOf(auth)
}

/** The answer to a token that lacks scopes; undefined if it has them. */
function lacking(
  incoming: McpRequest,
  { gate, auth }: Exchange,
  scopes: readonly string[],
): PlainResponse | undefined {
  if (gate === undefined || auth === undefined || gate.permits(auth.scopes, scopes)) return undefined
  return gate.answer(gate.insufficientScope(scopes), incoming)
}

function isListening([message]: readonly unknown[]): boolean {
  return (message as { method?: unknown } | null | undefined)?.method === 'subscriptions/listen'
}

interface RefusedUri {
  readonly id: string | number
  readonly problem: string
}

/** The body with the URIs that the SDK may see, or why the one request in it is refused. */
function withCanonicalUris(body: unknown): { readonly body: unknown } | RefusedUri {
  if (Array.isArray(body))
    return { body: body.map((message) => (namesRefusedUri(message) ? withoutUri(message) : message)) }
  const listening = withCanonicalSubscriptions(body)
  if ('message' in listening && !namesRefusedUri(body)) return { body: listening.message }
  const problem = 'problem' in listening ? listening.problem : 'The resource URI is not valid'
  const { id } = body as { id?: unknown }
  // Without an id it is not a request, and the SDK has the answer to that.
  return typeof id === 'string' || typeof id === 'number' ? { id, problem } : { body: withoutUri(body) }
}

function refusedUri({ telemetry }: Exchange, { id, problem }: RefusedUri): PlainResponse {
  const code = -32_602
  telemetry.answered({ jsonrpc: '2.0', id, error: { code, message: problem } }, false)
  return jsonRpcError(200, code, problem, { id })
}

function methodNotAllowed(hasSessions: boolean): PlainResponse {
  const answer = jsonRpcError(405, -32_000, 'Method not allowed.')
  const methods = hasSessions ? 'GET, POST, DELETE, OPTIONS' : 'GET, POST, OPTIONS'
  return { ...answer, headers: { ...answer.headers, Allow: methods } }
}

/** Whether a POST is of a 2025 revision, as the SDK sees it. */
function isLegacy(incoming: McpRequest, body: unknown): boolean {
  const protocolVersionHeader = incoming.header('mcp-protocol-version')
  const { kind } = classifyInboundRequest({
    httpMethod: 'POST',
    ...(protocolVersionHeader !== undefined && { protocolVersionHeader }),
    body,
  })
  return kind === 'legacy'
}
