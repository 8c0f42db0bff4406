import { performance } from 'node:perf_hooks'
import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import type { HttpResponse } from '../../base/http/plain-response.ts'
import { elapsedMs } from '../../base/timers.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { type ClientConnection, isEventStream, withEnd } from '../wire/event-stream.ts'
import type {
  CallEvent,
  EventDetails,
  NotServed,
  ObservedClient,
  ObservedTask,
  Outcome,
  RequestTelemetry,
  TaskEvent,
  TimedCall,
} from '../wire/exchange.ts'
import { CLIENT_GONE, CONSUMED } from '../wire/json-rpc.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import {
  NO_MESSAGE,
  type ObservedMessage,
  observedClient,
  observedMessage,
  present,
  runsApplication,
  unreadMessage,
} from './observed-message.ts'
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
} from './outcomes.ts'
import { RequestEvents, type SharedInstrumentation } from './request-events.ts'
import { runWithin, type Span } from './tracing.ts'

/** The reasons of requests that belong to a sign-in: the first one of a client, and the one after its token has expired. */
const NORMAL_REASONS: ReadonlySet<string> = new Set(['missing', 'expired'])

/**
 * The telemetry of one request. What happens on the way is kept, and reported at the end.
 *
 * Telemetry never changes a response. Users, arguments, results, and thrown values belong to the application, and reading
 * them may throw. Therefore every method that reads them runs inside `tryOrUndefined`.
 */
export class ObservedRequest implements RequestTelemetry {
  readonly #shared: SharedInstrumentation
  readonly #request: McpRequest
  /** Absent if there is neither a manager nor a provider. */
  readonly #events: RequestEvents | undefined
  #operations: readonly Operation[] = []
  /** The span of a run of a task. */
  #taskSpan: Span | undefined
  #isServedHere = false
  #auth: AuthInfo | undefined
  #hasAccepted = false
  #hasEnded = false

  /** @param isObserved `true` if there is a manager or a provider. Otherwise, only failures are written. */
  constructor(shared: SharedInstrumentation, request: McpRequest, isObserved: boolean) {
    this.#shared = shared
    this.#request = request
    this.#events = isObserved ? new RequestEvents(shared, request) : undefined
  }

  get session(): RequestTelemetry['session'] {
    return this.#events?.session
  }

  get client(): ObservedClient | undefined {
    return this.#events?.client
  }

  get isOpen(): boolean {
    return this.#events !== undefined && !this.#hasEnded && !this.#isServedHere
  }

  run<T>(fn: () => T): T {
    if (this.#events === undefined) return fn()
    const { session } = this.#events
    const inside = session === undefined ? fn : () => runWithin((once) => session.run(once), fn)
    const [operation] = this.#operations
    if (this.#taskSpan !== undefined) return this.#taskSpan.run(inside)
    return operation === undefined || this.#operations.length > 1 ? inside() : operation.run(inside)
  }

  identify(auth: AuthInfo): void {
    this.#auth = auth
    const events = this.#events
    if (events !== undefined) tryOrUndefined(() => events.identify(auth))
  }

  servedHere(isServed: boolean): void {
    this.#isServedHere = isServed
  }

  received(
    protocolVersion: unknown,
    messages: readonly unknown[],
    knownTools: { has(name: string): boolean } | undefined,
    sessionClient?: () => ObservedClient | undefined,
  ): void {
    const events = this.#events
    if (events === undefined) return
    tryOrUndefined(() => {
      events.protocolVersion = events.text(protocolVersion)
      events.client = observedClient(messages, this.#shared.knownClients, events.redact)
      const client = events.client === undefined ? sessionClient?.() : undefined
      // The names have been redacted with the token of another request.
      if (client !== undefined)
        events.client = { ...client, name: events.text(client.name), version: events.text(client.version) }
      this.#operations = messages.map((message) => {
        const observed = observedMessage(message, events.redact)
        const isKnown = observed.tool !== undefined && (knownTools?.has(observed.tool) ?? false)
        return new Operation(events, observed, isKnown)
      })
    })
  }

  accepted(isAnonymous = false): void {
    const events = this.#events
    if (events === undefined || this.#hasAccepted || (!isAnonymous && this.#auth === undefined)) return
    this.#hasAccepted = true
    tryOrUndefined(() => {
      const [operation] = this.#begun(events)
      const attributes = { ...this.#known(events), ...durationOf(events) }
      operation.run(() => events.emit(isAnonymous ? 'auth.anonymous' : 'auth.accepted', attributes))
    })
  }

  delivered(message: JSONRPCMessage, deliver: () => void): void {
    const operation = 'id' in message ? this.#operationOf(message.id) : undefined
    if (operation !== undefined) operation.deliveredAt = performance.now()
    if (operation === undefined) deliver()
    else operation.run(deliver)
  }

  messageSent(response: JSONRPCMessage, emitsToolEvents: boolean): void {
    const events = this.#events
    if (events !== undefined) tryOrUndefined(() => this.#messageSent(events, response, emitsToolEvents))
  }

  #messageSent(events: RequestEvents, response: JSONRPCMessage, emitsToolEvents: boolean): void {
    if (!('id' in response) || 'method' in response) return
    const operation = this.#operationOf(response.id)
    if (operation === undefined || operation.respondedAfter !== undefined) return
    operation.respondedAfter = performance.now() - events.startedAt
    const emit = (event: CallEvent, details: EventDetails): void => {
      const durationMs = elapsedMs(operation.deliveredAt ?? events.startedAt)
      if (emitsToolEvents)
        operation.run(() => events.emitOfCall(event, operation.message, durationMs, details))
    }
    const isCall = operation.message.method === 'tools/call'
    if ('error' in response) {
      const error = rpcErrorIn(response)
      if (error === undefined) return
      operation.error = error
      if (isRefusal(error) || !(isCall || runsApplication(operation.message))) return
      emit(isCall ? 'tool.failed' : 'request.failed', { failure: { thrown: error.message } })
      return
    }
    if (!isCall) return
    const { result } = response
    operation.hasToolError = result.isError === true
    if (!operation.hasToolError && this.#shared.recordsPayloads) operation.result = result
    if (operation.hasToolError) emit('tool.failed', { failure: failureIn(result) })
    else emit('tool.completed', { result })
  }

  record(event: CallEvent, call: TimedCall, details: EventDetails): void {
    const events = this.#events
    if (details.failure !== undefined) this.#shared.log?.record(this.#request, event, call, details)
    if (events === undefined) return
    const durationMs = elapsedMs(call.startedAt ?? events.startedAt)
    tryOrUndefined(() => {
      const message = observedMessage(call, events.redact)
      const { method, tool } = message
      const { reached } = details
      const { tracing } = this.#shared
      if (reached !== undefined)
        tracing?.measure('limits', 1, { limit: reached.limit, 'gen_ai.tool.name': tool })
      if (event === 'policy.denied')
        tracing?.measure('denials', 1, { 'mcp.method.name': method, 'gen_ai.tool.name': tool })
      const emit = () => events.emitOfCall(event, message, durationMs, details)
      const operation = this.#operationOf(call.id)
      if (operation === undefined) emit()
      else operation.run(emit)
    })
  }

  recordTask(event: TaskEvent, task: ObservedTask): void {
    tryOrUndefined(() => this.#events?.emitOfTask(event, task))
  }

  beginTask({ tool, reference }: ObservedTask): RequestTelemetry {
    const events = this.#events
    const run = new ObservedRequest(this.#shared, this.#request, events !== undefined)
    if (this.#auth !== undefined) run.identify(this.#auth)
    if (events === undefined || run.#events === undefined) return run
    run.#events.protocolVersion = events.protocolVersion
    run.#events.client = events.client
    run.#taskSpan = tryOrUndefined(() =>
      this.#shared.tracing?.startTask(`task ${tool}`, {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.tool.name': tool,
        'kit.mcp.task.reference': reference,
      }),
    )
    return run
  }

  responded(response: HttpResponse, client: ClientConnection): HttpResponse {
    const { status } = response
    const isObserved = this.#events !== undefined
    if (isObserved && client.disconnected) this.finished({ status: CLIENT_GONE.status })
    else if (isObserved && isEventStream(response))
      // If the client disconnects, the host may leave the stream open.
      return withEnd(response, client, () => this.finished({ status }))
    else this.finished({ status }, status < 400 ? undefined : rpcErrorOf(response))
    return response
  }

  /** @param error the JSON-RPC error in the body of the response */
  finished(outcome?: Outcome, error?: RpcError): void {
    if (this.#hasEnded) return
    this.#hasEnded = true
    const isServed = outcome === undefined || ('status' in outcome && outcome.status < 500)
    // The reader of bodies writes a line of its own.
    if (!isServed && error?.message !== CONSUMED) this.#shared.log?.finished(this.#request, outcome)
    if (this.#events !== undefined) this.#report(this.#events, outcome, error)
  }

  /** Emits the last events, and ends the spans. */
  #report(events: RequestEvents, outcome: Outcome | undefined, error: RpcError | undefined): void {
    let status = 0
    let attributes = {}
    if (outcome === undefined || 'errorType' in outcome) this.#endTask(events, outcome?.errorType)
    else if ('status' in outcome) {
      status = outcome.status
      this.accepted()
      tryOrUndefined(() => {
        for (const operation of this.#begun(events)) this.#completed(events, operation, status, error)
      })
    } else {
      status = statusOf(outcome)
      tryOrUndefined(() => this.#notServed(events, outcome))
      if (outcome.outcome === 'refused') {
        const reason = { 'kit.mcp.auth.refused.reason': outcome.reason }
        this.#shared.tracing?.measure('refusals', 1, reason)
        attributes = { ...reason, ...invalidCause(outcome) }
      }
    }
    events.added?.complete()
    for (const operation of this.#operations) operation.end(status, attributes)
    events.end()
  }

  #endTask({ startedAt }: RequestEvents, errorType: string | undefined): void {
    const attributes = present({ 'error.type': errorType })
    const durationMs = performance.now() - startedAt
    tryOrUndefined(() => this.#taskSpan?.end({ attributes, durationMs, failed: errorType !== undefined }))
  }

  #notServed(events: RequestEvents, decision: NotServed): void {
    if (decision.outcome === 'failed' && decision.auth !== undefined) this.identify(decision.auth)
    const [operation] = this.#begun(events, unreadMessage(this.#request.header('mcp-method')))
    if (decision.outcome !== 'refused') {
      const event = decision.outcome === 'failed' ? 'request.failed' : 'auth.unavailable'
      const attributes = { ...events.added?.values, ...durationOf(events) }
      operation.run(() => events.emit(event, attributes, { thrown: decision.cause }))
      return
    }
    const { reason } = decision
    if (decision.reason === 'rate_limited' && !this.#shared.isFirstRefusal(decision.address)) return
    const attributes = {
      ...events.added?.values,
      reason,
      ...refusalAttributes(decision),
      ...this.#known(events),
      // Only the kind of a thrown value is recorded: its message may quote anything.
      ...present({ 'error.type': 'cause' in decision ? kindOf(decision.cause) : undefined }),
      ...durationOf(events),
    }
    const level = NORMAL_REASONS.has(reason) ? 'info' : undefined
    operation.run(() => events.emit('auth.refused', attributes, undefined, level))
  }

  #completed(events: RequestEvents, operation: Operation, status: number, error: RpcError | undefined): void {
    if (error !== undefined) operation.error ??= error
    const code = operation.error?.code
    const type = status >= 400 ? status : (code ?? (operation.hasToolError ? 'tool_error' : undefined))
    const attributes = {
      ...events.added?.values,
      ...operation.attributes,
      ...httpStatus(this.#request, status),
      ...present({
        'rpc.response.status_code': code === undefined ? undefined : String(code),
        'error.type': type === undefined ? undefined : String(type),
      }),
      ...durationOf(events),
    }
    operation.run(() => events.emit('request.completed', attributes))
  }

  /**
   * Returns at least one operation: if no message was read, the operation of the request itself.
   * @param unread the message that was not read, as far as it is known
   */
  #begun(events: RequestEvents, unread: ObservedMessage = NO_MESSAGE): readonly [Operation, ...Operation[]] {
    if (this.#operations.length === 0) {
      // Nothing that a client without a verified token has sent is recorded.
      if (this.#auth !== undefined)
        events.protocolVersion = events.text(this.#request.header('mcp-protocol-version'))
      this.#operations = [new Operation(events, unread, false)]
    }
    return this.#operations as [Operation, ...Operation[]]
  }

  /** Returns the operation of a message by its id. If several have the same id, returns the first without a response. */
  #operationOf(id: unknown): Operation | undefined {
    if (this.#operations.length <= 1) return this.#operations[0]
    const text = this.#events?.text(String(id))
    const same = this.#operations.filter(({ message }) => message.id === text)
    return same.find(({ respondedAfter }) => respondedAfter === undefined) ?? same[0]
  }

  /** Returns the attributes of the request: those of its message or, for a batch, those that all messages have. */
  #known(events: RequestEvents): Record<string, string> {
    const [operation, another] = this.#begun(events)
    // Events have nothing that a client without a verified token has sent. The span has the method.
    const isKnown = another === undefined && operation.message.isUnread !== true
    return isKnown ? operation.attributes : events.sharedAttributes
  }
}

function durationOf({ startedAt }: RequestEvents): { duration_ms: number } {
  return { duration_ms: elapsedMs(startedAt) }
}
