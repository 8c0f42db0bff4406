import type { JSONRPCNotification } from '@modelcontextprotocol/server'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { Gate } from '../../oauth/gate.ts'
import type { VerifyContext } from '../../oauth/options.ts'
import type { RequestTelemetry } from './request-telemetry.ts'

/** How far the client is with taking the event stream that answers its request. */
export interface Outflow {
  /** Whether so much waits for the client that progress and log messages are dropped. */
  readonly isFull: boolean
  /** Resolves when the client has room. */
  room(): Promise<void>
  /** Sends a notification with `send`; resolves when the client has room. Progress and log messages may be dropped. */
  notify(message: JSONRPCNotification, send: (message: JSONRPCNotification) => Promise<void>): Promise<void>
  /** Sends what has to be sent before the answer; undefined if that is nothing. */
  settle(): Promise<void> | undefined
}

/** One request past the gate: what its handlers may know. */
export interface Exchange {
  /** The gate that let it in; undefined when OAuth is off. */
  readonly gate: Gate | undefined
  readonly auth: AuthInfo | undefined
  readonly context: VerifyContext
  readonly telemetry: RequestTelemetry
  /** The event stream of the answer, once there is one. */
  outflow?: Outflow | undefined
}
