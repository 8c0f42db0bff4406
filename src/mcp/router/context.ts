import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type InputRequest,
  type LoggingLevel,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { HasRequest } from '../../oauth/inputs.ts'
import type { KitTelemetrySession } from '../../telemetry/session.ts'
import type { Exchange } from '../exchange.ts'
import { type InputRequired, inputRequired } from './input-required.ts'

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

/**
 * `KitContext` on the SDK's own context. Every member is the object's own and the functions are good without it: handlers
 * take it apart, `(args, { progress }) => …`, and hand on copies, `next(args, { ...context, tenant })`.
 */
export class CallContext extends HasRequest implements KitContext {
  readonly context: unknown
  readonly signal: AbortSignal
  readonly clientCapabilities: ClientCapabilities | undefined
  readonly inputResponses: Readonly<Record<string, unknown>>
  readonly state: unknown
  declare readonly auth?: AuthInfo
  declare readonly session?: KitTelemetrySession<any, any, any>
  readonly log: KitContext['log']
  readonly progress: KitContext['progress']
  readonly releaseStream: KitContext['releaseStream']
  readonly inputRequired: KitContext['inputRequired']
  readonly accepted: KitContext['accepted']

  constructor(
    exchange: Exchange,
    { mcpReq, http }: ServerContext,
    state?: unknown,
    sessionCapabilities?: ClientCapabilities,
  ) {
    super(exchange.context)
    const envelope = mcpReq.envelope as Partial<Record<string, ClientCapabilities>> | undefined
    const responses = mcpReq.inputResponses
    this.context = exchange.context.context
    this.signal = mcpReq.signal
    this.clientCapabilities = envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? sessionCapabilities
    this.inputResponses = responses ?? {}
    this.state = state
    if (exchange.auth !== undefined) this.auth = exchange.auth
    const session = exchange.observation?.session
    if (session !== undefined) this.session = session
    this.log = (level, data) => withRoom(exchange, () => mcpReq.log(level, data))
    this.progress = (progress, total, message) =>
      withRoom(exchange, () => reportProgress(mcpReq, progress, total, message))
    this.releaseStream = () => http?.closeSSE?.()
    this.inputRequired = inputRequired
    this.accepted = (name, schema) => acceptedContent(responses, name, schema)
  }
}

async function reportProgress(
  mcpReq: ServerContext['mcpReq'],
  progress: number,
  total: number | undefined,
  message: string | undefined,
): Promise<void> {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return
  const params = {
    progressToken,
    progress,
    ...(total !== undefined && { total }),
    ...(message && { message }),
  }
  await mcpReq.notify({ method: 'notifications/progress', params })
}

/** Calls that exceed what may wait for the client share one promise, so that a flood of them keeps no memory. */
function withRoom(exchange: Exchange, tell: () => Promise<void>): Promise<void> {
  const told = quietly(tell)
  return exchange.outflow?.isFull === true ? exchange.outflow.room() : told
}

/** What cannot be told a client, because of what it is or because the client has gone, is not told. */
async function quietly(tell: () => Promise<void>): Promise<void> {
  try {
    await tell()
  } catch {
    // A handler goes on without.
  }
}
