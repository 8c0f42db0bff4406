import type { ClientCapabilities, ServerContext } from '@modelcontextprotocol/server'
import { acceptedContent, CLIENT_CAPABILITIES_META_KEY } from '@modelcontextprotocol/server'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { LazyRequest } from '../../oauth/inputs.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import type { KitContext } from '../router/context.ts'
import { inputRequired } from '../router/input-required.ts'
import type { Exchange } from '../wire/exchange.ts'
/**
 * `KitContext` on the SDK's own context. Every member is the object's own and the functions are good without it: handlers
 * take it apart, `(args, { progress }) => …`, and hand on copies, `next(args, { ...context, tenant })`.
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
