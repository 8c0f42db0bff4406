import { performance } from 'node:perf_hooks'
import type { JSONRPCMessage, McpServer, Server } from '@modelcontextprotocol/server'
import type { HttpResponse } from '../../http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { elapsedMs } from '../../timers.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { watchMessages } from '../sdk/watch-messages.ts'
import type { ClientConnection } from '../wire/client-connection.ts'
import { isEventStream, withEnd } from '../wire/event-stream.ts'
import { CLIENT_GONE } from '../wire/json-rpc.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import {
  type CallEvent,
  type EventDetails,
  NO_TELEMETRY,
  type NotServed,
  type ObservedClient,
  type ObservedTask,
  RequestTelemetry,
  type TaskEvent,
  type TimedCall,
} from '../wire/request-telemetry.ts'
import type { FailureLog, LoggedRequest } from './failure-log.ts'
import { observedClient } from './observed-client.ts'
import { NO_MESSAGE, type ObservedMessage, runsApplication, unreadMessage } from './observed-message.ts'
import { httpStatus, Operation } from './observed-operation.ts'
import {
  failureIn,
  invalidCause,
  isRefusal,
  kindOf,
  type RpcError,
  refusalAttributes,
  rpcErrorIn,
  rpcErrorOf,
  statusOf,
} from './observed-outcome.ts'
import type { RepeatedRefusals } from './repeated-refusals.ts'
import { type EventName, type EventSettings, RequestEvents } from './request-events.ts'
import { runWithin } from './run-within.ts'
import type { TaskSpan, Tracing } from './tracing.ts'

/** The telemetry that the requests of an adapter share. */
export interface SharedInstrumentation extends EventSettings {
  readonly tracing: Tracing
  /** The names of clients that metrics may have. */
  readonly knownClients: ReadonlySet<string>
  /** Receives failures. Absent with a manager, and if the application wants no lines. */
  readonly log: FailureLog | undefined
  readonly repeated: RepeatedRefusals
  /** Emits an event that belongs to no request. */
  readonly emit: (event: EventName, attributes: Readonly<Record<string, unknown>>) => void
}

/** The reasons of requests that belong to a sign-in: the first one of a client, and the one after its token has expired. */
const NORMAL_REASONS: ReadonlySet<string> = new Set(['missing', 'expired'])

/**
 * The telemetry of one request: its events, and a span for each message.
 *
 * Telemetry never changes a response. Users, arguments, results, and thrown values belong to the application, and reading
 * them may throw. Therefore every method that reads them runs inside `tryOrUndefined`.
 */
export class InstrumentedRequest extends RequestTelemetry {
  readonly #instrumentation: SharedInstrumentation
  readonly #request: McpRequest
  readonly #events: RequestEvents
  /** Writes the failures of this request. Absent with a manager. */
  readonly #logged: LoggedRequest | undefined
  #operations: readonly Operation[] = []
  /** The span of a run of a task. */
  #taskSpan: TaskSpan | undefined
  #isServedHere = false
  #auth: AuthInfo | undefined
  #hasAccepted = false
  #hasEnded = false

  constructor(instrumentation: SharedInstrumentation, request: McpRequest) {
    super()
    this.#instrumentation = instrumentation
    this.#request = request
    this.#logged = instrumentation.log?.begin(request)
    this.#events = new RequestEvents(instrumentation, request)
  }

  override get session(): RequestTelemetry['session'] {
    return this.#events.session
  }

  override get client(): ObservedClient | undefined {
    return this.#events.client
  }

  override get isOpen(): boolean {
    return !this.#hasEnded && !this.#isServedHere
  }

  override servedHere(isServed: boolean): void {
    this.#isServedHere = isServed
  }

  override identify(auth: AuthInfo): void {
    this.#auth = auth
    tryOrUndefined(() => this.#events.identify(auth))
  }

  override accepted(): void {
    if (this.#auth === undefined || this.#hasAccepted) return
    this.#hasAccepted = true
    this.#emitKnown('auth.accepted')
  }

  override admitted(): void {
    this.#emitKnown('auth.anonymous')
  }

  override decided(decision: NotServed): void {
    if (this.#hasEnded) return
    this.#logged?.decided(decision)
    tryOrUndefined(() => this.#decided(decision))
    let attributes = {}
    if (decision.outcome === 'refused') {
      this.#instrumentation.tracing.countRefusal(decision.reason)
      attributes = { 'kit.mcp.auth.refused.reason': decision.reason, ...invalidCause(decision) }
    }
    this.#end(statusOf(decision), attributes)
  }

  #decided(decision: NotServed): void {
    if (decision.outcome === 'failed' && decision.auth !== undefined) this.identify(decision.auth)
    const [operation] = this.#begun(unreadMessage(this.#request.header('mcp-method')))
    if (decision.outcome !== 'refused') {
      const event = decision.outcome === 'failed' ? 'request.failed' : 'auth.unavailable'
      const attributes = { ...this.#events.added?.values, ...this.#duration() }
      operation.run(() => this.#events.emit(event, attributes, { thrown: decision.cause }))
      return
    }
    const { reason } = decision
    const { repeated, emit } = this.#instrumentation
    const count = (others: number): void => emit('auth.refused', { reason, 'kit.refused.count': others })
    if (decision.reason === 'rate_limited' && !repeated.isFirst(decision.address, count)) return
    // Only the kind of a thrown value is recorded: its message may quote anything.
    const type = 'cause' in decision ? kindOf(decision.cause) : undefined
    const attributes = {
      ...this.#events.added?.values,
      reason,
      ...refusalAttributes(decision),
      ...this.#known(),
      ...(type !== undefined && { 'error.type': type }),
      ...this.#duration(),
    }
    const level = NORMAL_REASONS.has(reason) ? 'info' : undefined
    operation.run(() => this.#events.emit('auth.refused', attributes, undefined, level))
  }

  override received(
    protocolVersion: unknown,
    messages: readonly unknown[],
    knownTools: { has(name: string): boolean } | undefined,
    sessionClient?: () => ObservedClient | undefined,
  ): void {
    tryOrUndefined(() => {
      this.#events.protocolVersion = this.#events.text(protocolVersion)
      this.#events.client = this.#clientOf(messages) ?? this.#redacted(sessionClient?.())
      this.#operations = messages.map((message) => {
        const observed = this.#events.observed(message)
        const isKnown = observed.tool !== undefined && (knownTools?.has(observed.tool) ?? false)
        return this.#begin(observed, isKnown)
      })
    })
  }

  /** Returns the client of the first message that tells it. All messages of a request are of one client. */
  #clientOf(messages: readonly unknown[]): ObservedClient | undefined {
    const { knownClients } = this.#instrumentation
    for (const message of messages) {
      const client = observedClient(message, knownClients, this.#events.text)
      if (client !== undefined) return client
    }
    return undefined
  }

  /** Removes the token of this request from the names of a client, which have been redacted with the token of another one. */
  #redacted(client: ObservedClient | undefined): ObservedClient | undefined {
    const { text } = this.#events
    return client && { ...client, name: text(client.name), version: text(client.version) }
  }

  override run<T>(fn: () => T): T {
    const { session } = this
    const inside = session === undefined ? fn : () => runWithin((once) => session.run(once), fn)
    const [operation] = this.#operations
    if (this.#taskSpan !== undefined) return this.#taskSpan.run(inside)
    return operation === undefined || this.#operations.length > 1 ? inside() : operation.run(inside)
  }

  override watch(server: Server | McpServer, emitsToolEvents: boolean): void {
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

  override messageSent(message: JSONRPCMessage, emitsToolEvents: boolean): void {
    tryOrUndefined(() => this.#messageSent(message, emitsToolEvents))
  }

  #messageSent(message: JSONRPCMessage, emitsToolEvents: boolean): void {
    if (!('id' in message) || 'method' in message) return
    const operation = this.#operationOf(message.id)
    if (operation === undefined || operation.respondedAfter !== undefined) return
    operation.respondedAfter = performance.now() - this.#events.startedAt
    const isCall = operation.message.method === 'tools/call'
    if ('error' in message) {
      const error = rpcErrorIn(message)
      if (error === undefined) return
      operation.error = error
      if (!emitsToolEvents || isRefusal(error)) return
      const failure = { thrown: error.message }
      if (isCall) this.#emitSent(operation, 'tool.failed', { failure })
      else if (runsApplication(operation.message)) this.#emitSent(operation, 'request.failed', { failure })
      return
    }
    if (!isCall) return
    const { result } = message
    operation.hasToolError = result.isError === true
    if (!operation.hasToolError && this.#instrumentation.recordsPayloads) operation.result = result
    if (!emitsToolEvents) return
    if (operation.hasToolError) this.#emitSent(operation, 'tool.failed', { failure: failureIn(result) })
    else this.#emitSent(operation, 'tool.completed', { result })
  }

  /** Emits an event about a call whose response was sent. */
  #emitSent(operation: Operation, event: CallEvent, details: EventDetails): void {
    const durationMs = elapsedMs(operation.deliveredAt ?? this.#events.startedAt)
    operation.run(() => this.#events.emitOfCall(event, operation.message, durationMs, details))
  }

  override record(event: CallEvent, call: TimedCall, details: EventDetails): void {
    this.#logged?.record(event, call, details)
    const durationMs = elapsedMs(call.startedAt ?? this.#events.startedAt)
    tryOrUndefined(() => {
      const message = this.#events.observed(call)
      const { reached } = details
      const { tracing } = this.#instrumentation
      if (reached !== undefined) tracing.countLimit(reached.limit, message.tool)
      if (event === 'policy.denied') tracing.countDenial(message.method, message.tool)
      const emit = () => this.#events.emitOfCall(event, message, durationMs, details)
      const operation = this.#operationOf(call.id)
      if (operation === undefined) emit()
      else operation.run(emit)
    })
  }

  override recordTask(event: TaskEvent, task: ObservedTask): void {
    tryOrUndefined(() => this.#events.emitOfTask(event, task))
  }

  override beginTask({ tool, reference }: ObservedTask): RequestTelemetry {
    const run = tryOrUndefined(() => {
      const telemetry = new InstrumentedRequest(this.#instrumentation, this.#request)
      if (this.#auth !== undefined) telemetry.identify(this.#auth)
      telemetry.#events.protocolVersion = this.#events.protocolVersion
      telemetry.#events.client = this.#events.client
      telemetry.#taskSpan = tryOrUndefined(() =>
        this.#instrumentation.tracing.startTask(`task ${tool}`, {
          'gen_ai.operation.name': 'execute_tool',
          'gen_ai.tool.name': tool,
          'kit.mcp.task.reference': reference,
        }),
      )
      return telemetry
    })
    return run ?? NO_TELEMETRY
  }

  override responded(response: HttpResponse, client: ClientConnection): HttpResponse | Promise<HttpResponse> {
    const { status } = response
    if (!client.disconnected && status >= 400) return this.#failed(response)
    if (!client.disconnected && response instanceof Response && isEventStream(response))
      // If the client disconnects, the host may leave the stream open.
      return withEnd(response, client, () => this.completed(status))
    this.completed(client.disconnected ? CLIENT_GONE.status : status)
    return response
  }

  async #failed(response: HttpResponse): Promise<HttpResponse> {
    this.completed(response.status, await rpcErrorOf(response))
    return response
  }

  /** @param error the JSON-RPC error in the body of the response */
  override completed(status: number, error?: RpcError): void {
    if (this.#hasEnded) return
    this.#logged?.completed(status)
    tryOrUndefined(() => {
      for (const operation of this.#begun()) this.#completed(operation, status, error)
    })
    this.#end(status, {})
  }

  #completed(operation: Operation, status: number, error: RpcError | undefined): void {
    if (error !== undefined) operation.error ??= error
    const code = operation.error?.code
    const type = status >= 400 ? status : (code ?? (operation.hasToolError ? 'tool_error' : undefined))
    const attributes = {
      ...this.#events.added?.values,
      ...operation.attributes,
      ...httpStatus(this.#request, status),
      ...(code !== undefined && { 'rpc.response.status_code': String(code) }),
      ...(type !== undefined && { 'error.type': String(type) }),
      ...this.#duration(),
    }
    operation.run(() => this.#events.emit('request.completed', attributes))
  }

  override abandon(errorType?: string): void {
    tryOrUndefined(() => this.#taskSpan?.end(errorType))
    this.#end(0, {})
  }

  #end(status: number, attributes: Record<string, string>): void {
    this.#hasEnded = true
    this.#events.added?.complete()
    for (const operation of this.#operations) operation.end(status, attributes)
    this.#events.end()
  }

  /**
   * Returns at least one operation: if no message was read, the operation of the request itself.
   * @param unread the message that was not read, as far as it is known
   */
  #begun(unread: ObservedMessage = NO_MESSAGE): readonly [Operation, ...Operation[]] {
    if (this.#operations.length === 0) {
      // Nothing that a client without a verified token has sent is recorded.
      if (this.#auth !== undefined)
        this.#events.protocolVersion = this.#events.text(this.#request.header('mcp-protocol-version'))
      this.#operations = [this.#begin(unread, false)]
    }
    return this.#operations as [Operation, ...Operation[]]
  }

  #begin(message: ObservedMessage, isKnown: boolean): Operation {
    return new Operation(this.#instrumentation.tracing, this.#events, message, isKnown)
  }

  /** Returns the operation of a message by its id. If several have the same id, returns the first without a response. */
  #operationOf(id: unknown): Operation | undefined {
    if (this.#operations.length <= 1) return this.#operations[0]
    const text = this.#events.text(String(id))
    const same = this.#operations.filter(({ message }) => message.id === text)
    return same.find(({ respondedAfter }) => respondedAfter === undefined) ?? same[0]
  }

  #emitKnown(event: 'auth.accepted' | 'auth.anonymous'): void {
    tryOrUndefined(() => {
      const [operation] = this.#begun()
      const attributes = { ...this.#known(), ...this.#duration() }
      operation.run(() => this.#events.emit(event, attributes))
    })
  }

  /** Returns the attributes of the request: those of its message or, for a batch, those that all messages have. */
  #known(): Record<string, string> {
    const [operation, another] = this.#begun()
    // Events have nothing that a client without a verified token has sent. The span has the method.
    const isKnown = another === undefined && operation.message.isUnread !== true
    return isKnown ? operation.attributes : this.#events.sharedAttributes
  }

  #duration(): { duration_ms: number } {
    return { duration_ms: elapsedMs(this.#events.startedAt) }
  }
}
