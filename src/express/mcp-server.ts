import type { NodeMiddleware } from '../http/node-middleware.ts'
import { DEFAULT_MCP_PATH, withoutSlash } from '../mcp/discovery.ts'
import { endpointOf } from '../mcp/endpoint-of.ts'
import type { McpAdapter } from '../mcp/mcp-adapter.ts'
import { notFound } from '../oauth/protected-resource.ts'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { optional, type RulesFor } from '../options/option-rules.ts'
import { discoveryDocuments } from './discovery-documents.ts'
import { checkDiscovery, type McpDiscoveryOptions } from './discovery-options.ts'
import { type McpCorsOptions, mcpCors } from './mcp-cors.ts'
import { mcpHandler } from './mcp-handler.ts'
import { pathOf } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'
import { protectedResourceRouter } from './protected-resource-router.ts'

/** Options of {@link mcpServer}. */
export interface McpServerOptions {
  /**
   * The path of the MCP endpoint, for an adapter without a fixed `resource`. It is relative to the path at which the
   * middleware is mounted. Defaults to `/mcp`.
   */
  readonly path?: string | undefined
  /**
   * Serves a copy of the authorization server's metadata at the origin of the MCP server, as the option of
   * `protectedResourceRouter` does. Defaults to `false`.
   */
  readonly authorizationServerMetadata?: boolean | undefined
  /**
   * The options of `mcpCors` for the MCP endpoint. By default any origin may read responses or, with the adapter option
   * `allowedOrigins`, exactly these origins.
   */
  readonly cors?: McpCorsOptions | undefined
  /**
   * The contents of the server card and the catalog (SEP-2127), with which clients find the server before they connect. `false`
   * serves neither. Defaults to the values of `serverInfo`.
   */
  readonly discovery?: false | McpDiscoveryOptions | undefined
}

const { checkBoolean, checkPath, invalidKind, invalidOption, readOptions, unusableOption } =
  optionChecksOf('mcpServer')

const RULES = {
  path: optional(checkPath),
  authorizationServerMetadata: optional(checkBoolean, false),
  cors: optional((option, value) => {
    if (isOptionsObject(value)) return mcpCors(value)
    throw invalidKind(option, 'must be an object with options of mcpCors', value)
  }),
  discovery: checkDiscovery,
} satisfies RulesFor<McpServerOptions>

/**
 * Serves all routes of an adapter: MCP at the path of `resource`, the protected resource metadata document (RFC 9728) at its paths,
 * the server card (SEP-2127) at the path of MCP followed by `/server-card`, and the catalog with it at
 * `/.well-known/ai-catalog.json`. It sets CORS headers and responds to preflights. Other requests are passed on.
 *
 * Mount it at the root of the application. Without a fixed `resource`, MCP is served at the option `path`.
 * @param adapter the return value of `createMcpAdapter()` or `KitMcpServer…build()`.
 * @param options the path, for an adapter without a fixed `resource`, whether to serve a copy of the authorization
 * server's metadata, and what the server card says.
 * @returns middleware for Express, Connect, or a plain `http.createServer`. Without a `next` function it responds with 404
 * to requests for other paths.
 * @throws {KitMcpConfigError} if `adapter` is not an adapter, or an option is invalid or does not fit it.
 * @example
 * ```ts
 * import express from 'express'
 * import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from 'mcp-gatekit'
 *
 * const adapter = createMcpAdapter({
 *   router: KitMcpRouter.create(),
 *   oauth: {
 *     issuer: 'https://auth.example.com',
 *     resource: 'https://mcp.example.com/mcp',
 *     verifyToken: jwtVerifier(),
 *   },
 * })
 * express().use(mcpServer(adapter)).listen(3000)
 * ```
 * @see docs/guides/quick-start.md
 */
export function mcpServer(adapter: McpAdapter, options: McpServerOptions = {}): NodeMiddleware {
  const endpoint = endpointOf(adapter)
  if (endpoint === undefined) {
    throw invalidKind(
      'adapter',
      'must be the return value of KitMcpServer…build() or createMcpAdapter()',
      adapter,
    )
  }
  const expected = 'must be an object such as { path: "/mcp" }'
  const { path, authorizationServerMetadata, cors, discovery } = readOptions(
    'mcpServer',
    expected,
    options,
    RULES,
    'options',
  )
  if (authorizationServerMetadata && endpoint.gate === undefined) {
    throw unusableOption(
      'authorizationServerMetadata',
      'must not be set for an adapter without OAuth',
      'Remove the option, or set oauth.',
    )
  }
  const resource = endpoint.gate?.options.resource
  if (resource !== undefined && path !== undefined) {
    throw invalidOption(
      'path',
      'must not be set together with the OAuth option resource, whose path is used',
      path,
      'remove path, or change resource',
    )
  }
  const given = resource === undefined ? (path ?? DEFAULT_MCP_PATH) : new URL(resource).pathname
  const endpointPath = withoutSlash(given)
  const isEndpoint = (path: string): boolean => path === endpointPath || path === `${endpointPath}/`
  endpoint.discovery.configure(discovery, given)
  const documents =
    discovery === false ? undefined : discoveryDocuments(endpoint, endpointPath, discovery.catalog)
  const handler = mcpHandler(adapter)
  const metadata =
    endpoint.gate === undefined
      ? undefined
      : protectedResourceRouter(adapter, { authorizationServerMetadata })

  return function mcpServer(req, res, next = () => writePlainResponse(req, res, notFound())) {
    // A fixed resource names the whole path; the option `path` is relative to the mount path, which Express removes.
    const target = resource === undefined ? req.url : (req.originalUrl ?? req.url)
    const requested = pathOf(target)
    if (!isEndpoint(requested)) {
      if (documents?.(req, res, requested) === true) return
      if (metadata === undefined) next()
      else metadata(req, res, next)
    } else if (cors === undefined) handler(req, res, next)
    else cors(req, res, (error?: unknown) => (error === undefined ? handler(req, res, next) : next(error)))
  }
}
