import type { JSONRPCMessage, JSONRPCNotification } from '@modelcontextprotocol/server'
import type { HttpResponse } from '../../base/http/plain-response.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Decision, ForbiddenSender } from '../../oauth/decision.ts'
import type { Gate } from '../../oauth/gate.ts'
import type { VerifyContext } from '../../oauth/gate-values.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import type { ClientConnection } from './event-stream.ts'

/** The event stream of a response, or the connection over stdio, for senders that wait until its client has read. */
export interface Outflow {
  /** `true` if the client can take more. */
  readonly hasRoom: boolean
  /** Resolves when the client can take more. */
  room(): Promise<void>
  /**
   * Sends a notification with `send`. Resolves when the client can take more. Progress notifications and log messages may be
   * dropped.
   */
  notify(message: JSONRPCNotification, send: (message: JSONRPCNotification) => Promise<void>): Promise<void>
}

/** The decision about one message, with the validated arguments, the error of validating them, or the text of a denial. */
export type Verdict = {
  /** The entry of the router's table that the decision is about. Absent for a task. */
  readonly operation?: object
} & ({ readonly args: unknown } | { readonly failure: Failure } | { readonly denied: string })

/** The user about whom scopes and policies decide. */
export interface Caller {
  /** The gate that has accepted the request. Undefined if OAuth is disabled. */
  readonly gate: Gate | undefined
  /** The verified token. Undefined if OAuth is disabled, and for a request that is served without a token. */
  readonly auth: AuthInfo | undefined
  readonly context: VerifyContext
}

/** A request that may be served: its token, its context, and its telemetry. */
export interface Exchange extends Caller {
  readonly telemetry: RequestTelemetry
  /** The event stream of the response, once there is one. */
  outflow?: Outflow | undefined
  /** Aborts when the client of `events/stream` has left. In a session, the signal of the request does not. */
  left?: AbortSignal | undefined
  /** The method of the message that the SDK's handler serves. */
  method?: unknown
  /** The decisions about the messages that need one, by the id of the message. */
  verdicts?: ReadonlyMap<unknown, Verdict>
}

/** Returns `true` if a gate serves the request without a token. Returns `false` if OAuth is disabled. */
export function isAnonymous({ gate, auth }: Pick<Exchange, 'gate' | 'auth'>): boolean {
  return gate !== undefined && auth === undefined
}

/** The reason why a request is not served. */
export type NotServed = Exclude<Decision, { outcome: 'accepted' }> | ForbiddenSender

/** The end of a request: why it is not served, the status of its response, or the kind of the error of a task's run. */
export type Outcome = NotServed | { readonly status: number } | { readonly errorType: string | undefined }

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
  /** The name of the limit, such as `calls`. */
  readonly limit: string
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

/** The telemetry of one request: events in one session, a span for each message, and lines about failures. No method throws. */
export interface RequestTelemetry {
  /** The telemetry session of the request, if events are emitted. */
  readonly session: KitTelemetrySession<any, any, any> | undefined
  /** The client that has sent the messages, if they name it, or the `initialize` of their session does. */
  readonly client: ObservedClient | undefined
  /** `true` if the response must be recorded, `finished` was not called, and `mcpHandler` does not call it. */
  readonly isOpen: boolean
  /**
   * Runs `fn` with the session as the ambient session and, if there is one message, its span as the active span. So the events
   * of handlers belong to both.
   */
  run<T>(fn: () => T): T
  /** Sets the user and the token. */
  identify(auth: AuthInfo): void
  /** Sets whether `mcpHandler` serves the request, and therefore calls `finished`. */
  servedHere(isServed: boolean): void
  /**
   * Records the messages of the request.
   * @param knownTools the names of the tools that exist, if they are known
   * @param sessionClient returns the client that has begun the session of the request. Called if the messages do not tell.
   */
  received(
    protocolVersion: unknown,
    messages: readonly unknown[],
    knownTools: { has(name: string): boolean } | undefined,
    sessionClient?: () => ObservedClient | undefined,
  ): void
  /**
   * Records that the token and its scopes suffice. Emits nothing if no token was verified, unless the request is served without one.
   * `finished` with a status implies it.
   */
  accepted(isAnonymous?: boolean): void
  /** Passes a message of the client on to the server that serves it, with the span of the message as the active span. */
  delivered(message: JSONRPCMessage, deliver: () => void): void
  /**
   * Records a response of the server to a message.
   * @param emitsToolEvents `true` for a server of the application, which does not emit tool events itself
   */
  messageSent(response: JSONRPCMessage, emitsToolEvents: boolean): void
  /** Emits an event of a call. */
  record(event: CallEvent, call: TimedCall, details: EventDetails): void
  /** Emits an event of a task. */
  recordTask(event: TaskEvent, task: ObservedTask): void
  /** Begins the telemetry of one run of a task, which goes on after the request. Its span is linked to the span of the request. */
  beginTask(task: ObservedTask): RequestTelemetry
  /** Calls `finished` when a response is complete. @returns the response to send */
  responded(response: HttpResponse, client: ClientConnection): HttpResponse
  /** Ends the telemetry, and records the outcome. Without one, or with that of a task's run, emits nothing. Further calls have no effect. */
  finished(outcome?: Outcome): void
}
