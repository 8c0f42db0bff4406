import type { JSONRPCMessage, McpServer, Server } from '@modelcontextprotocol/server'
import type { PlainResponse } from '../../http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Decision } from '../../oauth/decision.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import type { ClientConnection } from './client-connection.ts'

/** A thrown value. It is wrapped, because it may be `undefined`. */
export interface Failure {
  readonly thrown: unknown
}

/** A JSON-RPC request that ran code of the application, and its duration. */
export interface TimedCall {
  readonly method: string
  readonly params?: object | undefined
  readonly id: string | number
  /** The result of `RequestTelemetry.now()` before the call. */
  readonly startedAt: number
}

/** A limit that a tool call has reached. */
export interface ReachedLimit {
  readonly limit: 'calls' | 'concurrency' | 'timeout' | 'result_size'
  /** The limit: a number of calls, milliseconds, or bytes. */
  readonly max: number
  /** The value of the call, in the same unit. */
  readonly actual: number
}

/** A task, without its id, which may be all that a client needs to read the task. */
export interface ObservedTask {
  /** The name of the tool. */
  readonly tool: string
  /** A hash of the id. */
  readonly reference: string
}

/** The end of a task. */
export interface TaskEnd extends ObservedTask {
  /** Milliseconds since the task was created. */
  readonly durationMs: number
  /** The kind of the error, if there is one. */
  readonly errorType?: string | undefined
}

/** The telemetry of one run of a task, which goes on after the request that began it. */
export interface TaskTelemetry {
  /** The telemetry of the calls in this run. */
  readonly request: RequestTelemetry
  /** Runs `fn` with the session as the ambient session, and the span of the run as the active span. */
  run<T>(fn: () => Promise<T>): Promise<T>
  /** Ends the span and the session. */
  end(errorType?: string): void
}

/**
 * The telemetry of one request: events in one session, and a span for each message. No method throws.
 * {@link NO_TELEMETRY} implements it for an adapter without telemetry.
 */
export interface RequestTelemetry {
  /** The telemetry session of the request, if events are emitted. */
  readonly session: KitTelemetrySession<any, any, any> | undefined
  /** Returns `true` if no method has ended the telemetry, and `servedElsewhere()` was not called. */
  readonly isOpen: boolean
  /** Returns the time for `TimedCall.startedAt`, or 0 if nothing is measured. */
  now(): number
  /**
   * Runs `fn` with the session as the ambient session and, if there is one message, its span as the active span. So the events
   * of handlers belong to both.
   */
  run<T>(fn: () => T): T
  /** Sets the user and the token. */
  identify(auth: AuthInfo): void
  /** Records that the token and its scopes suffice. Emits nothing if no token was verified. */
  accepted(): void
  /** Records that the request is served without a token. */
  admitted(): void
  /** Records that the request was refused or has failed. Ends the telemetry. */
  decided(decision: Exclude<Decision, { outcome: 'accepted' }>): void
  /**
   * Records the messages of the request.
   * @param knownTools the names of the tools that exist, if they are known
   */
  received(
    protocolVersion: unknown,
    messages: readonly unknown[],
    knownTools: { has(name: string): boolean } | undefined,
  ): void
  /**
   * Watches the messages that the server of this request sends.
   * @param emitsToolEvents `true` for a server of the application, which does not emit tool events itself
   */
  watch(server: Server | McpServer, emitsToolEvents: boolean): void
  /**
   * Records a message that the server sends.
   * @param emitsToolEvents as for `watch`
   */
  messageSent(message: JSONRPCMessage, emitsToolEvents: boolean): void
  toolCompleted(call: TimedCall, result: unknown): void
  /**
   * @param failure the value that the tool threw. Absent for a result with `isError: true`.
   * @param reference the reference id that the client received instead of the cause
   */
  toolFailed(call: TimedCall, failure: Failure | undefined, reference: string | undefined): void
  /** Records that the application's code for a prompt, a resource, or a completion threw `error`. */
  operationFailed(call: TimedCall, error: unknown, reference: string | undefined): void
  /**
   * Records that the policy has denied a call or, if the policy has failed, entries of a list.
   * @param failure the reason why the policy has failed. Absent if it has decided.
   */
  policyDenied(
    call: Omit<TimedCall, 'startedAt'>,
    purpose: 'call' | 'list',
    failure: Failure | undefined,
  ): void
  /** Records that a tool call has reached a limit. */
  limitReached(call: Omit<TimedCall, 'startedAt'>, reached: ReachedLimit): void
  /** Records that a call was not counted, because the store of a limit has failed. */
  limitUnavailable(call: Omit<TimedCall, 'startedAt'>, failure: Failure): void
  /** Begins a run of a task. Its span is linked to the span of the request. */
  beginTask(task: ObservedTask): TaskTelemetry
  /** Records that a task was created. */
  taskCreated(task: ObservedTask): void
  /** Records that a task has ended. */
  taskEnded(status: 'completed' | 'failed' | 'cancelled', end: TaskEnd): void
  /** Records the response. Ends the telemetry when the response is complete. @returns the response to send */
  responded(
    response: PlainResponse | Response,
    client: ClientConnection,
  ): PlainResponse | Response | Promise<PlainResponse | Response>
  /** Records that a response was sent by something else. Ends the telemetry. */
  completed(status: number): void
  /** Sets whether `mcpHandler` serves the request, and therefore ends the telemetry. */
  servedHere(isServed: boolean): void
  /** Ends the telemetry without an event. */
  abandon(): void
}

/** The telemetry of a task without telemetry. */
export const NO_TASK_TELEMETRY: TaskTelemetry = {
  get request(): RequestTelemetry {
    return NO_TELEMETRY
  },
  run: (fn) => fn(),
  end: () => undefined,
}

/** The telemetry of a request to an adapter without telemetry. It does nothing. */
export const NO_TELEMETRY: RequestTelemetry = Object.freeze({
  session: undefined,
  isOpen: false,
  now: () => 0,
  run: <T>(fn: () => T) => fn(),
  identify: () => undefined,
  accepted: () => undefined,
  admitted: () => undefined,
  decided: () => undefined,
  received: () => undefined,
  watch: () => undefined,
  messageSent: () => undefined,
  toolCompleted: () => undefined,
  toolFailed: () => undefined,
  operationFailed: () => undefined,
  policyDenied: () => undefined,
  limitReached: () => undefined,
  limitUnavailable: () => undefined,
  beginTask: () => NO_TASK_TELEMETRY,
  taskCreated: () => undefined,
  taskEnded: () => undefined,
  responded: (response: PlainResponse | Response) => response,
  completed: () => undefined,
  servedHere: () => undefined,
  abandon: () => undefined,
})
