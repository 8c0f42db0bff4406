import { isJsonContentType } from '@modelcontextprotocol/server'
import type { Answer } from '../oauth/answer.ts'
import { preflightHeaders } from '../oauth/cors.ts'
import { Gate, type GateRequest } from '../oauth/gate.ts'
import { HasRequest, RequestContext } from '../oauth/inputs.ts'
import { optionChecksOf } from '../oauth/option-checks.ts'
import type { ResolvedOAuthOptions, VerifyContext } from '../oauth/options.ts'
import { FAILED_ANSWER } from '../oauth/refusal-answers.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'
import { withBodyEnd } from './body-end.ts'
import type { Exchange } from './exchange.ts'
import type { McpIncoming } from './incoming.ts'
import { Observer } from './observation/observe.ts'
import { type OriginPolicyOptions, permitsOrigin } from './origin-policy.ts'
import { neededScopes, type ScopedOperations } from './router/operation-scopes.ts'
import type { AppContextFactory, RouterTable } from './router/router-table.ts'
import { CLIENT_GONE, jsonRpcError, parseMessages } from './rpc.ts'
import { SdkDispatch } from './sdk/dispatch.ts'
import type { SdkServersProps } from './sdk/servers.ts'

const { invalidOption } = optionChecksOf('createMcpAdapter')

export interface McpServiceProps extends SdkServersProps {
  readonly oauth: ResolvedOAuthOptions | undefined
  readonly telemetry: KitTelemetryManager<any, any, any> | undefined
}

/** What came of the gate: an exchange that may go on, or the answer that ends the request. */
export type Admission = { readonly exchange: Exchange } | { readonly answer: Answer }

/**
 * The MCP server behind both faces: it guards a request, reads its message, judges scopes and has the
 * official SDK serve it. It answers every request.
 */
export class McpService {
  readonly gate: Gate | undefined
  readonly dispatch: SdkDispatch
  readonly #props: McpServiceProps
  readonly #table: RouterTable | undefined
  readonly #operations: ScopedOperations | undefined
  readonly #originPolicy: OriginPolicyOptions
  readonly #observer: Observer

  constructor(props: McpServiceProps) {
    this.#props = props
    this.#table = typeof props.router === 'function' ? undefined : props.router
    const { scopes } = props.options
    if (this.#table !== undefined && scopes !== undefined) {
      throw invalidOption(
        'scopes',
        'are for a router that is a function, got a KitMcpRouter (it names the scopes of each operation itself)',
      )
    }
    if (this.#table === undefined && props.options.listOnlyPermitted) {
      throw invalidOption(
        'listOnlyPermitted',
        'is for a KitMcpRouter, got a router that is a function (it lists itself what the token may use)',
      )
    }
    this.#operations = this.#table ?? scopes
    if (props.oauth !== undefined) {
      this.gate = new Gate(props.oauth, this.#operations?.scopes ?? [], (request) =>
        this.#makeContext(request),
      )
    }
    this.#originPolicy = { ...props.options, hasOAuth: this.gate !== undefined }
    this.#observer = new Observer(props.telemetry, props.options.recordPayloads)
    this.dispatch = new SdkDispatch(props)
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

  /** The answer to OPTIONS. @param allowsAnyOrigin false where others say which origins may read it. */
  preflight(incoming: McpIncoming, allowsAnyOrigin = true): Answer {
    return (
      this.guard(incoming) ?? {
        status: 204,
        headers: preflightHeaders(incoming.header('access-control-request-headers'), allowsAnyOrigin),
      }
    )
  }

  /** Verifies the token of a request, or makes the context where OAuth is off. Scopes are judged later. */
  async admit(request: McpIncoming): Promise<Admission> {
    if (this.#observer.loading !== undefined) await this.#observer.loading
    const observation = this.#observer.observe(request)
    if (this.gate === undefined) {
      try {
        const make = async () => this.#makeContext(request)
        const context = await (observation === undefined ? make() : observation.run(make))
        return { exchange: { gate: undefined, auth: undefined, context, observation } }
      } catch (cause) {
        observation?.decided({ outcome: 'failed', cause })
        return { answer: FAILED_ANSWER }
      }
    }
    const { gate } = this
    const authenticate = () => gate.authenticate(request)
    const decision = await (observation === undefined ? authenticate() : observation.run(authenticate))
    if (decision.outcome !== 'accepted') {
      observation?.decided(decision)
      return { answer: gate.answer(decision, request) }
    }
    observation?.identify(decision.auth)
    return { exchange: { gate, auth: decision.auth, context: decision.context, observation } }
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
    try {
      return await (incoming.method === 'POST'
        ? this.#servePost(incoming, exchange)
        : this.#serveBodiless(incoming, exchange))
    } catch (cause) {
      exchange.observation?.decided({ outcome: 'failed', cause })
      return jsonRpcError(500, -32_603, 'Internal server error')
    }
  }

  async #serveBodiless(incoming: McpIncoming, exchange: Exchange): Promise<Response | Answer> {
    const { observation } = exchange
    const refused = this.judge(exchange, incoming, [])
    if (refused !== undefined) return await refused
    observation?.accepted()
    const run = () => this.dispatch.bodiless(incoming, exchange)
    return this.#observed(
      incoming,
      exchange,
      await (observation === undefined ? run() : observation.run(run)),
    )
  }

  async #servePost(incoming: McpIncoming, exchange: Exchange): Promise<Response | Answer> {
    const { observation } = exchange
    const { maxBodyBytes: maxBytes, bodyTimeoutMs: timeoutMs } = this.#props.options
    const revision = incoming.header('mcp-protocol-version')
    const parsed = isJsonContentType(incoming.header('content-type') ?? null)
      ? parseMessages(await incoming.readBody({ maxBytes, timeoutMs }), revision, incoming)
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
    const serve = () => this.dispatch.post(incoming, exchange, parsed.body, parsed.messages)
    return this.#observed(
      incoming,
      exchange,
      await (observation === undefined ? serve() : observation.run(serve)),
    )
  }

  #observed(
    incoming: McpIncoming,
    { observation }: Exchange,
    response: Response | Answer,
  ): Response | Answer | Promise<Response | Answer> {
    if (observation === undefined) return response
    if (incoming.disconnected) {
      observation.completed(CLIENT_GONE.status)
      return response
    }
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

  #makeContext(request: GateRequest): VerifyContext | Promise<VerifyContext> {
    const make = this.#table?.makeContext
    return make === undefined ? new RequestContext(request, {}) : makeContext(make, request)
  }
}

async function makeContext(make: AppContextFactory<unknown>, request: GateRequest): Promise<VerifyContext> {
  return new RequestContext(request, await make(new HasRequest(request)))
}

/** The revision that an `initialize` asks for, which then has no header yet. */
function initializeVersion(message: unknown): unknown {
  const { method, params } = (message ?? {}) as { method?: unknown; params?: { protocolVersion?: unknown } }
  return method === 'initialize' ? params?.protocolVersion : '2025-03-26'
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
}
