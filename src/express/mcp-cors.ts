import cors from 'cors'
import { CORS_EXPOSED_HEADERS, CORS_METHODS, corsRequestHeaders } from '../base/http/cors-headers.ts'
import type { NodeMiddleware } from '../base/http/node-middleware.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'
import { Instrumentation } from '../mcp/instrumentation/instrumentation.ts'
import { checkTelemetry, type TelemetryOption } from '../mcp/telemetry-option.ts'
import { FORBIDDEN_SENDER, forbiddenHeader, originRules } from '../mcp/wire/origin-policy.ts'
import { decideCors } from './cors-decision.ts'
import { type AllowedOriginsOptions, originPolicyOf } from './mcp-auth-options.ts'
import { isPreflight, NodeMcpRequest } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'

const checks = optionChecksOf('mcpCors')
const { invalidOption, readOptions } = checks

/** An origin or a rule for origins, as in the `cors` package. */
export type CorsOrigin = boolean | string | RegExp | (boolean | string | RegExp)[]

/** Options of {@link mcpCors}. */
export interface McpCorsOptions extends AllowedOriginsOptions {
  /**
   * The origins that may read responses, as in the `cors` package. Defaults to the list `allowedOrigins` or, without one, to
   * `*`, without credentials.
   */
  readonly origin?:
    | CorsOrigin
    | ((
        requestOrigin: string | undefined,
        callback: (error: Error | null, origin?: CorsOrigin) => void,
      ) => void)
    | undefined
  /**
   * The telemetry manager that receives the requests which are refused for their `Origin` or `Host`. By default, they are written
   * to stderr: at most 10 lines a minute. `false` turns these lines off.
   */
  readonly telemetry?: TelemetryOption | undefined
}

/**
 * Creates CORS middleware for MCP routes. It responds to preflights and sets the headers of every response, including
 * refusals. Mount it before `mcpAuth`. `mcpHandler` and `mcpServer` do not need it, unless you restrict the origins.
 *
 * With `allowedOrigins` or `allowedHosts`, it also responds with 403 to requests whose `Origin` or `Host` is not allowed.
 * @param options the origins that may read responses, and the origins and hosts that may send requests.
 * @returns middleware for Express, Connect, or a plain `http.createServer`.
 * @throws {KitMcpConfigError} if an option is invalid.
 * @example
 * ```ts
 * import express from 'express'
 * import { jwtVerifier, mcpAuth, mcpCors } from 'mcp-gatekit'
 *
 * const oauth = {
 *   issuer: 'https://auth.example.com',
 *   resource: 'https://mcp.example.com/mcp',
 *   verifyToken: jwtVerifier(),
 * }
 * express().use('/mcp', mcpCors({ origin: 'https://app.example.com' }), mcpAuth(oauth))
 * ```
 * @see docs/guides/browsers.md
 */
export function mcpCors(options: McpCorsOptions = {}): NodeMiddleware {
  const expected = `must be called with an object such as { origin: 'https://app.example.com' }`
  const { origin, telemetry, ...policy } = readOptions('mcpCors', expected, options, RULES)
  const originPolicy = originPolicyOf(policy)
  const observer = new Instrumentation(telemetry, {}, false)
  const { allowedOrigins } = policy
  const readers = origin ?? (typeof allowedOrigins === 'object' ? [...allowedOrigins] : '*')
  const fixed = { origin: readers, methods: [...CORS_METHODS], exposedHeaders: [...CORS_EXPOSED_HEADERS] }
  const middleware = cors((req, callback) => {
    const requested = req.headers['access-control-request-headers']
    callback(null, {
      ...fixed,
      allowedHeaders: [...corsRequestHeaders(Array.isArray(requested) ? requested.join(',') : requested)],
    })
  })
  return function mcpCors(req, res, next = () => undefined) {
    // The allowed headers of a preflight response depend on the requested ones.
    if (req.method === 'OPTIONS') res.appendHeader('Vary', 'Access-Control-Request-Headers')
    decideCors(res)
    const request = new NodeMcpRequest(req, res, false)
    const forbidden = originPolicy && forbiddenHeader(request, originPolicy)
    if (forbidden !== undefined) void observer.forbidden(request, forbidden)
    const refuse = (): void => writePlainResponse(req, res, FORBIDDEN_SENDER)
    // A refused preflight allows nothing.
    if (forbidden !== undefined && isPreflight(req)) return refuse()
    middleware(
      req as Parameters<typeof middleware>[0],
      res,
      forbidden === undefined ? next : (error) => (error === undefined ? refuse() : next(error)),
    )
  }
}

const RULES = {
  origin: optional((option, origin) => {
    const expected =
      "must be true, false, a string, a RegExp, an array of these, or a function, as in the package 'cors'"
    for (const rule of typeof origin === 'function' ? [] : [origin].flat())
      if (typeof rule !== 'boolean' && typeof rule !== 'string' && !(rule instanceof RegExp))
        throw invalidOption(option, expected, rule)
    return origin as NonNullable<McpCorsOptions['origin']>
  }),
  telemetry: optional((_option, value) => checkTelemetry(value as TelemetryOption, checks)),
  ...originRules(checks),
} satisfies RulesFor<McpCorsOptions>
