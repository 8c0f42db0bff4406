import type { LoggingLevel, ServerContext } from '@modelcontextprotocol/server'
import type { AuthInfo } from '../oauth/auth-info.ts'
import type { KitTelemetrySession } from '../telemetry/session.ts'
import type { Exchange } from './exchange.ts'

/** What a handler receives beside its arguments. */
export interface KitContext<App = unknown> {
  /** What the router's `.context()` returned for this request. */
  readonly context: App
  /** The HTTP request, without its body. */
  readonly request: Request
  /** The verified token. Absent when OAuth is off. */
  readonly auth?: AuthInfo<any>
  /** Aborts when the client cancels the call or hangs up. */
  readonly signal: AbortSignal
  /** The telemetry session of this request. Absent when no telemetry is configured. */
  readonly session?: KitTelemetrySession<any, any, any>
  /** Sends a log message to the client. Never rejects. */
  log(level: LoggingLevel, data: unknown): Promise<void>
  /** Tells the client how far the call is, when it asked to know. Never rejects. */
  progress(progress: number, total?: number, message?: string): Promise<void>
}

/** `KitContext` on the SDK's own context; the web-standard request is made only when read. */
export class CallContext implements KitContext {
  readonly context: unknown
  readonly signal: AbortSignal
  readonly auth?: AuthInfo
  readonly session?: KitTelemetrySession<any, any, any>
  readonly #exchange: Exchange
  readonly #sdk: ServerContext

  constructor(exchange: Exchange, sdk: ServerContext) {
    this.#exchange = exchange
    this.#sdk = sdk
    this.context = exchange.context.context
    this.signal = sdk.mcpReq.signal
    if (exchange.auth !== undefined) this.auth = exchange.auth
    const session = exchange.observation?.session
    if (session !== undefined) this.session = session
  }

  get request(): Request {
    return this.#exchange.context.request
  }

  async log(level: LoggingLevel, data: unknown): Promise<void> {
    await this.#sdk.mcpReq.log(level, data).catch(() => undefined)
  }

  async progress(progress: number, total?: number, message?: string): Promise<void> {
    const progressToken = this.#sdk.mcpReq._meta?.progressToken
    if (progressToken === undefined) return
    const params = {
      progressToken,
      progress,
      ...(total !== undefined && { total }),
      ...(message && { message }),
    }
    await this.#sdk.mcpReq.notify({ method: 'notifications/progress', params }).catch(() => undefined)
  }
}
