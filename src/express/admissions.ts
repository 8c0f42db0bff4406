import type { IncomingMessage } from 'node:http'
import type { Exchange } from '../mcp/exchange.ts'
import type { McpService } from '../mcp/service.ts'

/** What `mcpAuth` has let in, by request. Not a property of the request: each one added there costs every request. */
interface Admitted {
  readonly service: McpService | undefined
  readonly exchange: Exchange
}

const admitted = new WeakMap<IncomingMessage, Admitted>()

/** Remembers that the gate has let this request in. */
export function rememberAdmission(
  req: IncomingMessage,
  service: McpService | undefined,
  exchange: Exchange,
): void {
  admitted.set(req, { service, exchange })
}

/** Whether `mcpAuth` has let this request in for `service`. */
export function admissionFor(req: IncomingMessage, service: McpService): Exchange | undefined {
  const found = admitted.get(req)
  return found?.service === service ? found.exchange : undefined
}

/** What `mcpAuth(oauthOptions)` has let in, for an adapter that has no OAuth of its own. */
export function foreignAdmission(req: IncomingMessage): Exchange | undefined {
  const found = admitted.get(req)
  return found !== undefined && found.service === undefined ? found.exchange : undefined
}
