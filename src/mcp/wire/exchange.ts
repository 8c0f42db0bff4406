import type { JSONRPCNotification } from '@modelcontextprotocol/server'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Gate } from '../../oauth/gate.ts'
import type { VerifyContext } from '../../oauth/gate-values.ts'
import type { Failure, RequestTelemetry } from './request-telemetry.ts'

/** The event stream of a response, for senders that wait until its client has read. */
export interface Outflow {
  /** `true` if so many bytes wait for the client that progress notifications and log messages are dropped. */
  readonly isFull: boolean
  /** Resolves when the client can take more. */
  room(): Promise<void>
  /**
   * Sends a notification with `send`. Resolves when the client can take more. Progress notifications and log messages may be
   * dropped.
   */
  notify(message: JSONRPCNotification, send: (message: JSONRPCNotification) => Promise<void>): Promise<void>
  /** Sends the messages that must come before the response. Returns undefined if there are none. */
  settle(): Promise<void> | undefined
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
  /** The methods of the messages that the SDK's handler serves. */
  methods?: ReadonlySet<unknown>
  /** The decisions about the messages that need one, by the id of the message. */
  verdicts?: ReadonlyMap<unknown, Verdict>
}

/** Returns `true` if the token of a request has these scopes. Without a token, only an operation without scopes is permitted. */
export function permitsScopes(
  { gate, auth }: Pick<Exchange, 'gate' | 'auth'>,
  scopes: readonly string[],
): boolean {
  return gate === undefined || auth === undefined ? scopes.length === 0 : gate.permits(auth.scopes, scopes)
}

/** Returns `true` if a gate serves the request without a token. Returns `false` if OAuth is disabled. */
export function isAnonymous({ gate, auth }: Pick<Exchange, 'gate' | 'auth'>): boolean {
  return gate !== undefined && auth === undefined
}
