import { performance } from 'node:perf_hooks'
import {
  type JSONRPCMessage,
  type McpServer,
  ProtocolErrorCode,
  type Server,
} from '@modelcontextprotocol/server'
import type { ErrorTexts } from '../../describe-error.ts'
import type { PlainResponse } from '../../http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Decision } from '../../oauth/decision.ts'
import { memberOf } from '../../options/describe-value.ts'
import type { KitTelemetryManager } from '../../telemetry/manager.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import { elapsedMs } from '../../timers.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { watchMessages } from '../sdk/watch-messages.ts'
import type { ClientConnection } from '../wire/client-connection.ts'
import { CLIENT_GONE } from '../wire/json-rpc.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import {
  type Failure,
  NO_TELEMETRY,
  type RequestTelemetry,
  type TimedCall,
} from '../wire/request-telemetry.ts'
import { withBodyEnd } from '../wire/stream-end.ts'
import {
  clientText,
  messageAttributes,
  NO_MESSAGE,
  type ObservedMessage,
  observedMessage,
} from './observed-message.ts'
import { Operation, type RpcError } from './observed-operation.ts'
import { kindOf, rpcErrorIn, rpcErrorOf, statusOf } from './observed-outcome.ts'
import { type Payloads, payloads, payloadTexts } from './observed-payloads.ts'
import { TokenRedactor } from './token-redactor.ts'
import { Tracing } from './tracing.ts'

type AnyManager = KitTelemetryManager<any, any, any>
type AnySession = KitTelemetrySession<any, any, any>
type Attributes = Record<string, unknown>

/** The maximum length of a user's id, in UTF-16 units. */
const MAX_USER_ID = 1024

/** Codes of errors that say that a request cannot be served, not that serving it failed. */
const REFUSAL_CODES: ReadonlySet<number> = new Set([
  ProtocolErrorCode.ParseError,
  ProtocolErrorCode.InvalidRequest,
  ProtocolErrorCode.MethodNotFound,
  ProtocolErrorCode.InvalidParams,
  ProtocolErrorCode.ResourceNotFound,
  ProtocolErrorCode.MissingRequiredClientCapability,
  ProtocolErrorCode.UnsupportedProtocolVersion,
  ProtocolErrorCode.UrlElicitationRequired,
])

/** Methods, other than `tools/call`, that run code of the application. */
const APPLICATION_METHODS: ReadonlySet<string> = new Set([
  'prompts/get',
  'resources/read',
  'completion/complete',
])

/** The first revision without protocol sessions. */
const FIRST_MODERN_REVISION = '2026-07-28'

/** What an adapter tells, and how: events where it has a manager, spans where a provider is registered. */
export class Instrumentation {
  readonly manager: AnyManager | undefined
  readonly tracing: Tracing = new Tracing()
  /** Whether the arguments and results of tools are told, which the manager redacts. */
  readonly tellsPayloads: boolean

  constructor(manager: AnyManager | undefined, tellsPayloads: boolean) {
    this.manager = manager
    this.tellsPayloads = tellsPayloads && manager !== undefined
  }

  /** Resolves when `observe` may be called; undefined where it may be at once. Never rejects. */
  get loading(): Promise<void> | undefined {
    return this.tracing.loading
  }

  /** Returns {@link NO_TELEMETRY} if there is neither a manager nor a provider of spans. */
  observe(incoming: McpRequest): RequestTelemetry {
    return this.manager !== undefined || tryOrUndefined(() => this.tracing.hasProvider)
      ? new InstrumentedRequest(this, incoming)
      : NO_TELEMETRY
  }
}

/**
 * What the gate and the adapter tell telemetry about one request: events in one session, whose actor is
 * the verified user, and a span for each message.
 *
 * Telemetry never changes an answer. Users, arguments, results, and thrown values belong to the application, and reading
 * them may throw. Every method that is called from outside therefore runs inside `attempt`.
 */
export class InstrumentedRequest implements RequestTelemetry {
  readonly session: AnySession | undefined
  readonly #observer: Instrumentation
  readonly #incoming: McpRequest
  readonly #startedAt = performance.now()
  readonly #startedAtMs = Date.now()
  #protocolVersion: string | undefined
  #operations: readonly Operation[] = []
  #tokenEraser: TokenRedactor | undefined
  #isServedHere = false
  #identified = false
  #hasAccepted = false
  #ended = false

  constructor(observer: Instrumentation, incoming: McpRequest) {
    this.#observer = observer
    this.#incoming = incoming
    this.session = tryOrUndefined(() => observer.manager?.session())
  }

  /** The gate's word on everything but an accepted token. Ends the telemetry. */
  decided(decision: Exclude<Decision, { outcome: 'accepted' }>): void {
    if (this.#ended) return
    tryOrUndefined(() => this.#decided(decision))
    this.#close(statusOf(decision), {
      ...(decision.outcome === 'refused' && { 'kit.mcp.auth.refused.reason': decision.reason }),
    })
  }

  #decided(decision: Exclude<Decision, { outcome: 'accepted' }>): void {
    if (decision.outcome === 'failed' && decision.auth !== undefined) this.identify(decision.auth)
    const [operation] = this.#begun() as [Operation]
    switch (decision.outcome) {
      case 'refused': {
        // Of what a verifier threw, only the kind: its text may quote anything, and every bad token would be an error.
        const type = 'cause' in decision ? kindOf(decision.cause) : undefined
        this.#emit(operation, 'auth.refused', 'warn', {
          reason: decision.reason,
          ...this.#known(),
          ...(type !== undefined && { 'error.type': type }),
          ...this.#duration(),
        })
        break
      }
      case 'unavailable':
        this.#emit(operation, 'auth.unavailable', 'error', this.#duration(), { thrown: decision.cause })
        break
      case 'failed':
        this.#emit(operation, 'request.failed', 'error', this.#duration(), { thrown: decision.cause })
        break
    }
  }

  /** Sets whose token it is. */
  identify(auth: AuthInfo): void {
    this.#identified = true
    tryOrUndefined(() => {
      this.#tokenEraser = new TokenRedactor(auth.token)
      const user = auth.user as object
      const id = [memberOf(user, 'id'), memberOf(user, 'sub'), auth.clientId].find((one) => isId(one))
      // A session that is not ours may return a promise, which `attempt` looks after.
      return id === undefined ? undefined : this.session?.actor('user', this.#redact(String(id), MAX_USER_ID))
    })
  }

  /** The token and its scopes suffice. Emits nothing if no token was verified. */
  accepted(): void {
    if (!this.#identified || this.#hasAccepted) return
    this.#hasAccepted = true
    tryOrUndefined(() => {
      const [operation] = this.#begun()
      this.#emit(operation, 'auth.accepted', 'debug', { ...this.#known(), ...this.#duration() })
    })
  }

  /**
   * The messages of the request.
   * @param known the tools that exist, where that can be said.
   */
  received(
    protocolVersion: unknown,
    messages: readonly unknown[],
    known: { has(name: string): boolean } | undefined,
  ): void {
    tryOrUndefined(() => {
      this.#protocolVersion = clientText(protocolVersion, this.#redact)
      const attributes = this.#sharedAttributes()
      this.#operations = messages.map((message) => {
        const observed = observedMessage(message, this.#redact)
        const isKnown = observed.tool !== undefined && (known?.has(observed.tool) ?? false)
        return this.#begin(observed, isKnown, attributes)
      })
    })
  }

  /**
   * Runs `fn` with the session as the ambient one and, where there is one message, its span as the active
   * one, so that what handlers emit belongs to both.
   */
  async run<T>(fn: () => Promise<T>): Promise<T> {
    let running: Promise<T> | undefined
    const start = (): Promise<T> => {
      running ??= fn()
      return running
    }
    const inside = (): Promise<T> => {
      void tryOrUndefined(() => this.session?.run(start))
      return start()
    }
    const [operation] = this.#operations
    return await (operation === undefined || this.#operations.length > 1 ? inside() : operation.run(inside))
  }

  /**
   * Watches what the server of this request answers.
   * @param tellsTools whether the tool events are told from here, as they are for a server that is not ours.
   */
  watch(server: Server | McpServer, tellsTools: boolean): void {
    const isBatch = this.#operations.length > 1
    tryOrUndefined(() =>
      watchMessages(server, {
        delivered: (message, deliver) => {
          const operation = 'id' in message ? this.#operationOf(message.id) : undefined
          if (operation !== undefined) operation.deliveredAt = performance.now()
          if (isBatch && operation !== undefined) operation.run(deliver)
          else deliver()
        },
        sent: (message) => this.answered(message, tellsTools),
      }),
    )
  }

  /**
   * A message of the server goes out to the client.
   * @param tellsTools as for `watch`.
   */
  answered(message: JSONRPCMessage, tellsTools: boolean): void {
    tryOrUndefined(() => this.#answered(message, tellsTools))
  }

  toolCompleted(call: TimedCall, result: unknown): void {
    const durationMs = elapsedMs(call.startedAt)
    tryOrUndefined(() => this.#toolCompleted(observedMessage(call, this.#redact), durationMs, result))
  }

  toolFailed(call: TimedCall, failure: Failure | undefined, reference: string | undefined): void {
    const durationMs = elapsedMs(call.startedAt)
    tryOrUndefined(() =>
      this.#toolFailed(observedMessage(call, this.#redact), durationMs, failure, reference),
    )
  }

  operationFailed(call: TimedCall, error: unknown, reference: string | undefined): void {
    const durationMs = elapsedMs(call.startedAt)
    tryOrUndefined(() => {
      const message = observedMessage(call, this.#redact)
      this.#operationFailed(message, durationMs, { thrown: error }, reference)
    })
  }

  responded(
    response: PlainResponse | Response,
    client: ClientConnection,
  ): PlainResponse | Response | Promise<PlainResponse | Response> {
    const { status } = response
    if (client.disconnected) {
      this.completed(CLIENT_GONE.status)
      return response
    }
    if (status >= 400) return this.#failed(response)
    if (!(response instanceof Response) || response.body === null || !isEventStream(response)) {
      this.completed(status)
      return response
    }
    const onEnd = (): void => this.completed(status)
    // A host that has lost its client may do nothing with the stream.
    client.onDisconnect(onEnd)
    return new Response(withBodyEnd(response.body, onEnd), response)
  }

  async #failed(response: PlainResponse | Response): Promise<PlainResponse | Response> {
    this.completed(response.status, await rpcErrorOf(response))
    return response
  }

  /**
   * The response has been given in full. Ends the telemetry.
   * @param error what the body says, where it is a JSON-RPC error.
   */
  completed(status: number, error?: RpcError): void {
    if (this.#ended) return
    tryOrUndefined(() => {
      for (const operation of this.#begun()) this.#completed(operation, status, error)
    })
    this.#close(status, {})
  }

  #completed(operation: Operation, status: number, error: RpcError | undefined): void {
    if (error !== undefined) operation.error ??= error
    const code = operation.error?.code
    const type = status >= 400 ? status : (code ?? (operation.hasToolError ? 'tool_error' : undefined))
    this.#emit(operation, 'request.completed', 'info', {
      ...operation.attributes,
      'http.response.status_code': status,
      ...(code !== undefined && { 'rpc.response.status_code': String(code) }),
      ...(type !== undefined && { 'error.type': String(type) }),
      ...this.#duration(),
    })
  }

  /** Ends the telemetry of a request that nobody is to be told of. */
  abandon(): void {
    this.#close(0, {})
  }

  get isOpen(): boolean {
    return !this.#ended && !this.#isServedHere
  }

  servedHere(isServed: boolean): void {
    this.#isServedHere = isServed
  }

  now(): number {
    return performance.now()
  }

  #toolCompleted(call: ObservedMessage, durationMs: number, result: unknown): void {
    const attributes = {
      ...this.#attributesOf(call),
      ...this.#payloads(call.args, result),
      duration_ms: durationMs,
    }
    this.#emit(undefined, 'tool.completed', 'info', attributes)
  }

  #toolFailed(call: ObservedMessage, durationMs: number, failure?: Failure, reference?: string): void {
    const attributes = {
      ...this.#attributesOf(call),
      ...this.#payloads(call.args, undefined),
      'error.type': 'tool_error',
      ...(reference !== undefined && { 'kit.error.reference': reference }),
      duration_ms: durationMs,
    }
    this.#emit(undefined, 'tool.failed', 'error', attributes, failure)
  }

  #operationFailed(
    call: ObservedMessage,
    durationMs: number,
    failure: Failure,
    reference?: string | undefined,
  ): void {
    const attributes = {
      ...this.#attributesOf(call),
      ...(reference !== undefined && { 'kit.error.reference': reference }),
      duration_ms: durationMs,
    }
    this.#emit(undefined, 'request.failed', 'error', attributes, failure)
  }

  #close(status: number, attributes: Record<string, string>): void {
    this.#ended = true
    for (const operation of this.#operations)
      operation.end({ status, attributes, more: () => this.#payloadTexts(operation) })
    // The session's end does not reject; it is not waited for.
    void tryOrUndefined(() => this.session?.end())
  }

  /** The operations, at least one: where no message is known, the request as a whole. */
  #begun(): readonly Operation[] {
    if (this.#operations.length > 0) return this.#operations
    // Of a client whose token was not verified nothing is told that it said.
    if (this.#identified)
      this.#protocolVersion = clientText(this.#incoming.header('mcp-protocol-version'), this.#redact)
    this.#operations = [this.#begin(NO_MESSAGE, false, this.#sharedAttributes())]
    return this.#operations
  }

  /** What can be told of the request as a whole: of a batch what its messages have in common. */
  #known(): Record<string, string> {
    const [operation, another] = this.#begun()
    return operation === undefined || another !== undefined ? this.#sharedAttributes() : operation.attributes
  }

  #begin(message: ObservedMessage, isKnown: boolean, attributes: Record<string, string>): Operation {
    const request = {
      incoming: this.#incoming,
      eraser: this.#eraser,
      protocolVersion: this.#protocolVersion,
      attributes,
      startedAt: this.#startedAt,
      startedAtMs: this.#startedAtMs,
    }
    return new Operation(this.#observer.tracing, request, message, isKnown)
  }

  #attributesOf(message: ObservedMessage): Record<string, string> {
    return { ...messageAttributes(message), ...this.#sharedAttributes() }
  }

  /** What the messages of a request have in common. */
  #sharedAttributes(): Record<string, string> {
    const version = this.#protocolVersion
    if (version === undefined) return {}
    const isModern = version >= FIRST_MODERN_REVISION
    const sessionId = isModern ? undefined : clientText(this.#incoming.header('mcp-session-id'), this.#redact)
    return {
      'mcp.protocol.version': version,
      ...(sessionId !== undefined && { 'mcp.session.id': sessionId }),
    }
  }

  #payloads(args: unknown, result: unknown): Payloads {
    return this.#observer.tellsPayloads ? payloads(this.#eraser, args, result) : {}
  }

  #payloadTexts({ message, result }: Operation): Record<string, string> {
    const { manager } = this.#observer
    if (manager === undefined) return {}
    return payloadTexts(this.#payloads(message.args, result), (given) => manager.redact(given))
  }

  #answered(message: JSONRPCMessage, tellsTools: boolean): void {
    if (!('id' in message) || 'method' in message) return
    const operation = this.#operationOf(message.id)
    if (operation === undefined || operation.answeredAfter !== undefined) return
    operation.answeredAfter = performance.now() - this.#startedAt
    const duration = elapsedMs(operation.deliveredAt ?? this.#startedAt)
    const { method } = operation.message
    if ('error' in message) {
      const error = rpcErrorIn(message)
      if (error === undefined) return
      operation.error = error
      if (!tellsTools || REFUSAL_CODES.has(error.code)) return
      const failure = { thrown: error.message }
      if (method === 'tools/call') operation.run(() => this.#toolFailed(operation.message, duration, failure))
      else if (method !== undefined && APPLICATION_METHODS.has(method))
        operation.run(() => this.#operationFailed(operation.message, duration, failure))
      return
    }
    if (method !== 'tools/call') return
    const { result } = message
    operation.hasToolError = result.isError === true
    if (!operation.hasToolError && this.#observer.tellsPayloads) operation.result = result
    if (!tellsTools) return
    operation.run(() => {
      if (operation.hasToolError) this.#toolFailed(operation.message, duration, failureIn(result))
      else this.#toolCompleted(operation.message, duration, result)
    })
  }

  /** The operation of a message by its id; of several with one id, the first that has not been answered. */
  #operationOf(id: unknown): Operation | undefined {
    if (this.#operations.length === 1) return this.#operations[0]
    const text = clientText(String(id), this.#redact)
    const same = this.#operations.filter(({ message }) => message.id === text)
    return same.find(({ answeredAfter }) => answeredAfter === undefined) ?? same[0]
  }

  /** Made of the token when it was verified, else of whatever came in its place. */
  get #eraser(): TokenRedactor {
    this.#tokenEraser ??= new TokenRedactor(tryOrUndefined(() => this.#incoming.authorization))
    return this.#tokenEraser
  }

  readonly #redact = (text: string, max: number): string => this.#eraser.cut(text, max)

  #duration(): { duration_ms: number } {
    return { duration_ms: elapsedMs(this.#startedAt) }
  }

  /**
   * @param operation in whose span it is emitted; undefined for the active one.
   * @param failure what was thrown, if anything.
   */
  #emit(
    operation: Operation | undefined,
    event: string,
    level: 'debug' | 'info' | 'warn' | 'error',
    attributes: Attributes,
    failure?: Failure,
  ): void {
    const emit = (): void => {
      tryOrUndefined(() => {
        const input = { level, attributes, ...(failure !== undefined && { error: this.#textsOf(failure) }) }
        if (!this.#ended) return this.session?.emit(`kit.mcp.${event}`, input)
        // A tool goes on to its end when its client has hung up.
        const { sessionId, actor } = this.session?.getState() ?? {}
        return this.#observer.manager?.emit(`kit.mcp.${event}`, { ...input, sessionId, actor })
      })
    }
    if (operation === undefined) emit()
    else operation.run(emit)
  }

  /** An object without a message is shown as the manager redacts it. */
  #textsOf({ thrown }: Failure): ErrorTexts {
    return this.#eraser.thrown(thrown, (object) =>
      tryOrUndefined(() => JSON.stringify(this.#observer.manager?.redact({ thrown: object }).thrown)),
    )
  }
}

function isId(value: unknown): value is string | number | bigint {
  return (typeof value === 'string' && value !== '') || typeof value === 'number' || typeof value === 'bigint'
}

/** The text with which a server of the SDK reports what a tool threw. */
function failureIn(result: object): Failure | undefined {
  const { content } = result as { content?: unknown }
  const text = Array.isArray(content) ? (content[0] as { text?: unknown } | undefined)?.text : undefined
  return typeof text === 'string' ? { thrown: text } : undefined
}

function isEventStream(response: Response): boolean {
  return response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
}
