import { preflightHeaders } from '../http/cors-headers.ts'
import type { NodeMiddleware } from '../http/node-middleware.ts'
import { NodeMcpRequest } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'
import { type GateTarget, resolveTarget } from './target.ts'

/**
 * Serves the protected resource metadata document (RFC 9728) at `resourceMetadataPath` and in the path-suffixed form of §3.1,
 * which challenges then name. It also responds to preflights for these paths. Other requests are passed on. Mount it at the
 * root of the application.
 * @param target the object that you pass to `mcpAuth` or `mcpHandler`: OAuth options or an adapter.
 * @returns middleware for Express, Connect, or a plain `http.createServer`.
 * @throws {KitMcpConfigError} if an option is invalid, or the adapter has no OAuth.
 * @example
 * ```ts
 * import express from 'express'
 * import { jwtVerifier, mcpAuth, protectedResourceRouter } from 'mcp-gatekit'
 *
 * const oauth = {
 *   issuer: 'https://auth.example.com',
 *   resource: 'https://mcp.example.com/mcp',
 *   verifyToken: jwtVerifier(),
 * }
 * express().use(protectedResourceRouter(oauth)).use('/mcp', mcpAuth(oauth))
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc9728#section-3
 */
export function protectedResourceRouter(target: GateTarget): NodeMiddleware {
  const { gate } = resolveTarget(target)
  gate.announceSuffixedMetadata()
  return function protectedResourceRouter(req, res, next = () => undefined) {
    if (req.method === 'GET' && req.headers['if-none-match'] === undefined) {
      const whole = gate.resource.wholeAt(req.originalUrl ?? req.url ?? '')
      if (whole !== undefined && !res.headersSent) {
        res.writeHead(whole.status, whole.headers)
        res.end(whole.body)
        return
      }
    }
    const request = new NodeMcpRequest(req, res, gate.options.trustProxy)
    const { path, method } = request
    if (!gate.resource.owns(path)) return next()
    if (method === 'OPTIONS') {
      const headers = preflightHeaders(request.header('access-control-request-headers'))
      return writePlainResponse(req, res, { status: 204, headers })
    }
    const response = gate.resource.respond({
      method,
      path,
      get origin() {
        return request.origin
      },
      ifNoneMatch: request.header('if-none-match'),
      get request() {
        return request.request
      },
    })
    if (response === undefined) next()
    else writePlainResponse(req, res, response)
  }
}
