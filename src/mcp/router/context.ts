import type { ClientCapabilities, InputRequest, LoggingLevel } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import type { InputRequired } from './input-required.ts'

/** The context of a call, which handlers receive after their arguments. */
export interface KitContext<App = unknown, User = any> {
  /** The value that the router's `.context()` returned for this request. */
  readonly context: App
  /** The HTTP request, without its body. */
  readonly request: Request
  /** The verified token. Absent if OAuth is disabled, and for a request that is served without a token (`anonymous`). */
  readonly auth?: AuthInfo<User>
  /** Aborts when the client cancels the call or, outside a session, disconnects. */
  readonly signal: AbortSignal
  /**
   * The telemetry session of this request, which is not the MCP session. Absent if no telemetry is configured.
   */
  readonly session?: KitTelemetrySession<any, any, any>
  /**
   * The capabilities of the client. Clients of 2026-07-28 send them with each request, and clients of 2025 revisions when a
   * session begins. Otherwise undefined.
   */
  readonly clientCapabilities: ClientCapabilities | undefined
  /**
   * The client's answers from the previous round, by request name. `{}` in the first round. They are not validated: use
   * `accepted()`.
   */
  readonly inputResponses: Readonly<Record<string, unknown>>
  /** The state that the previous round passed to `inputRequired()`. Undefined in the first round. */
  readonly state: unknown
  /**
   * Sends a log message to the client. Resolves when the client can take more; never rejects. Once 1 MiB waits for a client
   * that does not read, further messages are dropped. One message then says so.
   * @param level the severity.
   * @param data any JSON value.
   */
  log(level: LoggingLevel, data: unknown): Promise<void>
  /**
   * Reports the progress of the call if the client has asked for it. Resolves when the client can take more; never rejects.
   * Once 1 MiB waits for a client that does not read, further reports are dropped.
   * @param progress a number that grows with each report.
   * @param total the number at which the call is complete, if it is known.
   * @param message a description for people.
   */
  progress(progress: number, total?: number, message?: string): Promise<void>
  /**
   * Closes the stream of this call. The client opens it again with `Last-Event-ID` and receives the messages since then, so
   * that a long call does not need a connection all the time. Has an effect only in a session of a 2025-11-25 client.
   */
  releaseStream(): void
  /**
   * Asks the client for input. Return the result from the handler; the handler is called again with the answers in
   * `inputResponses`. Clients of a 2025 revision can be asked only in a session.
   * @param requests the requests by name, created with `inputRequired.elicit()` and similar functions of the official SDK.
   * @param state any JSON value for the next round. It is encrypted: the client cannot read or change it, and only the same
   * user can send it back, within one hour.
   * @returns the value that the handler must return.
   * @throws {TypeError} if there are neither requests nor a state.
   * @example
   * ```ts
   * import { inputRequired } from '@modelcontextprotocol/server'
   * import { KitMcpRouter } from 'mcp-gatekit'
   * import { z } from 'zod'
   *
   * const answer = z.object({ name: z.string() })
   * export const router = KitMcpRouter.create().tool('greet', { description: 'Greets the user' }, (_args, context) => {
   *   const given = context.accepted('name', answer)
   *   if (given !== undefined) return `Hello, ${given.name}`
   *   const requestedSchema = { type: 'object' as const, properties: { name: { type: 'string' as const } } }
   *   return context.inputRequired({ name: inputRequired.elicit({ message: 'Your name?', requestedSchema }) })
   * })
   * ```
   * @see docs/reference/mcp.md
   */
  inputRequired(requests: Readonly<Record<string, InputRequest>>, state?: unknown): InputRequired
  /**
   * Returns the content of a form that the user has accepted. The schema must validate synchronously.
   * @param name the name of the request.
   * @param schema a Standard Schema of the content.
   * @returns the parsed content, or undefined if the user has declined the form, was not asked, or if the content does not
   * match `schema`.
   */
  accepted<Schema extends StandardSchemaV1>(
    name: string,
    schema: Schema,
  ): StandardSchemaV1.InferOutput<Schema> | undefined
}
