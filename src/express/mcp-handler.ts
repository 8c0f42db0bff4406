import type { ServerResponse } from 'node:http'
import type { NodeMiddleware, NodeRequest } from '../http/node-middleware.ts'
import { endpointOf, type McpAdapter } from '../mcp/adapter.ts'
import { FAILED_ANSWER } from '../oauth/refusal-answers.ts'
import { optionChecksOf } from '../options/option-checks.ts'
import { NodeMcpRequest } from './node-request.ts'
import { writeResponse } from './node-response.ts'

const { invalidKind } = optionChecksOf('mcpHandler')

/**
 * Serves MCP over `(req, res)`. Enforces OAuth itself if `mcpAuth` has not run for this adapter, and never
 * verifies twice. Checks `Origin` and `Host`, answers OPTIONS, and carries the CORS headers unless something
 * in front has decided about them. If a body parser in front has read the body, `req.body` is used.
 * @throws {KitMcpConfigError} if `adapter` is not what `build()` or `createMcpAdapter()` returned.
 */
export function mcpHandler(adapter: McpAdapter): NodeMiddleware {
  const endpoint = endpointOf(adapter)
  if (endpoint === undefined) {
    throw invalidKind('adapter', 'must be what KitMcpServer…build() or createMcpAdapter() returned', adapter)
  }
  return function mcpHandler(req, res, next) {
    const request = new NodeMcpRequest(req, res, endpoint.trustsProxy)
    endpoint
      .answer(request)
      .then((response) => writeResponse(req, res, response))
      .catch((error: unknown) => {
        request.authenticatedBy(endpoint.gate)?.telemetry.servedHere(false)
        if (writesFailure(req, res)) return
        if (next !== undefined && !res.headersSent) next(error)
        else res.destroy()
      })
  }
}

/** Responds with 500 if no response has begun. @returns whether it could be written */
function writesFailure(req: NodeRequest, res: ServerResponse): boolean {
  if (res.headersSent) return false
  try {
    void writeResponse(req, res, FAILED_ANSWER)
    return true
  } catch {
    return false
  }
}
