import type { JSONRPCMessage, McpServer, Server } from '@modelcontextprotocol/server'
import type { HttpResponse } from '../../http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Decision, ForbiddenSender } from '../../oauth/decision.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import type { ClientConnection } from './client-connection.ts'

/** The reason why a request is not served. */
export type NotServed = Exclude<Decision, { outcome: 'accepted' }> | ForbiddenSender

/** A thrown value. It is wrapped, because it may be `undefined`. */
export interface Failure {
  readonly thrown: unknown
}

/** A JSON-RPC request that runs code of the application. */
export interface TimedCall {
  readonly method: string
  readonly params?: object | undefined
  readonly id: string | number
  /** The result of `performance.now()` before the call. Not needed for an event without a duration. */
  readonly startedAt?: number
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
  /** Milliseconds from the creation of the task to its end. */
  readonly durationMs?: number
  /** The kind of the error with which the task has ended, if there is one. */
  readonly errorType?: string | undefined
}

/** How a client calls itself, without tokens and shortened. */
export interface ObservedClient {
  readonly name: string | undefined
  readonly version: string | undefined
  /** The name if it is one of the known ones, or else `_OTHER`. Undefined if the client has no name. */
  readonly label: string | undefined
}

/** The events of a call. `request.failed` is about a prompt, a resource, or a completion. */
export type CallEvent =
  | 'tool.completed'
  | 'tool.failed'
  | 'request.failed'
  | 'policy.denied'
  | 'limit.reached'
  | 'limit.unavailable'
  | 'confirm.asked'
  | 'confirm.accepted'
  | 'confirm.declined'
  | 'confirm.refused'

export type TaskEvent = 'task.created' | 'task.completed' | 'task.failed' | 'task.cancelled'

/** The details of an event of a call, as far as it has them. */
export interface EventDetails {
  /** The result of the tool. */
  readonly result?: unknown
  /** The value that the code of the application has thrown. Absent for a result with `isError: true`. */
  readonly failure?: Failure | undefined
  /** The reference id that the client received instead of the cause. */
  readonly reference?: string | undefined
  /** The policy has denied a call or, if the policy has failed, entries of a list. */
  readonly purpose?: 'call' | 'list'
  /** The text of a denial by the policy. */
  readonly reason?: string | undefined
  readonly reached?: ReachedLimit
  /** The SHA-256 hash of the arguments to confirm, and the reason of a refusal. */
  readonly confirmation?: { readonly hash: string; readonly reason: string | undefined }
}

/**
 * The telemetry of one request: events in one session, and a span for each message. No method throws. The methods of this class
 * do nothing: {@link NO_TELEMETRY} is the telemetry of a request that is not recorded.
 */
export class RequestTelemetry {
  /** The telemetry session of the request, if events are emitted. */
  get session(): KitTelemetrySession<any, any, any> | undefined {
    return undefined
  }

  /** The client that has sent the messages, if they name it, or the `initialize` of their session does. */
  get client(): ObservedClient | undefined {
    return undefined
  }

  /** `true` if no method has ended the telemetry, and `servedHere(true)` was not called. */
  get isOpen(): boolean {
    return false
  }

  /**
   * Runs `fn` with the session as the ambient session and, if there is one message, its span as the active span. So the events
   * of handlers belong to both.
   */
  run<T>(fn: () => T): T {
    return fn()
  }

  /** Sets the user and the token. */
  identify(_auth: AuthInfo): void {}

  /** Records that the token and its scopes suffice. Emits nothing if no token was verified. */
  accepted(): void {}

  /** Records that the request is served without a token. */
  admitted(): void {}

  /** Records that the request was refused or has failed. Ends the telemetry. */
  decided(_decision: NotServed): void {}

  /**
   * Records the messages of the request.
   * @param _knownTools the names of the tools that exist, if they are known
   * @param _sessionClient returns the client that has begun the session of the request. Called if the messages do not tell.
   */
  received(
    _protocolVersion: unknown,
    _messages: readonly unknown[],
    _knownTools: { has(name: string): boolean } | undefined,
    _sessionClient?: () => ObservedClient | undefined,
  ): void {}

  /**
   * Watches the messages that the server of this request sends.
   * @param _emitsToolEvents `true` for a server of the application, which does not emit tool events itself
   */
  watch(_server: Server | McpServer, _emitsToolEvents: boolean): void {}

  /**
   * Records a message that the server sends.
   * @param _emitsToolEvents as for `watch`
   */
  messageSent(_message: JSONRPCMessage, _emitsToolEvents: boolean): void {}

  /** Emits an event of a call. */
  record(_event: CallEvent, _call: TimedCall, _details: EventDetails): void {}

  /** Emits an event of a task. */
  recordTask(_event: TaskEvent, _task: ObservedTask): void {}

  /** Begins the telemetry of one run of a task, which goes on after the request. Its span is linked to the span of the request. */
  beginTask(_task: ObservedTask): RequestTelemetry {
    return this
  }

  /** Records the response. Ends the telemetry when the response is complete. @returns the response to send */
  responded(response: HttpResponse, _client: ClientConnection): HttpResponse | Promise<HttpResponse> {
    return response
  }

  /** Records that a response was sent by something else. Ends the telemetry. */
  completed(_status: number): void {}

  /** Sets whether `mcpHandler` serves the request, and therefore ends the telemetry. */
  servedHere(_isServed: boolean): void {}

  /** Ends the telemetry without an event. @param _errorType the kind of the error with which the run of a task has ended */
  abandon(_errorType?: string): void {}
}

export const NO_TELEMETRY: RequestTelemetry = Object.freeze(new RequestTelemetry())
