import type { ServerResponse } from 'node:http'
import type { NodeMiddleware, NodeRequest } from '../http/node-middleware.ts'
import type { PlainResponse } from '../http/plain-response.ts'
import { onceClosed } from '../http/response-close.ts'
import type { Authenticator } from '../mcp/authenticator.ts'
import type { Exchange } from '../mcp/wire/exchange.ts'
import { CLIENT_GONE } from '../mcp/wire/json-rpc.ts'
import { mirroredMessage } from '../mcp/wire/mirrored-headers.ts'
import { notFound } from '../oauth/protected-resource.ts'
import { FAILED_ANSWER } from '../oauth/refusal-answers.ts'
import { authenticatedBy, setAuthenticated } from './authenticated-requests.ts'
import { holdsMessages, isPreflight, NodeMcpRequest } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'
import { type GateTarget, resolveTarget } from './target.ts'

/**
 * Requires a valid bearer token (RFC 6750), whatever serves the route behind it. The outcome is on
 * `req.auth`, in the shape of the official SDK's `AuthInfo` plus `user`. A CORS preflight passes.
 *
 * For an adapter, `mcpAuth` checks the scopes of the endpoint. `mcpHandler` checks those of the operation, and does not
 * verify the token again.
 * @param target OAuth options, or what `KitMcpServer…build()` or `createMcpAdapter()` returned.
 * @throws {KitMcpConfigError} for wrong options, or an adapter without OAuth.
 */
export function mcpAuth(target: GateTarget): NodeMiddleware {
  const { gate, authenticator, isAdapter } = resolveTarget(target)
  const { trustProxy } = gate.options
  return function mcpAuth(req, res, next = () => writePlainResponse(req, res, notFound())) {
    if (isPreflight(req) || authenticatedBy(req, gate) !== undefined) return next()
    const request = new NodeMcpRequest(req, res, trustProxy)
    authenticator
      .authenticate(request)
      .then((result) => {
        const refused =
          'response' in result ? result.response : refusal(authenticator, result.exchange, request, req)
        if (refused instanceof Promise)
          return refused.then((response) => writePlainResponse(req, res, response))
        if (refused !== undefined) return writePlainResponse(req, res, refused)
        const { exchange } = result as { exchange: Exchange }
        setAuthenticated(req, exchange, isAdapter)
        if (exchange.telemetry.isOpen) completeWithResponse(exchange, req, res)
        next()
      })
      // Only the middleware behind can have thrown here: Express catches that itself, a bare server does not.
      .catch(() => {
        // A response that has begun cannot be replaced. Left open, the client would wait for its end forever.
        if (res.headersSent) res.destroy()
        else writePlainResponse(req, res, FAILED_ANSWER)
      })
  }
}

/** Refuses a token without the endpoint's scopes. The challenge also names the operation's, if they can be known. */
function refusal(
  authenticator: Authenticator,
  exchange: Exchange,
  request: NodeMcpRequest,
  req: NodeRequest,
): Promise<PlainResponse> | undefined {
  if (exchange.auth === undefined || exchange.gate?.permits(exchange.auth.scopes) !== false) return undefined
  const messages = holdsMessages(req) ? [req.body].flat() : [mirroredMessage(request)]
  return authenticator.refuseScopes(exchange, request, authenticator.operationScopes(messages))
}

/** If something other than `mcpHandler` serves the route, its response ends the telemetry. */
function completeWithResponse({ telemetry }: Exchange, req: NodeRequest, res: ServerResponse): void {
  onceClosed(req, res, () => {
    if (!telemetry.isOpen) return
    telemetry.accepted()
    telemetry.completed(res.headersSent ? res.statusCode : CLIENT_GONE.status)
  })
}
