import { performance } from 'node:perf_hooks'
import type { JSONRPCMessage, McpServer, Server } from '@modelcontextprotocol/server'
import type { ErrorTexts } from '../../describe-error.ts'
import type { PlainResponse } from '../../http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Decision } from '../../oauth/decision.ts'
import { memberOf } from '../../options/describe-value.ts'
import type { KitTelemetryManager } from '../../telemetry/manager.ts'
import type { RequestAttributes } from '../../telemetry/session/request-attributes.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import { elapsedMs } from '../../timers.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { MODERN_REVISION } from '../revisions.ts'
import { watchMessages } from '../sdk/watch-messages.ts'
import type { ClientConnection } from '../wire/client-connection.ts'
import { isEventStream, withBodyEnd } from '../wire/event-stream.ts'
import { CANCELED, CLIENT_GONE } from '../wire/json-rpc.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import {
  type Failure,
  NO_TASK_TELEMETRY,
  type ObservedTask,
  type ReachedLimit,
  type RequestTelemetry,
  type TaskEnd,
  type TaskTelemetry,
  type TimedCall,
} from '../wire/request-telemetry.ts'
import {
  clientText,
  messageAttributes,
  NO_MESSAGE,
  type ObservedMessage,
  observedMessage,
  unreadMessage,
} from './observed-message.ts'
import { httpStatus, Operation, type RpcError } from './observed-operation.ts'
import {
  failureIn,
  invalidCause,
  kindOf,
  refusalAttributes,
  rpcErrorIn,
  rpcErrorOf,
  statusOf,
} from './observed-outcome.ts'
import { type Payloads, payloads, payloadTexts } from './observed-payloads.ts'
import { runWithin } from './run-within.ts'
import { TokenRedactor } from './token-redactor.ts'
import type { Tracing } from './tracing.ts'

export type AnyManager = KitTelemetryManager<any, any, any>
type AnySession = KitTelemetrySession<any, any, any>
type Attributes = Record<string, unknown>

/** The maximum length of a user's id, in UTF-16 units. */
const MAX_USER_ID = 1024

/** The codes of errors with which a request is refused, or ends canceled. Other codes mean that serving it has failed. */
const REFUSAL_CODES: ReadonlySet<number> = new Set([
  -32_700, // parse error
  -32_600, // invalid request
  -32_601, // method not found
  -32_602, // invalid params
  -32_002, // resource not found
  -32_021, // missing client capability
  -32_022, // unsupported protocol version
  -32_042, // URL elicitation required
  CANCELED.code,
])

/** Methods, other than `tools/call`, that run code of the application. */
const APPLICATION_METHODS: ReadonlySet<string> = new Set([
  'prompts/get',
  'resources/read',
  'completion/complete',
])

/** The telemetry that the requests of an adapter share. */
export interface SharedInstrumentation {
  readonly manager: AnyManager | undefined
  readonly tracing: Tracing
  /** `true` if the arguments and results of tools are recorded. The manager redacts them. */
  readonly recordsPayloads: boolean
  /** `true` if the addresses of clients are recorded on spans. */
  readonly recordsClientAddress: boolean
}

/**
 * The telemetry of one request: events in one session, whose actor is the verified user, and a span for each message.
 *
 * Telemetry never changes a response. Users, arguments, results, and thrown values belong to the application, and reading
 * them may throw. Therefore every method that is called from outside runs inside `tryOrUndefined`.
 */
export class InstrumentedRequest implements RequestTelemetry {
  readonly session: AnySession | undefined
  /** The attributes that the application adds to the last event. */
  readonly #added: RequestAttributes | undefined
  readonly #instrumentation: SharedInstrumentation
  readonly #request: McpRequest
  readonly #startedAt = performance.now()
  readonly #startedAtMs = Date.now()
  #protocolVersion: string | undefined
  #operations: readonly Operation[] = []
  #redactor: TokenRedactor | undefined
  #isServedHere = false
  #identified = false
  #auth: AuthInfo | undefined
  #hasAccepted = false
  #ended = false

  constructor(instrumentation: SharedInstrumentation, request: McpRequest) {
    this.#instrumentation = instrumentation
    this.#request = request
    this.session = tryOrUndefined(() => instrumentation.manager?.session())
    // A session of another version of this package does not have the method.
    this.#added = tryOrUndefined(() => this.session?.beginRequest())
  }

  decided(decision: Exclude<Decision, { outcome: 'accepted' }>): void {
    if (this.#ended) return
    tryOrUndefined(() => this.#decided(decision))
    if (decision.outcome === 'refused')
      tryOrUndefined(() => this.#instrumentation.tracing.countRefusal(decision.reason))
    this.#close(statusOf(decision), {
      ...(decision.outcome === 'refused' && {
        'kit.mcp.auth.refused.reason': decision.reason,
        ...invalidCause(decision),
      }),
    })
  }

  #decided(decision: Exclude<Decision, { outcome: 'accepted' }>): void {
    if (decision.outcome === 'failed' && decision.auth !== undefined) this.identify(decision.auth)
    const [operation] = this.#begun(unreadMessage(this.#request.header('mcp-method'))) as [Operation]
    switch (decision.outcome) {
      case 'refused': {
        // Only the kind of a thrown value is recorded: its message may quote anything.
        const type = 'cause' in decision ? kindOf(decision.cause) : undefined
        this.#emit(operation, 'auth.refused', 'warn', {
          ...this.#added?.values,
          reason: decision.reason,
          ...refusalAttributes(decision),
          ...this.#known(),
          ...(type !== undefined && { 'error.type': type }),
          ...this.#duration(),
        })
        break
      }
      case 'unavailable':
        this.#emit(operation, 'auth.unavailable', 'error', this.#lastAttributes(), { thrown: decision.cause })
        break
      case 'failed':
        this.#emit(operation, 'request.failed', 'error', this.#lastAttributes(), { thrown: decision.cause })
        break
    }
  }

  identify(auth: AuthInfo): void {
    this.#identified = true
    this.#auth = auth
    tryOrUndefined(() => {
      this.#redactor = new TokenRedactor(auth.token)
      const user = auth.user as object
      const id = [memberOf(user, 'id'), memberOf(user, 'sub'), auth.clientId].find((one) => isId(one))
      // A session of another implementation may return a promise, whose rejection `tryOrUndefined` handles.
      return id === undefined ? undefined : this.session?.actor('user', this.#redact(String(id), MAX_USER_ID))
    })
  }

  accepted(): void {
    if (!this.#identified || this.#hasAccepted) return
    this.#hasAccepted = true
    tryOrUndefined(() => {
      const [operation] = this.#begun()
      this.#emit(operation, 'auth.accepted', 'debug', { ...this.#known(), ...this.#duration() })
    })
  }

  admitted(): void {
    tryOrUndefined(() => {
      const [operation] = this.#begun()
      this.#emit(operation, 'auth.anonymous', 'debug', { ...this.#known(), ...this.#duration() })
    })
  }

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

  run<T>(fn: () => T): T {
    const { session } = this
    const inside = session === undefined ? fn : () => runWithin((once) => session.run(once), fn)
    const [operation] = this.#operations
    return operation === undefined || this.#operations.length > 1 ? inside() : operation.run(inside)
  }

  watch(server: Server | McpServer, emitsToolEvents: boolean): void {
    const isBatch = this.#operations.length > 1
    tryOrUndefined(() =>
      watchMessages(server, {
        delivered: (message, deliver) => {
          const operation = 'id' in message ? this.#operationOf(message.id) : undefined
          if (operation !== undefined) operation.deliveredAt = performance.now()
          if (isBatch && operation !== undefined) operation.run(deliver)
          else deliver()
        },
        sent: (message) => this.messageSent(message, emitsToolEvents),
      }),
    )
  }

  messageSent(message: JSONRPCMessage, emitsToolEvents: boolean): void {
    tryOrUndefined(() => this.#messageSent(message, emitsToolEvents))
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

  policyDenied(
    call: Omit<TimedCall, 'startedAt'>,
    purpose: 'call' | 'list',
    failure: Failure | undefined,
  ): void {
    tryOrUndefined(() => {
      const type = failure === undefined ? undefined : (kindOf(failure.thrown) ?? '_OTHER')
      const attributes = {
        ...this.#attributesOf(observedMessage(call, this.#redact)),
        'kit.mcp.policy.purpose': purpose,
        ...(type !== undefined && { 'error.type': type }),
      }
      this.#emit(this.#operationOf(call.id), 'policy.denied', 'warn', attributes, failure)
    })
  }

  limitReached(call: Omit<TimedCall, 'startedAt'>, { limit, max, actual }: ReachedLimit): void {
    tryOrUndefined(() => {
      const message = observedMessage(call, this.#redact)
      const attributes = {
        ...this.#attributesOf(message),
        limit,
        'limit.max': max,
        'limit.actual': actual,
      }
      this.#instrumentation.tracing.countLimit(limit, message.tool)
      this.#emit(this.#operationOf(call.id), 'limit.reached', 'warn', attributes)
    })
  }

  limitUnavailable(call: Omit<TimedCall, 'startedAt'>, failure: Failure): void {
    tryOrUndefined(() => {
      const attributes = {
        ...this.#attributesOf(observedMessage(call, this.#redact)),
        'error.type': kindOf(failure.thrown) ?? '_OTHER',
      }
      this.#emit(this.#operationOf(call.id), 'limit.unavailable', 'warn', attributes, failure)
    })
  }

  beginTask({ tool, reference }: ObservedTask): TaskTelemetry {
    return (
      tryOrUndefined(() => {
        const request = new InstrumentedRequest(this.#instrumentation, this.#request)
        if (this.#auth !== undefined) request.identify(this.#auth)
        request.#protocolVersion = this.#protocolVersion
        const attributes = { 'gen_ai.tool.name': tool, 'kit.mcp.task.reference': reference }
        const span = tryOrUndefined(() =>
          this.#instrumentation.tracing.startTask(`task ${tool}`, {
            'gen_ai.operation.name': 'execute_tool',
            ...attributes,
          }),
        )
        return {
          request,
          run: <T>(fn: () => Promise<T>) =>
            span === undefined ? request.run(fn) : span.run(() => request.run(fn)),
          end: (errorType?: string) => {
            tryOrUndefined(() => span?.end(errorType))
            request.abandon()
          },
        }
      }) ?? NO_TASK_TELEMETRY
    )
  }

  taskCreated(task: ObservedTask): void {
    tryOrUndefined(() => this.#emit(undefined, 'task.created', 'info', this.#attributesOfTask(task)))
  }

  taskEnded(status: 'completed' | 'failed' | 'cancelled', end: TaskEnd): void {
    tryOrUndefined(() => {
      const { durationMs, errorType } = end
      const attributes = {
        ...this.#attributesOfTask(end),
        ...(errorType !== undefined && { 'error.type': errorType }),
        duration_ms: durationMs,
      }
      if (status === 'completed') this.#emit(undefined, 'task.completed', 'info', attributes)
      else if (status === 'failed') this.#emit(undefined, 'task.failed', 'error', attributes)
      else this.#emit(undefined, 'task.cancelled', 'info', attributes)
    })
  }

  #attributesOfTask({ tool, reference }: ObservedTask): Attributes {
    return {
      'gen_ai.tool.name': tool,
      'kit.mcp.task.reference': reference,
      ...this.#sharedAttributes(),
    }
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
    if (!(response instanceof Response) || !isEventStream(response)) {
      this.completed(status)
      return response
    }
    const onEnd = (): void => this.completed(status)
    // If the client has disconnected, the host may leave the stream open.
    client.onDisconnect(onEnd)
    return new Response(withBodyEnd(response.body as ReadableStream<Uint8Array>, onEnd), response)
  }

  async #failed(response: PlainResponse | Response): Promise<PlainResponse | Response> {
    this.completed(response.status, await rpcErrorOf(response))
    return response
  }

  /** @param error the JSON-RPC error in the body of the response */
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
      ...this.#added?.values,
      ...operation.attributes,
      ...httpStatus(this.#request, status),
      ...(code !== undefined && { 'rpc.response.status_code': String(code) }),
      ...(type !== undefined && { 'error.type': String(type) }),
      ...this.#duration(),
    })
  }

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
    this.#added?.complete()
    for (const operation of this.#operations)
      operation.end({ status, attributes, more: () => this.#payloadTexts(operation) })
    // The promise is not awaited. It does not reject.
    void tryOrUndefined(() => this.session?.end())
  }

  /**
   * Returns at least one operation: if no message was read, the operation of the request itself.
   * @param unread the message that was not read, as far as it is known
   */
  #begun(unread: ObservedMessage = NO_MESSAGE): readonly Operation[] {
    if (this.#operations.length > 0) return this.#operations
    // Nothing that a client without a verified token has sent is recorded.
    if (this.#identified)
      this.#protocolVersion = clientText(this.#request.header('mcp-protocol-version'), this.#redact)
    this.#operations = [this.#begin(unread, false, this.#sharedAttributes())]
    return this.#operations
  }

  /** Returns the attributes of the request: those of its message or, for a batch, those that all messages have. */
  #known(): Record<string, string> {
    const [operation, another] = this.#begun()
    // Events have nothing that a client without a verified token has sent. The span has the method.
    const isKnown = operation !== undefined && another === undefined && operation.message.isUnread !== true
    return isKnown ? operation.attributes : this.#sharedAttributes()
  }

  #begin(message: ObservedMessage, isKnown: boolean, attributes: Record<string, string>): Operation {
    const shared = {
      request: this.#request,
      recordsClientAddress: this.#instrumentation.recordsClientAddress,
      redactor: this.#tokenRedactor,
      protocolVersion: this.#protocolVersion,
      attributes,
      startedAt: this.#startedAt,
      startedAtMs: this.#startedAtMs,
    }
    return new Operation(this.#instrumentation.tracing, shared, message, isKnown)
  }

  #attributesOf(message: ObservedMessage): Record<string, string> {
    return { ...messageAttributes(message), ...this.#sharedAttributes() }
  }

  /** Returns the attributes that all messages of the request have. */
  #sharedAttributes(): Record<string, string> {
    const version = this.#protocolVersion
    if (version === undefined) return {}
    const isModern = version >= MODERN_REVISION
    const sessionId = isModern ? undefined : clientText(this.#request.header('mcp-session-id'), this.#redact)
    return {
      'mcp.protocol.version': version,
      ...(sessionId !== undefined && { 'mcp.session.id': sessionId }),
    }
  }

  #payloads(args: unknown, result: unknown): Payloads {
    return this.#instrumentation.recordsPayloads ? payloads(this.#tokenRedactor, args, result) : {}
  }

  #payloadTexts({ message, result }: Operation): Record<string, string> {
    const { manager } = this.#instrumentation
    if (manager === undefined) return {}
    return payloadTexts(this.#payloads(message.args, result), (given) => manager.redact(given))
  }

  #messageSent(message: JSONRPCMessage, emitsToolEvents: boolean): void {
    if (!('id' in message) || 'method' in message) return
    const operation = this.#operationOf(message.id)
    if (operation === undefined || operation.respondedAfter !== undefined) return
    operation.respondedAfter = performance.now() - this.#startedAt
    const duration = elapsedMs(operation.deliveredAt ?? this.#startedAt)
    const { method } = operation.message
    if ('error' in message) {
      const error = rpcErrorIn(message)
      if (error === undefined) return
      operation.error = error
      if (!emitsToolEvents || REFUSAL_CODES.has(error.code)) return
      const failure = { thrown: error.message }
      if (method === 'tools/call') operation.run(() => this.#toolFailed(operation.message, duration, failure))
      else if (method !== undefined && APPLICATION_METHODS.has(method))
        operation.run(() => this.#operationFailed(operation.message, duration, failure))
      return
    }
    if (method !== 'tools/call') return
    const { result } = message
    operation.hasToolError = result.isError === true
    if (!operation.hasToolError && this.#instrumentation.recordsPayloads) operation.result = result
    if (!emitsToolEvents) return
    operation.run(() => {
      if (operation.hasToolError) this.#toolFailed(operation.message, duration, failureIn(result))
      else this.#toolCompleted(operation.message, duration, result)
    })
  }

  /** Returns the operation of a message by its id. If several have the same id, returns the first without a response. */
  #operationOf(id: unknown): Operation | undefined {
    if (this.#operations.length === 1) return this.#operations[0]
    const text = clientText(String(id), this.#redact)
    const same = this.#operations.filter(({ message }) => message.id === text)
    return same.find(({ respondedAfter }) => respondedAfter === undefined) ?? same[0]
  }

  /** Made of the verified token, or of the `Authorization` header if no token was verified. */
  get #tokenRedactor(): TokenRedactor {
    this.#redactor ??= new TokenRedactor(tryOrUndefined(() => this.#request.authorization))
    return this.#redactor
  }

  readonly #redact = (text: string, max: number): string => this.#tokenRedactor.cut(text, max)

  /** Returns the attributes of a last event without a message. */
  #lastAttributes(): Attributes {
    return { ...this.#added?.values, ...this.#duration() }
  }

  #duration(): { duration_ms: number } {
    return { duration_ms: elapsedMs(this.#startedAt) }
  }

  /**
   * @param operation the operation whose span the event belongs to. Undefined for the active span.
   * @param failure the thrown value, if any
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
        // A tool may still run after its client has disconnected.
        const { sessionId, actor } = this.session?.getState() ?? {}
        return this.#instrumentation.manager?.emit(`kit.mcp.${event}`, { ...input, sessionId, actor })
      })
    }
    if (operation === undefined) emit()
    else operation.run(emit)
  }

  /** Describes a thrown value. The description of an object without a message is its JSON, redacted by the manager. */
  #textsOf({ thrown }: Failure): ErrorTexts {
    return this.#tokenRedactor.thrown(thrown, (object) =>
      tryOrUndefined(() => JSON.stringify(this.#instrumentation.manager?.redact({ thrown: object }).thrown)),
    )
  }
}

function isId(value: unknown): value is string | number | bigint {
  return (typeof value === 'string' && value !== '') || typeof value === 'number' || typeof value === 'bigint'
}
