import {
  type CacheHint,
  classifyInboundRequest,
  createMcpHandler,
  isJsonContentType,
  type McpHttpHandler,
  type McpServer,
  type Server,
  type ServerNotifier,
  type ServerOptions,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import type { Answer } from '../oauth/answer.ts'
import type { AuthInfo } from '../oauth/auth-info.ts'
import { preflightHeaders } from '../oauth/cors.ts'
import { Gate, type GateRequest } from '../oauth/gate.ts'
import { HasRequest, RequestContext } from '../oauth/inputs.ts'
import { invalidOption } from '../oauth/option-checks.ts'
import type { ResolvedOAuthOptions, VerifyContext } from '../oauth/options.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'
import { attempt } from './attempt.ts'
import { withBodyEnd } from './body-end.ts'
import { serveLegacy, serveModern } from './direct-transport.ts'
import { EventStreams, type Subscriptions } from './event-stream.ts'
import type { Exchange } from './exchange.ts'
import type { McpIncoming } from './incoming.ts'
import { Observer } from './observe.ts'
import type { Serving } from './operation.ts'
import { neededScopes, type ScopedOperations } from './operation-scopes.ts'
import type { ResolvedAdapterOptions, ServerInfo } from './options.ts'
import { type OriginPolicyOptions, permitsOrigin } from './origin-policy.ts'
import { plainRequest } from './plain-request.ts'
import { ownerOf, RequestStates } from './request-state.ts'
import { routerServer, sessionRouterServer, simpleRouterServer } from './router-server.ts'
import type { RouterTable } from './router-table.ts'
import { jsonRpcError, parseMessages } from './rpc.ts'
import { guardAnswers } from './server-watch.ts'
import { McpSessions } from './sessions.ts'

/** What a router function gets, once per request. */
export interface ServerFactoryContext {
  readonly context: unknown
  readonly request: Request
  readonly auth?: AuthInfo<any>
}

/** Makes a server of the official SDK for one request. */
export type ServerFactory = (
  context: ServerFactoryContext,
) => McpServer | Server | Promise<McpServer | Server>

export interface McpServiceProps {
  readonly router: RouterTable | ServerFactory
  readonly oauth: ResolvedOAuthOptions | undefined
  readonly serverInfo: ServerInfo
  readonly instructions: string | undefined
  readonly telemetry: KitTelemetryManager<any, any, any> | undefined
  readonly options: ResolvedAdapterOptions
}

/** What came of the gate: an exchange that may go on, or the answer that ends the request. */
export type Admission = { readonly exchange: Exchange } | { readonly answer: Answer }

/** Where the SDK's server factory finds the exchange of the request it is called for. */
const EXCHANGE: unique symbol = Symbol('exchange')
/** And what that request asks for. */
const MESSAGES: unique symbol = Symbol('messages')

/** Where a signal keeps the request that it is of. */
const REQUEST: unique symbol = Symbol('request')

interface ServedRequest extends Request {
  [EXCHANGE]?: Exchange
  [MESSAGES]?: readonly unknown[]
}

const FIRST_MODERN_REVISION = '2026-07-28'

/** What a server has to support to serve the modern revision without the SDK's handler around it. */
const MODERN_REVISIONS = [FIRST_MODERN_REVISION, ...SUPPORTED_PROTOCOL_VERSIONS]

/** The answer when a hook of the application threw, as the gate gives it where OAuth is on. */
export const SERVER_ERROR: Answer = {
  status: 500,
  headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
  body: '{"error":"server_error"}',
}

/**
 * The MCP server behind both faces: it guards a request, reads its message, judges scopes and has the
 * official SDK serve it. It answers every request.
 */
export class McpService {
  readonly gate: Gate | undefined
  /** Whether plain requests take the short way. Tests turn it off to see that both ways answer alike. */
  servesDirectly = true
  readonly #props: McpServiceProps
  readonly #table: RouterTable | undefined
  readonly #operations: ScopedOperations | undefined
  readonly #sdk: McpHttpHandler
  readonly #serverOptions: ServerOptions
  readonly #modernOptions: ServerOptions
  readonly #states: RequestStates
  readonly #streams: EventStreams
  readonly #sessions: McpSessions | undefined
  readonly #originPolicy: OriginPolicyOptions
  readonly #observer: Observer | undefined

  constructor(props: McpServiceProps) {
    this.#props = props
    this.#table = typeof props.router === 'function' ? undefined : props.router
    const { scopes, eventBus, requestStateSecret } = props.options
    if (this.#table !== undefined && scopes !== undefined) {
      throw invalidOption(
        'scopes',
        'are for a router that is a function: a KitMcpRouter names them with each operation',
      )
    }
    this.#operations = this.#table ?? scopes
    if (props.oauth !== undefined) {
      this.gate = new Gate(props.oauth, this.#operations?.scopes ?? [], (request) =>
        this.#makeContext(request),
      )
    }
    this.#serverOptions = serverOptions(props, this.#table)
    this.#modernOptions = { ...this.#serverOptions, supportedProtocolVersions: MODERN_REVISIONS }
    this.#states = new RequestStates(requestStateSecret)
    this.#originPolicy = { ...props.options, hasOAuth: this.gate !== undefined }
    if (props.telemetry !== undefined) {
      this.#observer = new Observer(props.telemetry, props.options.recordPayloads)
    }
    this.#sdk = createMcpHandler(({ requestInfo }) => this.#makeServer(requestInfo as ServedRequest), {
      maxRequestBodySize: props.options.maxBodyBytes,
      ...(eventBus !== undefined && { bus: eventBus }),
    })
    this.#streams = new EventStreams(this.#sdk.bus)
    const { sessions } = props.options
    if (sessions !== undefined) {
      this.#sessions = new McpSessions(sessions, this.#sdk.bus, {
        makeServer: (subscriptions, request) => this.#makeSessionServer(subscriptions, request),
      })
    }
  }

  get notify(): ServerNotifier {
    return this.#sdk.notify
  }

  get trustsProxy(): boolean {
    return this.#props.oauth?.trustProxy ?? false
  }

  /**
   * Whether `Origin` and `Host` may be served; the answer when not.
   * Comes before everything else, so that nothing of a refused request is looked at.
   */
  guard(incoming: McpIncoming): Answer | undefined {
    const permitted = permitsOrigin(incoming, this.#originPolicy)
    return permitted
      ? undefined
      : jsonRpcError(403, -32_000, 'Forbidden: this Origin or Host may not call', { id: undefined })
  }

  /** The answer to OPTIONS. */
  preflight(incoming: McpIncoming): Answer {
    return (
      this.guard(incoming) ?? {
        status: 204,
        headers: preflightHeaders(incoming.header('access-control-request-headers')),
      }
    )
  }

  /** Verifies the token of a request, or makes the context where OAuth is off. Scopes are judged later. */
  async admit(request: McpIncoming): Promise<Admission> {
    const observation = this.#observer === undefined ? undefined : await this.#observer.observe(request)
    if (this.gate === undefined) {
      try {
        const context = await this.#makeContext(request)
        return { exchange: { gate: undefined, auth: undefined, context, observation } }
      } catch (cause) {
        observation?.decided({ outcome: 'failed', cause })
        return { answer: SERVER_ERROR }
      }
    }
    const decision = await this.gate.authenticate(request)
    if (decision.outcome !== 'accepted') {
      observation?.decided(decision)
      return { answer: this.gate.answer(decision, request) }
    }
    observation?.identify(decision.auth)
    return { exchange: { gate: this.gate, auth: decision.auth, context: decision.context, observation } }
  }

  /** The answer when the token lacks a scope; undefined when it may pass. */
  judge(exchange: Exchange, request: GateRequest, operation: readonly string[]): Promise<Answer> | undefined {
    const { gate, auth } = exchange
    if (gate === undefined || auth === undefined || gate.permits(auth.scopes, operation)) return undefined
    return this.#refuse(gate, exchange, request, operation)
  }

  async #refuse(
    gate: Gate,
    { observation }: Exchange,
    request: GateRequest,
    operation: readonly string[],
  ): Promise<Answer> {
    const refusal = await gate.limited(gate.insufficientScope(operation), request)
    observation?.decided(refusal)
    return gate.answer(refusal, request)
  }

  /** Scopes that the operations of these messages need beside the endpoint's. */
  operationScopes(messages: readonly unknown[]): readonly string[] {
    return this.#operations === undefined ? [] : neededScopes(this.#operations, messages)
  }

  /** Serves a request that the gate has let in. Judges all its scopes, after its message is known. */
  async serve(incoming: McpIncoming, exchange: Exchange): Promise<Response | Answer> {
    const { observation } = exchange
    const { method } = incoming
    if (method === 'POST') return await this.#servePost(incoming, exchange)
    const refused = this.judge(exchange, incoming, [])
    if (refused !== undefined) return await refused
    observation?.accepted()
    const run = () => this.#serveBodiless(incoming, exchange)
    return this.#observed(
      incoming,
      exchange,
      await (observation === undefined ? run() : observation.run(run)),
    )
  }

  async #serveBodiless(incoming: McpIncoming, exchange: Exchange): Promise<Response | Answer> {
    const { method } = incoming
    const revision = incoming.header('mcp-protocol-version')
    const isModern = revision !== undefined && revision >= FIRST_MODERN_REVISION
    if (this.#sessions !== undefined && !isModern && (method === 'GET' || method === 'DELETE')) {
      return await this.#serveSession(this.#sessions, incoming, exchange, undefined)
    }
    if (isModern || method !== 'GET') return methodNotAllowed(this.#sessions !== undefined)
    return this.#openStream(incoming, exchange, revision)
  }

  async #servePost(incoming: McpIncoming, exchange: Exchange): Promise<Response | Answer> {
    const { observation } = exchange
    const { maxBodyBytes: maxBytes, bodyTimeoutMs: timeoutMs } = this.#props.options
    const revision = incoming.header('mcp-protocol-version')
    const parsed = isJsonContentType(incoming.header('content-type') ?? null)
      ? parseMessages(await incoming.readBody({ maxBytes, timeoutMs }), revision)
      : {
          answer: jsonRpcError(415, -32_000, 'Unsupported Media Type: Content-Type must be application/json'),
        }
    if ('answer' in parsed) {
      observation?.accepted()
      return this.#observed(incoming, exchange, parsed.answer)
    }
    observation?.received(
      revision ?? initializeVersion(parsed.messages[0]),
      parsed.messages,
      this.#table?.tools,
    )
    const operation = this.operationScopes(parsed.messages)
    if (exchange.gate === undefined && operation.length > 0 && exchange.auth === undefined) {
      return this.#observed(
        incoming,
        exchange,
        jsonRpcError(403, -32_000, 'Forbidden: this operation needs scopes, and OAuth is off'),
      )
    }
    const refused = this.judge(exchange, incoming, operation)
    if (refused !== undefined) return await refused
    observation?.accepted()
    const serve = () => this.#answerTo(incoming, exchange, parsed.body, parsed.messages)
    return this.#observed(
      incoming,
      exchange,
      await (observation === undefined ? serve() : observation.run(serve)),
    )
  }

  /** The short way for plain requests, which most are; the SDK's handler for everything else. Both answer alike. */
  #answerTo(
    incoming: McpIncoming,
    exchange: Exchange,
    body: unknown,
    messages: readonly unknown[],
  ): Promise<Response | Answer> {
    const { auth } = exchange
    const table = this.#table
    if (this.#sessions !== undefined && isLegacy(incoming, body)) {
      return this.#serveSession(this.#sessions, incoming, exchange, body)
    }
    const plain =
      table === undefined || !this.servesDirectly ? undefined : plainRequest(incoming, body, table)
    if (table === undefined || plain === undefined) {
      const request: ServedRequest = sdkRequest(incoming, listensUntil(messages, exchange))
      request[EXCHANGE] = exchange
      request[MESSAGES] = messages
      // A signal hears of the client only as long as its request is there, and the SDK keeps the signal alone.
      Object.defineProperty(request.signal, REQUEST, { value: request, configurable: true })
      return this.#sdk.fetch(request, { parsedBody: body, ...(auth !== undefined && { authInfo: auth }) })
    }
    const { message } = plain
    const serverOf = (options: ServerOptions) => {
      const serving = this.#serving(table, exchange)
      const server = simpleRouterServer(serving, this.#props.serverInfo, options, [message.method])
      exchange.observation?.watch(server, false)
      return server
    }
    const call = { message, auth, incoming }
    return plain.era === 'modern'
      ? serveModern(serverOf(this.#modernOptions), call, plain.classification)
      : serveLegacy(serverOf(this.#serverOptions), call)
  }

  async #serveSession(
    sessions: McpSessions,
    incoming: McpIncoming,
    exchange: Exchange,
    body: unknown,
  ): Promise<Response | Answer> {
    const request: ServedRequest = sdkRequest(incoming, undefined)
    request[EXCHANGE] = exchange
    const { auth, observation } = exchange
    const tellsTools = this.#table === undefined
    try {
      return await sessions.serve({
        request,
        body,
        auth,
        onDisconnect: (listener) => incoming.onDisconnect(listener),
        onAnswer: observation && ((answer) => observation.answered(answer, tellsTools)),
      })
    } catch {
      // As the SDK's handler answers when a server cannot be made; telemetry has been told why.
      return jsonRpcError(500, -32_603, 'Internal server error')
    }
  }

  #openStream(incoming: McpIncoming, { auth }: Exchange, revision: string | undefined): Response | Answer {
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
    return this.#streams.open({ owner: ownerOf(auth), expiresAt: auth?.expiresAt, client: incoming })
  }

  #observed(
    incoming: McpIncoming,
    { observation }: Exchange,
    response: Response | Answer,
  ): Response | Answer | Promise<Response | Answer> {
    if (observation === undefined) return response
    if (response.status >= 400) return observation.failed(response)
    if (!(response instanceof Response) || response.body === null || !isEventStream(response)) {
      observation.completed(response.status)
      return response
    }
    const onEnd = (): void => observation.completed(response.status)
    // A host that has lost its client may do nothing with the stream.
    incoming.onDisconnect(onEnd)
    return new Response(withBodyEnd(response.body, onEnd), response)
  }

  async #makeContext(request: GateRequest): Promise<VerifyContext> {
    const make = this.#table?.makeContext
    return new RequestContext(request, make === undefined ? {} : await make(new HasRequest(request)))
  }

  #makeServer(request: ServedRequest): Server | McpServer | Promise<Server | McpServer> {
    const exchange = request[EXCHANGE] as Exchange
    const { router, serverInfo } = this.#props
    if (typeof router === 'function') return this.#makeWatched(router, exchange, request)
    const methods = methodsOf(request[MESSAGES] ?? [])
    const server = routerServer(this.#serving(router, exchange), serverInfo, this.#serverOptions, methods)
    exchange.observation?.watch(server, false)
    guardAnswers(server)
    return server
  }

  /** A server that outlives the request it is made for; what each request may know is found through that request. */
  async #makeSessionServer(subscriptions: Subscriptions, request: ServedRequest) {
    const { router, serverInfo } = this.#props
    const first = request[EXCHANGE] as Exchange
    if (typeof router === 'function') {
      const own = await this.#callFactory(router, first, request)
      attempt(() => guardAnswers(own))
      return own
    }
    const server: Server = sessionRouterServer(
      router,
      (sdk) => {
        const exchange = (sdk.http?.req as ServedRequest | undefined)?.[EXCHANGE]
        // Never another request's: that one may have had another token.
        if (exchange === undefined)
          throw new TypeError('a request of a session has come without its exchange')
        const sessionCapabilities = server.getClientCapabilities()
        return { ...this.#serving(router, exchange), subscriptions, sessionCapabilities }
      },
      serverInfo,
      this.#serverOptions,
    )
    guardAnswers(server)
    return server
  }

  #serving(table: RouterTable, exchange: Exchange): Serving {
    const { listOnlyPermitted, cache } = this.#props.options
    return { table, exchange, states: this.#states, subscriptions: this.#streams, listOnlyPermitted, cache }
  }

  async #makeWatched(router: ServerFactory, exchange: Exchange, request: Request) {
    const server = await this.#callFactory(router, exchange, request)
    exchange.observation?.watch(server, true)
    // Last, so that what is watched is what is sent.
    attempt(() => guardAnswers(server))
    return server
  }

  async #callFactory(
    router: ServerFactory,
    exchange: Exchange,
    request: Request,
  ): Promise<Server | McpServer> {
    const { context, auth, observation } = exchange
    try {
      return await router({ context: context.context, request, ...(auth !== undefined && { auth }) })
    } catch (cause) {
      observation?.decided({ outcome: 'failed', cause })
      throw cause
    }
  }
}

function methodsOf(messages: readonly unknown[]): Set<unknown> {
  return new Set(messages.map((message) => (message as { method?: unknown } | null)?.method))
}

/** What every server of a router is told, made once. */
function serverOptions(
  { instructions, options }: McpServiceProps,
  table: RouterTable | undefined,
): ServerOptions {
  const { cache, listOnlyPermitted } = options
  const ownLists: CacheHint = listOnlyPermitted ? { ...cache, cacheScope: 'private' } : cache
  const listing = table?.templates.some(({ list }) => list !== undefined) === true
  return {
    ...(table !== undefined && { capabilities: table.capabilities }),
    ...(instructions !== undefined && { instructions }),
    ...(Object.keys(cache).length > 0 && {
      cacheHints: {
        'server/discover': cache,
        'tools/list': ownLists,
        'prompts/list': ownLists,
        'resources/templates/list': ownLists,
        // What templates list may be made for the user.
        'resources/list': listing ? { ...ownLists, cacheScope: 'private' } : ownLists,
      },
    }),
  }
}

/** The revision that an `initialize` asks for, which then has no header yet. */
function initializeVersion(message: unknown): unknown {
  const { method, params } = (message ?? {}) as { method?: unknown; params?: { protocolVersion?: unknown } }
  return method === 'initialize' ? params?.protocolVersion : '2025-03-26'
}

/** Seconds since 1970 at which a stream ends with its token; undefined for requests that are not streams. */
function listensUntil(messages: readonly unknown[], { auth }: Exchange): number | undefined {
  const [first] = messages as [{ method?: unknown } | null]
  return first?.method === 'subscriptions/listen' ? auth?.expiresAt : undefined
}

/** The SDK wants both media types spelled out; a client that accepts anything accepts them too. */
function sdkRequest({ request }: McpIncoming, endsAt: number | undefined): Request {
  const accept = request.headers.get('accept')
  const spelledOut = accept !== null && !accept.includes('*/*')
  if (spelledOut && endsAt === undefined) return request
  const headers = new Headers(request.headers)
  if (!spelledOut) headers.set('accept', 'application/json, text/event-stream')
  const signal = endsAt === undefined ? request.signal : AbortSignal.any([request.signal, timeoutAt(endsAt)])
  return new Request(request.url, { method: request.method, headers, signal })
}

const LONGEST_TIMER_MS = 2_147_483_647

function timeoutAt(seconds: number): AbortSignal {
  return AbortSignal.timeout(Math.min(Math.max(0, Math.ceil(seconds * 1000 - Date.now())), LONGEST_TIMER_MS))
}

function methodNotAllowed(hasSessions: boolean): Answer {
  const answer = jsonRpcError(405, -32_000, 'Method not allowed.')
  const methods = hasSessions ? 'GET, POST, DELETE, OPTIONS' : 'GET, POST, OPTIONS'
  return { ...answer, headers: { ...answer.headers, Allow: methods } }
}

/** Whether a POST is of a 2025 revision, as the SDK sees it. */
function isLegacy(incoming: McpIncoming, body: unknown): boolean {
  const protocolVersionHeader = incoming.header('mcp-protocol-version')
  const { kind } = classifyInboundRequest({
    httpMethod: 'POST',
    ...(protocolVersionHeader !== undefined && { protocolVersionHeader }),
    body,
  })
  return kind === 'legacy'
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
}
