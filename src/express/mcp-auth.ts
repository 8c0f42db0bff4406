import type { NodeMiddleware } from '../base/http/node-middleware.ts'
import type { PlainResponse } from '../base/http/plain-response.ts'
import { onceClosed } from '../base/http/response-close.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import type { Authenticator } from '../mcp/authenticator.ts'
import { endpointOf } from '../mcp/endpoint-of.ts'
import { Instrumentation } from '../mcp/instrumentation/instrumentation.ts'
import type { Exchange } from '../mcp/wire/exchange.ts'
import { CLIENT_GONE, sessionNotFound } from '../mcp/wire/json-rpc.ts'
import { corsHeadersFor, FORBIDDEN_SENDER, forbiddenHeader } from '../mcp/wire/origin-policy.ts'
import { mirroredMessage } from '../mcp/wire/request-headers.ts'
import { notFound } from '../oauth/metadata/protected-resource.ts'
import type { ResolvedOAuthOptions } from '../oauth/options.ts'
import { ownerOf } from '../oauth/owner.ts'
import { authenticatedBy, setAuthenticated } from './authenticated-requests.ts'
import { BoundSessions } from './bound-sessions.ts'
import { restrictCors } from './cors-decision.ts'
import { type McpAuthOptions, resolveMcpAuthOptions } from './mcp-auth-options.ts'
import { holdsMessages, isPreflight, NodeMcpRequest } from './node-request.ts'
import { writeFailure, writePlainResponse } from './node-response.ts'
import { judgeOperations, ReplayedRequest } from './replayed-request.ts'
import { type GateTarget, resolveTarget } from './target.ts'

const { unusableOption } = optionChecksOf('oauth')

/** The maximum number of messages of a batch that are recorded. */
const MAX_MESSAGES = 100

/**
 * Requires a valid access token (RFC 6750), for any route. It sets `req.auth` to an `AuthInfo`, which has the shape of the
 * official SDK's type, plus `user`. CORS preflights pass without a token.
 *
 * For an adapter, `mcpAuth` checks the scopes of the endpoint. `mcpHandler` then checks those of the operation, without
 * verifying the token again. With the OAuth option `anonymous` it passes on a request without a token only if the parsed
 * body, or `Mcp-Method` and `Mcp-Name`, name a public operation. `mcpHandler` then decides by the body.
 * @param target OAuth options, or the return value of `createMcpAdapter()` or `KitMcpServer…build()`. Pass the same object
 * to `protectedResourceRouter`.
 * @param options telemetry, scopes of operations, and `bindSessions` for a gate in front of another server, and checks of
 * `Origin` and `Host`.
 * With `scopes`, it reads the body unless a parser has (at most 4 MiB of JSON within 30 s), and sets `req.body`. The server can
 * still read the request as a stream. A body that it cannot judge is refused (400, 408, 413, 415).
 * @returns middleware for Express, Connect, or a plain `http.createServer`.
 * @throws {KitMcpConfigError} if an option is invalid, the adapter has no OAuth, or `telemetry` or `scopes` is set for an
 * adapter.
 * @example
 * ```ts
 * import express from 'express'
 * import { jwtVerifier, mcpAuth, protectedResourceRouter } from 'mcp-gatekit'
 *
 * const oauth = {
 *   issuer: 'https://auth.example.com',
 *   resource: 'https://mcp.example.com/mcp',
 *   scopes: ['mcp:read'],
 *   verifyToken: jwtVerifier(),
 * }
 * express()
 *   .use(protectedResourceRouter(oauth))
 *   .use('/mcp', mcpAuth(oauth), (_req, res) => res.send('Only with a token'))
 * ```
 * @see docs/guides/existing-servers.md
 */
export function mcpAuth(target: GateTarget, options: McpAuthOptions = {}): NodeMiddleware {
  const isAdapter = endpointOf(target) !== undefined
  const { telemetry, recordSpans, originPolicy, scopes, bindSessions } = resolveMcpAuthOptions(
    options,
    isAdapter,
  )
  const observer = new Instrumentation(telemetry, { recordSpans }, false)
  const { gate, authenticator } = resolveTarget(target, observer, scopes)
  if (!isAdapter) refuseOptionsForOperations(gate.options)
  const { trustProxy } = gate.options
  const sessions = bindSessions ? BoundSessions.of(target) : undefined
  const RequestClass = scopes === undefined ? NodeMcpRequest : ReplayedRequest

  async function authenticate(
    request: NodeMcpRequest,
    next: () => void,
    known: (() => readonly unknown[]) | undefined,
  ): Promise<void> {
    const { req, res } = request
    try {
      const exchange = await authenticator.authenticate(request, known)
      if ('response' in exchange) return writePlainResponse(req, res, exchange.response, request.hasReadBody)
      // Computed before later middleware can change `req.auth`.
      const owner = sessions === undefined ? '' : ownerOf(exchange.auth)
      const judged = sessions?.refuses(req, owner)
        ? refuseSession(exchange)
        : request instanceof ReplayedRequest
          ? judgeOperations(authenticator, exchange, request)
          : refusal(authenticator, exchange, request)
      const refused = judged instanceof Promise ? await judged : judged
      if (refused !== undefined) return writePlainResponse(req, res, refused)
      setAuthenticated(req, exchange, isAdapter)
      if (exchange.telemetry.isOpen) completeWithResponse(exchange, request, isAdapter)
      try {
        if (isAdapter) next()
        else exchange.telemetry.run(next)
      } finally {
        sessions?.note(req, res, owner)
      }
    } catch {
      // Later middleware has thrown. Express catches such errors itself; a plain server does not.
      writeFailure(req, res)
    }
  }

  return function mcpAuth(req, res, next = () => writePlainResponse(req, res, notFound())) {
    const request = new RequestClass(req, res, trustProxy)
    if (originPolicy !== undefined && typeof originPolicy.allowedOrigins === 'object')
      restrictCors(res, corsHeadersFor(request, originPolicy))
    const forbidden = originPolicy && forbiddenHeader(request, originPolicy)
    if (forbidden !== undefined) {
      void observer.forbidden(request, forbidden)
      return writePlainResponse(req, res, FORBIDDEN_SENDER)
    }
    if (isPreflight(req) || authenticatedBy(req, gate) !== undefined) return next()
    const known = gate.options.anonymous ? () => messagesOf(request) : undefined
    // `mcpHandler` reads the body and decides again.
    if (known !== undefined && authenticator.mayAdmit(request) && authenticator.arePublic(known()))
      return next()
    void authenticate(request, next, known)
  }
}

/** Refuses a request that names the session of another owner. */
function refuseSession({ telemetry }: Exchange): PlainResponse {
  const response = sessionNotFound()
  telemetry.finished({ status: response.status })
  return response
}

/** @throws {KitMcpConfigError} if OAuth options are about operations, which `mcpAuth(oauthOptions)` does not know. */
function refuseOptionsForOperations({ securitySchemes, anonymous }: ResolvedOAuthOptions): void {
  if (!securitySchemes && !anonymous) return
  const option = securitySchemes ? 'securitySchemes' : 'anonymous'
  const problem = securitySchemes ? 'list tools' : 'know the operations'
  throw unusableOption(
    option,
    `must not be set for mcpAuth(oauthOptions), which does not ${problem}`,
    `Set it in the OAuth options of createMcpAdapter or withOAuth${securitySchemes ? '' : ', and serve the adapter with mcpHandler'}.`,
  )
}

/**
 * Refuses a request whose token lacks the scopes of the endpoint. The challenge also names those of the operation, if they are
 * known.
 */
function refusal(
  authenticator: Authenticator,
  exchange: Exchange,
  request: NodeMcpRequest,
): Promise<PlainResponse> | undefined {
  if (exchange.auth === undefined || exchange.gate?.permits(exchange.auth.scopes) !== false) return undefined
  return authenticator.refuseScopes(exchange, request, authenticator.operationScopes(messagesOf(request)))
}

/** Returns the messages that a body parser has read, or the part of a message that headers describe. */
function messagesOf(request: NodeMcpRequest): readonly unknown[] {
  return holdsMessages(request.req) ? [request.req.body].flat() : [mirroredMessage(request)]
}

/** Records the response if something other than `mcpHandler` serves the route. */
function completeWithResponse({ telemetry }: Exchange, request: NodeMcpRequest, isAdapter: boolean): void {
  const { req, res } = request
  onceClosed(req, res, () => {
    if (!telemetry.isOpen) return
    // Of another server, the messages are known only if a body parser has read them in the meantime.
    const messages = isAdapter ? [] : messagesOf(request)
    if (messages.length > 0 && messages.length <= MAX_MESSAGES)
      telemetry.received(request.header('mcp-protocol-version'), messages, undefined)
    telemetry.finished({ status: res.headersSent ? res.statusCode : CLIENT_GONE.status })
  })
}
