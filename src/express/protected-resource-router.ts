import { preflightHeaders } from '../http/cors-headers.ts'
import type { NodeMiddleware } from '../http/node-middleware.ts'
import { NodeMcpRequest } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'
import { type GateTarget, resolveTarget } from './target.ts'

/**
 * Serves the protected resource metadata document (RFC 9728) and its preflight, at `resourceMetadataPath` and
 * in the path-suffixed form of §3.1, which challenges then name. Everything else passes on.
 * Mount it at the root: `app.use(protectedResourceRouter(adapter))`.
 * @param target the same OAuth options or adapter that `mcpAuth` got.
 * @throws {KitMcpConfigError} for wrong options, or an adapter without OAuth.
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
    const incoming = new NodeMcpRequest(req, res, gate.options.trustProxy)
    const { path, method } = incoming
    if (!gate.resource.owns(path)) return next()
    if (method === 'OPTIONS') {
      const headers = preflightHeaders(incoming.header('access-control-request-headers'))
      return writePlainResponse(req, res, { status: 204, headers })
    }
    const answer = gate.resource.respond({
      method,
      path,
      get origin() {
        return incoming.origin
      },
      ifNoneMatch: incoming.header('if-none-match'),
      get request() {
        return incoming.request
      },
    })
    if (answer === undefined) next()
    else writePlainResponse(req, res, answer)
  }
}
