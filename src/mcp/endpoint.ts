import { preflightHeaders } from '../base/http/cors-headers.ts'
import type { HttpResponse, PlainResponse } from '../base/http/plain-response.ts'
import type { SafeFetchSettings } from '../base/http/safe-fetch.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { Gate, type GateRequest } from '../oauth/gate.ts'
import type { VerifyContext } from '../oauth/gate-values.ts'
import { LazyRequest, RequestContext } from '../oauth/inputs.ts'
import type { ResolvedOAuthOptions } from '../oauth/options.ts'
import { unionOfScopes } from '../oauth/scope.ts'
import { type AuthenticationResult, Authenticator } from './authenticator.ts'
import { Discovery } from './discovery.ts'
import { type Events, makeEvents } from './events/events.ts'
import { Instrumentation } from './instrumentation/instrumentation.ts'
import { authorizeCalls } from './operations/authorize-calls.ts'
import { tableWithLimits } from './operations/limits/limited-tool.ts'
import { Policy } from './operations/policy.ts'
import { permitsScopes } from './router/named-operations.ts'
import { type RouterTable, tableWithSecuritySchemes } from './router/router-table.ts'
import { tableWithInputs } from './router/schemas/closed-inputs.ts'
import { countedFor, SdkHandler } from './sdk/sdk-handler.ts'
import { type SdkServersProps, SERVED_REVISIONS } from './sdk/sdk-servers.ts'
import type { TelemetryOption } from './telemetry-option.ts'
import { isEventStream, withEnd } from './wire/event-stream.ts'
import type { Exchange, RequestTelemetry } from './wire/exchange.ts'
import { jsonRpcError, type ReceivedMessages, refusedValue, retryLater } from './wire/json-rpc.ts'
import type { McpRequest } from './wire/mcp-request.ts'
import {
  corsHeadersFor,
  FORBIDDEN_SENDER,
  forbiddenHeader,
  type OriginPolicyOptions,
} from './wire/origin-policy.ts'

const checks = optionChecksOf('createMcpAdapter')
const { invalidOption } = checks
const oauthChecks = optionChecksOf('oauth')

export interface McpEndpointProps extends SdkServersProps {
  readonly oauth: ResolvedOAuthOptions | undefined
  readonly telemetry: TelemetryOption | undefined
  /** The access to the network of webhooks. Tests replace it. */
  readonly network?: SafeFetchSettings | undefined
}

/**
 * The MCP endpoint behind `mcpHandler` and the web-standard handler, which only convert requests and responses. `respond` is the
 * sequence of a request.
 */
export class McpEndpoint {
  readonly gate: Gate | undefined
  readonly authenticator: Authenticator
  readonly sdkHandler: SdkHandler
  /** Undefined if no event type is declared. */
  readonly events: Events | undefined
  /** The server card and the catalog. */
  readonly discovery: Discovery
  readonly #props: McpEndpointProps
  readonly #table: RouterTable | undefined
  readonly #originPolicy: OriginPolicyOptions
  readonly #instrumentation: Instrumentation

  constructor(given: McpEndpointProps) {
    const props = withTable(given)
    this.#props = props
    this.#table = typeof props.router === 'function' ? undefined : props.router
    const { scopes, maxBodyBytes: maxBytes, bodyTimeoutMs: timeoutMs } = props.options
    const operations = this.#table ?? scopes
    const makeContext = (request: GateRequest) => this.#makeContext(request)
    this.gate = props.oauth && new Gate(props.oauth, operations?.scopes ?? [], makeContext)
    const instrumentation = new Instrumentation(props.telemetry, props.options)
    this.#instrumentation = instrumentation
    this.discovery = new Discovery(props.serverInfo, SERVED_REVISIONS, props.oauth)
    this.authenticator = new Authenticator({
      gate: this.gate,
      makeContext,
      operations,
      instrumentation,
      bodyLimits: { maxBytes, timeoutMs },
    })
    this.#originPolicy = { ...props.options, hasOAuth: this.gate !== undefined }
    const { policy, events, authorizeTimeoutMs } = props.options
    this.events =
      this.#table &&
      makeEvents(
        {
          table: this.#table,
          options: events,
          gate: this.gate,
          policy,
          authorizeTimeoutMs,
          record: (event, attributes) => instrumentation.emit(event, attributes),
          network: props.network,
        },
        checks,
      )
    this.sdkHandler = new SdkHandler(
      { ...props, events: this.events },
      ({ durationMs, revision, observedClient }) =>
        instrumentation.sessionEnded('tcp', durationMs, revision, observedClient),
    )
  }

  get trustsProxy(): boolean {
    return this.#props.oauth?.trustProxy ?? false
  }

  /** Returns the response to any request to the MCP endpoint. */
  async respond(request: McpRequest): Promise<HttpResponse> {
    // 1. CORS: every response carries the headers, refusals too, so that browsers can read them.
    this.setCorsHeaders(request)
    const earlier = request.authenticatedBy(this.gate)

    // 2. Origin and Host. Nothing else of a forbidden request is read.
    const forbidden = this.forbidden(request, earlier?.telemetry)
    if (forbidden !== undefined) return forbidden
    if (request.method === 'OPTIONS')
      return { status: 204, headers: preflightHeaders(request.header('access-control-request-headers'), {}) }

    // 3. Authentication, unless `mcpAuth` has done it. A request without a token may be admitted for its messages.
    let exchange: Exchange | { readonly response: PlainResponse }
    let admitted: ReceivedMessages | undefined
    if (earlier === undefined && this.authenticator.mayAdmit(request)) {
      const admission = await this.authenticator.admit(request)
      if ('response' in admission) return admission.response
      exchange = admission.exchange
      admitted = admission.received
    } else {
      exchange =
        this.gate === undefined || earlier === undefined
          ? await this.#authenticate(request, earlier)
          : earlier
    }
    if ('response' in exchange) return exchange.response
    const { telemetry } = exchange
    telemetry.servedHere(true)
    try {
      return telemetry.responded(await this.#serve(request, exchange, admitted), request)
    } catch (cause) {
      telemetry.finished({ outcome: 'failed', cause })
      return jsonRpcError(500, -32_603, 'Internal server error')
    }
  }

  /** Continues with an authenticated request. @param admitted the messages of a request that is served without a token */
  async #serve(
    request: McpRequest,
    exchange: Exchange,
    admitted: ReceivedMessages | undefined,
  ): Promise<HttpResponse> {
    const { telemetry, auth } = exchange
    // 4. The messages in the body.
    const parsed =
      admitted ??
      (request.method === 'POST'
        ? await this.authenticator.bodies.receive(request, () => countedFor(request, auth) ?? '')
        : { body: undefined, messages: [] })
    if (parsed === undefined) return retryLater(429, 'Too many large requests of this user are being served')
    if ('response' in parsed) return parsed.response
    let { release } = parsed
    try {
      const tooLong = refusedValue(request, parsed)
      if (tooLong !== undefined) return tooLong
      const { messages } = parsed
      if (messages.length > 0)
        telemetry.received(revisionOf(request, messages), messages, this.#table?.tools, () =>
          this.sdkHandler.sessionClient(request, auth),
        )

      // 5. The scopes of the endpoint and of the operations that the messages name, and the policy.
      const scopes = admitted === undefined ? this.authenticator.operationScopes(messages) : []
      if (!permitsScopes(exchange, scopes))
        return await this.authenticator.refuseScopes(exchange, request, scopes, parsed)
      const { policy } = this.#props.options
      // A router function is not combined with a policy.
      const table = this.#table as RouterTable
      const missing = policy && (await telemetry.run(() => authorizeCalls(policy, table, exchange, messages)))
      if (missing !== undefined && missing.length > 0)
        return await this.authenticator.refuseScopes(
          exchange,
          request,
          unionOfScopes(scopes, missing),
          parsed,
        )
      telemetry.accepted(admitted !== undefined)

      // 6. The official SDK serves the messages.
      const response = await telemetry.run(() => this.sdkHandler.handle(request, exchange, parsed))
      if (release === undefined || !isEventStream(response)) return response
      const streamed = withEnd(response, request, release)
      release = undefined
      return streamed
    } finally {
      release?.()
    }
  }

  /**
   * Returns the response to a request whose `Origin` or `Host` is not allowed. Returns undefined for any other request.
   * @param begun the telemetry of the request, if it has begun
   */
  forbidden(request: McpRequest, begun?: RequestTelemetry): PlainResponse | undefined {
    const reason = forbiddenHeader(request, this.#originPolicy)
    if (reason === undefined) return undefined
    void this.#instrumentation.forbidden(request, reason, begun)
    return FORBIDDEN_SENDER
  }

  /** Sets the CORS headers of the response to a request. */
  setCorsHeaders(request: McpRequest): void {
    const restricts = typeof this.#originPolicy.allowedOrigins === 'object'
    request.setCorsHeaders(corsHeadersFor(request, this.#originPolicy), restricts)
  }

  /** @param foreign the exchange that `mcpAuth(oauthOptions)` has authenticated, for an adapter without OAuth */
  async #authenticate(request: McpRequest, foreign: Exchange | undefined): Promise<AuthenticationResult> {
    const exchange = await this.authenticator.authenticate(request)
    if ('response' in exchange) return exchange
    if (foreign === undefined) {
      if (exchange.auth !== undefined) request.authenticatedAs(exchange.auth)
      return exchange
    }
    const { gate, auth } = foreign
    // Only one of the two records the request.
    if (exchange.telemetry.isOpen) foreign.telemetry.finished()
    if (auth !== undefined) exchange.telemetry.identify(auth)
    return { ...exchange, gate, auth }
  }

  async #makeContext(request: GateRequest): Promise<VerifyContext> {
    const make = this.#table?.makeContext
    return new RequestContext(request, make === undefined ? {} : await make(new LazyRequest(request)))
  }
}

/**
 * Returns the properties with a router whose tools have their limits and, if the options ask for them, reject unknown arguments
 * and are listed with their security schemes.
 * @throws {KitMcpConfigError} if an option does not fit the router.
 */
function withTable({ router, oauth, options, ...others }: McpEndpointProps): McpEndpointProps {
  if (typeof router !== 'function') {
    const checked = tableWithInputs(router, options.unknownArguments, checks)
    const listed =
      oauth !== undefined && (oauth.securitySchemes ?? oauth.anonymous)
        ? tableWithSecuritySchemes(checked, oauth.scopes, oauth.anonymous)
        : checked
    const limited = tableWithLimits(listed, options.limits)
    options.toolsets?.checkTools(limited.tools, checks)
    if (options.scopes !== undefined)
      throw invalidOption(
        'scopes',
        'can be used only with a router function; received a KitMcpRouter, which names the scopes of each operation itself',
      )
    return { ...others, oauth, options: { ...options, policy: policyOf(options, limited) }, router: limited }
  }
  if (oauth?.securitySchemes)
    throw oauthChecks.unusableOption(
      'securitySchemes',
      'must not be set together with a router function',
      'Set _meta.securitySchemes of each tool in the server that the router function returns.',
    )
  const { authorize, confirmations, events, limits, listOnlyPermitted, tasks, toolsets, unknownArguments } =
    options
  for (const [option, isSet, task] of [
    ['limits', limits !== undefined, 'limit its own calls'],
    ['listOnlyPermitted', listOnlyPermitted, 'filter its own lists'],
    ['toolsets', toolsets !== undefined, 'filter its own lists'],
    ['authorize', authorize !== undefined, 'check each call itself'],
    ['tasks', tasks !== undefined, 'serve tasks itself'],
    ['events', events !== undefined, 'serve events itself'],
    ['confirmations', confirmations !== undefined, 'ask users itself'],
    ['unknownArguments', unknownArguments === 'reject', 'reject unknown arguments itself'],
  ] as const)
    if (isSet)
      throw invalidOption(option, `can be used only with a KitMcpRouter; a router function must ${task}`)
  return { ...others, router, oauth, options }
}

/** Returns the policy of the adapter and of those tools that have their own. Returns undefined if there is none. */
function policyOf(
  { authorize, authorizeTimeoutMs }: McpEndpointProps['options'],
  { tools }: RouterTable,
): Policy | undefined {
  const hasPolicy =
    authorize !== undefined || [...tools.values()].some((tool) => tool.authorize !== undefined)
  return hasPolicy ? new Policy(authorize, authorizeTimeoutMs, tools) : undefined
}

/** Returns the revision in the header or, for `initialize`, which has no header yet, the one that it asks for. */
function revisionOf(request: McpRequest, [message]: readonly unknown[]): unknown {
  const revision = request.header('mcp-protocol-version')
  if (revision !== undefined) return revision
  const { method, params } = (message ?? {}) as { method?: unknown; params?: { protocolVersion?: unknown } }
  return method === 'initialize' ? params?.protocolVersion : '2025-03-26'
}
