import type { ClientCapabilities, InputRequest, LoggingLevel } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import type { InputRequired } from './input-required.ts'

/** What a handler receives beside its arguments. */
export interface KitContext<App = unknown, User = any> {
  /** What the router's `.context()` returned for this request. */
  readonly context: App
  /** The HTTP request, without its body. */
  readonly request: Request
  /** The verified token. Absent when OAuth is off. */
  readonly auth?: AuthInfo<User>
  /** Aborts when the client cancels the call or hangs up, which within a session alone cancels nothing. */
  readonly signal: AbortSignal
  /** The telemetry session of this request. Absent when no telemetry is configured. */
  readonly session?: KitTelemetrySession<any, any, any>
  /** What the client can do, as it says with each request since 2026-07-28, or said when its session began; else undefined. */
  readonly clientCapabilities: ClientCapabilities | undefined
  /** What the client answered to the round before, under the names it was asked; `{}` at first. Nobody has checked it. */
  readonly inputResponses: Readonly<Record<string, unknown>>
  /** What the round before kept, as `inputRequired` was given it; undefined at first. */
  readonly state: unknown
  /**
   * Sends a log message to the client. Resolves when the client has room for more; never rejects. Once 1 MiB waits for a
   * client that does not read, further messages are dropped, and one notice tells the client how many.
   */
  log(level: LoggingLevel, data: unknown): Promise<void>
  /**
   * Reports the progress of the call if the client asked for it. Resolves when the client has room for more; never
   * rejects. Once 1 MiB waits for a client that does not read, further reports are dropped.
   */
  progress(progress: number, total?: number, message?: string): Promise<void>
  /**
   * Lets go of the stream of this call: the client comes back with `Last-Event-ID` and gets what it missed, so that a long
   * call needs no connection all the time. Within a session of a 2025-11-25 client; elsewhere it does nothing.
   */
  releaseStream(): void
  /**
   * To be returned: has the client asked, and the handler called again with the answers in `inputResponses`.
   * Requests are made with `inputRequired.elicit()` and its like of the official SDK. Clients of a 2025 revision can
   * be asked within a session only.
   * @param state Any JSON value for the next round. Sealed: the client can neither read nor change it, and
   * nobody but this user can present it, within an hour.
   */
  inputRequired(requests: Readonly<Record<string, InputRequest>>, state?: unknown): InputRequired
  /**
   * The content of a form that the user accepted, when it fits `schema`; undefined when it does not, was declined, or
   * has not been asked for. The schema must validate synchronously.
   */
  accepted<Schema extends StandardSchemaV1>(
    name: string,
    schema: Schema,
  ): StandardSchemaV1.InferOutput<Schema> | undefined
}
