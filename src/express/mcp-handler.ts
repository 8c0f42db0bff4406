import type { ServerResponse } from 'node:http'
import type { Exchange } from '../mcp/exchange.ts'
import { type KitMcpAdapter, type McpAdapter, serviceOf } from '../mcp/server.ts'
import type { McpService } from '../mcp/service.ts'
import { CORS_RESPONSE_HEADERS } from '../oauth/cors.ts'
import { optionChecksOf } from '../oauth/option-checks.ts'
import { FAILED_ANSWER } from '../oauth/refusal-answers.ts'
import { admissionBy, admissionByOptions } from './admissions.ts'
import { isCorsDecided } from './cors-decision.ts'
import { NodeIncoming, type NodeMiddleware, type NodeRequest } from './node-http.ts'
import { writeAnswer, writeResponse } from './node-response.ts'

const { invalidKind } = optionChecksOf('mcpHandler')

/**
 * Serves MCP over `(req, res)`. Enforces OAuth itself where `mcpAuth` has not run for this adapter, and never
 * verifies twice. Checks `Origin` and `Host`, answers OPTIONS, and carries the CORS headers unless something
 * in front has decided about them. A body that a parser in front has read is taken from `req.body`.
 * @throws {KitMcpConfigError} when `adapter` is not what `build()` or `createMcpAdapter()` returned.
 */
export function mcpHandler(adapter: KitMcpAdapter | McpAdapter): NodeMiddleware {
  const service = serviceOf(adapter)
  if (service === undefined) {
    throw invalidKind('adapter', 'must be what KitMcpServer…build() or createMcpAdapter() returned', adapter)
  }
  return function mcpHandler(req, res, next) {
    const admitted = admissionBy(req, service.gate)
    handle(service, req, res, admitted).catch((error: unknown) => {
      if (admitted?.observation !== undefined) admitted.observation.isServed = false
      if (answersFailure(req, res)) return
      if (next !== undefined && !res.headersSent) next(error)
      else res.destroy()
    })
  }
}

/** Whether a client that has heard nothing yet can be told of a failure. */
function answersFailure(req: NodeRequest, res: ServerResponse): boolean {
  if (res.headersSent) return false
  try {
    writeAnswer(req, res, FAILED_ANSWER)
    return true
  } catch {
    return false
  }
}

/** @param admitted what `mcpAuth` in front has let in. */
async function handle(
  service: McpService,
  req: NodeRequest,
  res: ServerResponse,
  admitted: Exchange | undefined,
): Promise<void> {
  const incoming = new NodeIncoming(req, res, service.trustsProxy)
  const allowsAnyOrigin = !isCorsDecided(res)
  if (allowsAnyOrigin) setCors(res)
  if (req.method === 'OPTIONS') return writeAnswer(req, res, service.preflight(incoming, allowsAnyOrigin))
  const guarded = service.guard(incoming)
  if (guarded !== undefined) {
    admitted?.observation?.abandon()
    return writeAnswer(req, res, guarded)
  }
  if (admitted?.observation !== undefined) admitted.observation.isServed = true
  const exchange = admitted === undefined ? await exchangeFor(service, incoming, req) : { exchange: admitted }
  if ('answer' in exchange) return writeAnswer(req, res, exchange.answer)
  // Also where no `mcpAuth` was in front: who logs the answer may want to know whose it was.
  if (exchange.exchange.gate === service.gate && exchange.exchange.auth !== undefined)
    req.auth = exchange.exchange.auth
  const response = await service.serve(incoming, exchange.exchange)
  if (response instanceof Response) await writeResponse(req, res, response)
  else writeAnswer(req, res, response)
}

async function exchangeFor(service: McpService, incoming: NodeIncoming, req: NodeRequest) {
  const admission = await service.admit(incoming)
  if ('answer' in admission || service.gate !== undefined) return admission
  const foreign = admissionByOptions(req)
  if (foreign === undefined) return admission
  const { gate, auth } = foreign
  if (auth !== undefined) admission.exchange.observation?.identify(auth)
  const exchange: Exchange = { ...admission.exchange, gate, auth }
  return { exchange }
}

function setCors(res: ServerResponse): void {
  for (const name of Object.keys(CORS_RESPONSE_HEADERS))
    res.setHeader(name, CORS_RESPONSE_HEADERS[name] as string)
}
