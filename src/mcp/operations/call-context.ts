import type { ClientCapabilities, ServerContext } from '@modelcontextprotocol/server'
import { acceptedContent, CLIENT_CAPABILITIES_META_KEY } from '@modelcontextprotocol/server'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { LazyRequest } from '../../oauth/inputs.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import type { KitContext } from '../router/context.ts'
import { inputRequired } from '../router/input-required.ts'
import type { Exchange } from '../wire/exchange.ts'

/**
 * Implements `KitContext` with the SDK's context. Every member is an own property, and the functions do not need `this`, so that
 * handlers can destructure the context, `(args, { progress }) => …`, and copy it, `next(args, { ...context, tenant })`.
 */
export class CallContext extends LazyRequest implements KitContext {
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
    const session = exchange.telemetry.session
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

/** Sends a notification. If too much waits for the client, all calls share one promise, so that they use no memory. */
function withRoom(exchange: Exchange, send: () => Promise<void>): Promise<void> {
  const sent = withoutErrors(send)
  return exchange.outflow?.isFull === true ? exchange.outflow.room() : sent
}

/** Drops a notification that cannot be sent, because it is invalid or because the client has disconnected. */
async function withoutErrors(send: () => Promise<void>): Promise<void> {
  try {
    await send()
  } catch {
    // The handler continues.
  }
}
