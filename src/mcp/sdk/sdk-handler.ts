import { setMaxListeners } from 'node:events'
import {
  createMcpHandler,
  InMemoryServerEventBus,
  type McpHttpHandler,
  type ServerNotifier,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import { clientKey } from '../../base/http/client-address.ts'
import type { HttpResponse, PlainResponse } from '../../base/http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { ownerOf } from '../../oauth/owner.ts'
import type { McpTasks } from '../mcp-adapter.ts'
import { MODERN_REVISION } from '../methods.ts'
import { MAX_SUBSCRIBED_LENGTH } from '../operations/subscriptions.ts'
import {
  neededScopes,
  permitsScopes,
  type RefusedUri,
  type ScopedOperations,
  withCanonicalUris,
} from '../router/named-operations.ts'
import type { RouterTable } from '../router/router-table.ts'
import { scopesOfUri } from '../router/uris/uri-scopes.ts'
import { declaresTasks, missingTasks } from '../tasks/task-outcome.ts'
import type { TaskRequest, Tasks } from '../tasks/tasks.ts'
import { type ClientConnection, fromResponse, isEventStream, withEnd } from '../wire/event-stream.ts'
import { type Exchange, isAnonymous, type ObservedClient } from '../wire/exchange.ts'
import { jsonRpcError, type ReceivedMessages, requestIdOf, retryLater } from '../wire/json-rpc.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { OwnerSlots } from '../wire/owner-slots.ts'
import { accepts } from '../wire/request-headers.ts'
import { serveBatch } from './batches.ts'
import { FastTransport, fastRequest } from './fast-path.ts'
import { SdkServers, type SdkServersProps } from './sdk-servers.ts'
import {
  isEventStreamRequest,
  isLegacy,
  isListening,
  isTaskRequest,
  type ListenRequest,
  servedRequest,
  watchedTaskIds,
} from './served-request.ts'
import type { SessionsHost } from './sessions/session.ts'
import { McpSessions } from './sessions/sessions.ts'
import { EventOutlet, type StreamFilter } from './streams/event-outlet.ts'
import { canonicalEventBus, EventStreams } from './streams/event-stream.ts'
import { taskEvents } from './streams/task-events.ts'

/**
 * Serves authenticated requests with the official SDK, in one of three ways:
 * - the fast path for a single request of a common method (most requests),
 * - a session for clients of the 2025 revisions, if sessions are enabled,
 * - the handler of the SDK for everything else.
 */
export class SdkHandler {
  /** Set to `false` by tests that compare the fast path with the handler of the SDK. */
  usesFastPath = true
  readonly #table: RouterTable | undefined
  readonly #operations: ScopedOperations | undefined
  /** The slots for event streams and subscriptions, which clients keep open. */
  readonly #slots: OwnerSlots
  readonly #servers: SdkServers
  readonly #handler: McpHttpHandler
  readonly #streams: EventStreams
  readonly #sessions: McpSessions | undefined

  constructor(props: SdkServersProps, onSessionEnd: SessionsHost['onSessionEnd'] = () => undefined) {
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
        // Streams are relayed, and kept open then.
        keepAliveMs: 0,
        bus: canonicalEventBus(eventBus ?? new InMemoryServerEventBus()),
      },
    )
    const { bus } = this.#handler
    this.#streams = new EventStreams(bus)
    if (sessions !== undefined) {
      this.#sessions = new McpSessions(sessions, bus, {
        isForeign: this.#table === undefined,
        makeServer: (session, received) => servers.forSession(session, received),
        authorityOf: (auth) => servers.authorityOf(auth),
        permitsResource: (exchange, uri) => this.#permitsResource(exchange)(uri),
        countedFor: ({ request, exchange }) => countedFor(request, exchange.auth),
        takeStream: ({ request, exchange }) => this.#takeStream(request, exchange),
        onSessionEnd,
      })
    }
  }

  /** Returns the client that has begun the session of a request, if the session is that of the user. */
  sessionClient(request: McpRequest, auth: AuthInfo | undefined): ObservedClient | undefined {
    return this.#sessions?.clientOf(request.header('mcp-session-id'), auth)
  }

  get notify(): ServerNotifier {
    return this.#handler.notify
  }

  /** The tasks of this process. Without tools that run as tasks, there are never any. */
  get tasks(): McpTasks {
    return this.#servers.tasks?.runner ?? NO_TASKS
  }

  /** Serves a request that has been authenticated and has its scopes. */
  handle(request: McpRequest, exchange: Exchange, received: ReceivedMessages): Promise<HttpResponse> {
    return request.method === 'POST'
      ? this.#post(request, exchange, received)
      : this.#bodiless(request, exchange)
  }

  #post(request: McpRequest, exchange: Exchange, received: ReceivedMessages): Promise<HttpResponse> {
    const { body, messages } = received
    if (this.#table?.events.size && messages.some(isEventStreamRequest))
      return this.#streamEvents(request, exchange, messages)
    if (Array.isArray(body)) {
      // The SDK adds a listener for each message.
      setMaxListeners(0, request.request.signal)
      return serveBatch(request, messages, (message, connection) =>
        this.#postMessage(request, exchange, message, connection),
      )
    }
    return this.#postMessage(request, exchange, body)
  }

  /** Serves `events/stream`, which takes a slot as long as its stream is open. */
  async #streamEvents(
    request: McpRequest,
    exchange: Exchange,
    [message, ...others]: readonly unknown[],
  ): Promise<HttpResponse> {
    if (others.length > 0)
      return jsonRpcError(400, -32_600, 'Invalid Request: events/stream must be the only message')
    return await this.#withSlot(request, exchange, async (release) => {
      const leaving = new AbortController()
      exchange.left = leaving.signal
      request.onDisconnect(() => leaving.abort())
      const response = await this.#postMessage(request, exchange, message)
      return isEventStream(response) ? withEnd(response, request, release) : response
    })
  }

  /** Serves a request in a slot for its stream. @param serve must call `release` when the stream has ended, if there is one */
  async #withSlot(
    request: McpRequest,
    exchange: Exchange,
    serve: (release: () => void) => Promise<HttpResponse>,
  ): Promise<HttpResponse> {
    const release = this.#takeStream(request, exchange)
    if (typeof release !== 'function') return release
    try {
      const response = await serve(release)
      if (!isEventStream(response)) release()
      return response
    } catch (error) {
      release()
      throw error
    }
  }

  #postMessage(
    request: McpRequest,
    exchange: Exchange,
    message: unknown,
    client: ClientConnection = request,
  ): Promise<HttpResponse> {
    const checked = withCanonicalUris(message)
    if ('problem' in checked) return Promise.resolve(refusedUri(exchange, checked))
    const { body } = checked
    const table = this.#table
    const fast = table !== undefined && this.usesFastPath ? fastRequest(request, body, table) : undefined
    if (
      this.#sessions !== undefined &&
      (fast === undefined ? isLegacy(request, body) : fast.classification.era === 'legacy')
    ) {
      return this.#serveSession(this.#sessions, request, exchange, body, client)
    }
    const { tasks } = this.#servers
    if (tasks !== undefined && isTaskRequest(body)) return this.#serveTask(tasks, request, exchange, body)
    if (table === undefined || fast === undefined) {
      if (isListening(body)) return this.#listen(request, exchange, body)
      // The heartbeats of `events/stream` keep its stream open.
      const outlet = isEventStreamRequest(body) ? new EventOutlet({ isSilent: true }) : undefined
      return this.#serveWithSdk(request, exchange, body, outlet)
    }
    const server = this.#servers.forFastPath(table, exchange, this.#streams, fast)
    return new FastTransport(fast, client, exchange).serve(server)
  }

  /** Serves `tasks/get`, `tasks/update`, and `tasks/cancel`. They need the scopes of the tool that the task runs. */
  async #serveTask(
    tasks: Tasks,
    request: McpRequest,
    exchange: Exchange,
    message: TaskRequest,
  ): Promise<HttpResponse> {
    const missing = await tasks.authorize(exchange, message)
    const { gate, auth, telemetry } = exchange
    if (missing.length === 0 || gate === undefined || auth === undefined)
      return await this.#serveWithSdk(request, exchange, message)
    const refusal = await gate.limited(gate.insufficientScope(missing, auth.scopes), request)
    telemetry.finished(refusal)
    return gate.responseTo(refusal, request)
  }

  /** Serves requests without a body: GET opens a stream of a 2025 revision, DELETE ends a session. */
  async #bodiless(request: McpRequest, exchange: Exchange): Promise<HttpResponse> {
    const { method } = request
    const revision = request.header('mcp-protocol-version')
    const isModern = revision !== undefined && revision >= MODERN_REVISION
    if (this.#sessions !== undefined && !isModern && (method === 'GET' || method === 'DELETE')) {
      return await this.#serveSession(this.#sessions, request, exchange)
    }
    if (isModern || method !== 'GET') return methodNotAllowed(this.#sessions !== undefined)
    return this.#openStream(request, exchange, revision)
  }

  /** Serves a request with the handler of the SDK. An outlet relays its streams, because they do not wait for the client. */
  async #serveWithSdk(
    request: McpRequest,
    exchange: Exchange,
    message: unknown,
    outlet = new EventOutlet(),
    filter?: StreamFilter,
  ): Promise<HttpResponse> {
    const { auth } = exchange
    exchange.outflow = outlet
    exchange.method = (message as { method?: unknown } | null)?.method
    const served = await this.#handler.fetch(servedRequest(request, exchange), {
      parsedBody: message,
      ...(auth !== undefined && { authInfo: auth }),
    })
    const response = await fromResponse(served)
    return isEventStream(response) ? { ...response, body: outlet.relay(response.body, filter) } : response
  }

  /** Serves `subscriptions/listen`, which takes a slot as long as its stream is open. */
  async #listen(request: McpRequest, exchange: Exchange, body: unknown): Promise<HttpResponse> {
    // The whole request stays in memory while the stream is open.
    if (JSON.stringify(body).length > MAX_SUBSCRIBED_LENGTH)
      return jsonRpcError(
        400,
        -32_602,
        `Invalid params: subscriptions/listen must have at most ${MAX_SUBSCRIBED_LENGTH} characters`,
      )
    const { tasks } = this.#servers
    const message = body as ListenRequest
    const taskIds = tasks && watchedTaskIds(body)
    if (taskIds !== undefined && !declaresTasks(message.params._meta)) return missingTasksResponse(message)
    return await this.#withSlot(request, exchange, async (onEnd) => {
      const outlet = new EventOutlet({ endsWhenFull: true, expiresAt: exchange.auth?.expiresAt, onEnd })
      // The host may leave the stream open.
      request.onDisconnect(() => outlet.end())
      const watched = taskIds && (await tasks?.watchable(exchange, taskIds, message))
      const filter = tasks && watched && taskEvents(outlet, { tasks, exchange, watched, message })
      return await this.#serveWithSdk(request, exchange, message, outlet, filter)
    })
  }

  /** Takes a slot for an event stream. @returns a function that frees the slot, or the refusal if none is free */
  #takeStream(request: McpRequest, { auth }: Exchange): (() => void) | PlainResponse {
    const owner = countedFor(request, auth)
    switch (this.#slots.exhausted(owner)) {
      case 'owner':
        return retryLater(429, 'Too Many Requests: too many event streams of this user are open')
      case 'all':
        return retryLater(503, 'Too many event streams are open')
      default:
        return this.#slots.take(owner)
    }
  }

  async #serveSession(
    sessions: McpSessions,
    request: McpRequest,
    exchange: Exchange,
    body?: unknown,
    client: ClientConnection = request,
  ): Promise<HttpResponse> {
    const operations = this.#operations
    const scopes = operations === undefined ? [] : neededScopes(operations, [body])
    try {
      return await sessions.serve({ request, client, exchange, body, scopes })
    } catch {
      // The handler of the SDK responds in the same way if a server cannot be made. Telemetry has recorded the cause.
      return jsonRpcError(500, -32_603, 'Internal server error')
    }
  }

  /** Returns a function that checks whether the token of a request may read a resource. */
  #permitsResource(exchange: Exchange): (uri: string) => boolean {
    const operations = this.#operations
    // A request without a token neither opens streams nor subscribes.
    if (isAnonymous(exchange)) return () => false
    if (operations === undefined) return () => true
    return (uri) => {
      const scopes = operations.scopes.length === 0 ? [] : scopesOfUri(operations, uri)
      return permitsScopes(exchange, scopes)
    }
  }

  #openStream(request: McpRequest, exchange: Exchange, revision: string | undefined): HttpResponse {
    if (revision !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(revision)) {
      return jsonRpcError(
        400,
        -32_000,
        `Bad Request: Unsupported protocol version (supported: ${SUPPORTED_PROTOCOL_VERSIONS.join(', ')})`,
      )
    }
    if (!accepts(request.header('accept'), 'text/event-stream')) {
      return jsonRpcError(406, -32_000, 'Not Acceptable: Client must accept text/event-stream')
    }
    const onEnd = this.#takeStream(request, exchange)
    if (typeof onEnd !== 'function') return onEnd
    const { auth } = exchange
    return this.#streams.open(request, {
      owner: ownerOf(auth),
      expiresAt: auth?.expiresAt,
      permitsResource: this.#permitsResource(exchange),
      onEnd,
    })
  }
}

const NO_TASKS: McpTasks = Object.freeze({ running: 0, close: async () => undefined })

/** Returns the owner of a body, a stream, or a session: the user or, for a request without a token, the client's address. */
export function countedFor(request: McpRequest, auth: AuthInfo | undefined): string | undefined {
  return auth === undefined ? clientKey(request.clientAddress) : ownerOf(auth)
}

function missingTasksResponse(message: unknown): PlainResponse {
  const { code, message: text, data } = missingTasks()
  const error = { jsonrpc: '2.0', id: requestIdOf(message), error: { code, message: text, data } }
  return { status: 400, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(error) }
}

function refusedUri({ telemetry }: Exchange, { id, problem }: RefusedUri): PlainResponse {
  const code = -32_602
  telemetry.messageSent({ jsonrpc: '2.0', id, error: { code, message: problem } }, false)
  return jsonRpcError(200, code, problem, { id })
}

function methodNotAllowed(hasSessions: boolean): PlainResponse {
  const response = jsonRpcError(405, -32_000, 'Method not allowed.')
  const methods = hasSessions ? 'GET, POST, DELETE, OPTIONS' : 'GET, POST, OPTIONS'
  return { ...response, headers: { ...response.headers, Allow: methods } }
}
