import type { NodeMiddleware } from '../base/http/node-middleware.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import type { McpAdapter } from '../mcp/mcp-adapter.ts'
import { ConnectionTurns } from './connection-turns.ts'
import { NodeMcpRequest } from './node-request.ts'
import { writeFailure, writeResponse } from './node-response.ts'
import { checkEndpoint } from './target.ts'

/**
 * Serves MCP over `(req, res)`. It checks `Origin` and `Host`, verifies the token unless `mcpAuth` has done so for this
 * adapter, responds to OPTIONS, and sets CORS headers unless earlier middleware has done so. If a body parser has read the
 * body, it uses `req.body`.
 * @param adapter the return value of `createMcpAdapter()` or `KitMcpServer…build()`.
 * @returns middleware for Express, Connect, or a plain `http.createServer`.
 * @throws {KitMcpConfigError} if `adapter` is something else.
 * @example
 * ```ts
 * import express from 'express'
 * import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpHandler, protectedResourceRouter } from 'mcp-gatekit'
 *
 * const adapter = createMcpAdapter({
 *   router: KitMcpRouter.create(),
 *   oauth: {
 *     issuer: 'https://auth.example.com',
 *     resource: 'https://mcp.example.com/mcp',
 *     verifyToken: jwtVerifier(),
 *   },
 * })
 * express().use('/mcp', mcpHandler(adapter)).use(protectedResourceRouter(adapter)).listen(3000)
 * ```
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
 */
export function mcpHandler(adapter: McpAdapter): NodeMiddleware {
  const endpoint = checkEndpoint(optionChecksOf('mcpHandler'), adapter)
  return function mcpHandler(req, res, next) {
    const request = new NodeMcpRequest(req, res, endpoint.trustsProxy)
    ConnectionTurns.serve(req, res, async () => {
      try {
        const response = await endpoint.respond(request)
        await writeResponse(req, res, response, request.hasReadBody)
      } catch (error) {
        request.authenticatedBy(endpoint.gate)?.telemetry.servedHere(false)
        writeFailure(req, res, () => (next === undefined ? res.destroy() : next(error)))
      }
    })
  }
}
