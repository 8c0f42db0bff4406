import type { NodeMiddleware } from '../base/http/node-middleware.ts'
import { definedMembers } from '../base/options/defined-members.ts'
import { isOptionsObject, optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'
import { DEFAULT_MCP_PATH, withoutSlash } from '../mcp/discovery.ts'
import type { McpAdapter } from '../mcp/mcp-adapter.ts'
import { type CardRepository, isCardName, isCardText, isUri } from '../mcp/server-card.ts'
import { notFound } from '../oauth/metadata/protected-resource.ts'
import { discoveryDocuments } from './ai-catalog.ts'
import { type McpCorsOptions, mcpCors } from './mcp-cors.ts'
import { mcpHandler } from './mcp-handler.ts'
import { pathOf } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'
import { protectedResourceRouter } from './protected-resource-router.ts'
import { checkEndpoint } from './target.ts'

/** The contents of the server card and the catalog. */
export interface McpDiscoveryOptions {
  /**
   * The name in reverse-DNS form, such as `com.example/notes`. Defaults to `serverInfo.name` if it has this form, or else to a name
   * that begins with the host of the resource.
   */
  readonly name?: string | undefined
  /** One sentence for people, of at most 100 characters. Defaults to the description, title, or name of `serverInfo`. */
  readonly description?: string | undefined
  /** The source code of the server. By default, none is named. */
  readonly repository?: CardRepository | undefined
  /** The identifier in catalogs. Defaults to `urn:air:<host>:mcp:<part of the name behind the slash>`. */
  readonly identifier?: string | undefined
  /** Serves a catalog with this server at `/.well-known/ai-catalog.json`. Defaults to `true`. */
  readonly catalog?: boolean | undefined
}

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

const checks = optionChecksOf('mcpServer')

const RULES = {
  path: optional(checks.checkPath),
  authorizationServerMetadata: optional(checks.checkBoolean, false),
  cors: optional((option, value) => {
    if (isOptionsObject(value)) return mcpCors(value)
    throw checks.invalidKind(option, 'must be an object with options of mcpCors', value)
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
  const endpoint = checkEndpoint(checks, adapter)
  const { path, authorizationServerMetadata, cors, discovery } = checks.readOptions(
    'mcpServer',
    'must be an object such as { path: "/mcp" }',
    options,
    RULES,
    'options',
  )
  const problem = 'must not be set for an adapter without OAuth'
  if (authorizationServerMetadata && endpoint.gate === undefined)
    throw checks.unusableOption('authorizationServerMetadata', problem, 'Remove the option, or set oauth.')
  const resource = endpoint.gate?.options.resource
  const both = 'must not be set together with the OAuth option resource, whose path is used'
  if (resource !== undefined && path !== undefined)
    throw checks.invalidOption('path', both, path, 'remove path, or change resource')
  const given = resource === undefined ? (path ?? DEFAULT_MCP_PATH) : new URL(resource).pathname
  const endpointPath = withoutSlash(given)
  const isEndpoint = (path: string): boolean => path === endpointPath || path === `${endpointPath}/`
  endpoint.discovery.configure(discovery, given)
  const documents = discovery ? discoveryDocuments(endpoint, endpointPath, discovery.catalog) : undefined
  const handler = mcpHandler(adapter)
  const metadata = endpoint.gate && protectedResourceRouter(adapter, { authorizationServerMetadata })

  return function mcpServer(req, res, next = () => writePlainResponse(req, res, notFound())) {
    // A fixed resource names the whole path; the option `path` is relative to the mount path, which Express removes.
    const target = resource === undefined ? req.url : (req.originalUrl ?? req.url)
    const requested = pathOf(target)
    if (!isEndpoint(requested)) {
      if (documents?.(req, res, requested)) return
      if (metadata === undefined) next()
      else metadata(req, res, next)
    } else if (cors === undefined) handler(req, res, next)
    else cors(req, res, (error?: unknown) => (error === undefined ? handler(req, res, next) : next(error)))
  }
}

const MAX_IDENTIFIER = 1_024

const REPOSITORY_RULES = {
  url: checks.required(
    checks.fitting<string>(isUri, `must be an absolute URL such as 'https://github.com/acme/notes'`),
    `set it to the URL of the source code, such as 'https://github.com/acme/notes'`,
  ),
  source: checks.required(checks.text, `set it to the hosting service, such as 'github'`),
  id: optional(checks.text),
  subfolder: optional(checks.text),
} satisfies RulesFor<CardRepository>

const readRepository = checks.members(
  `must be an object such as { url: 'https://github.com/acme/notes', source: 'github' }`,
  REPOSITORY_RULES,
)

const DISCOVERY_RULES = {
  name: optional(
    checks.fitting<string>(
      (name) => typeof name === 'string' && isCardName(name),
      `must be a name in reverse-DNS form such as 'com.example/notes', of at most 200 characters`,
      'Use letters, digits, dots, and hyphens, and underscores behind the only slash.',
    ),
  ),
  description: optional(
    checks.fitting<string>(
      (text) => typeof text === 'string' && isCardText(text),
      'must be a string of 1 to 100 characters',
    ),
  ),
  // Members that are undefined are not in the card.
  repository: optional((option, value, given) => definedMembers(readRepository(option, value, given))),
  identifier: optional(
    checks.fitting<string>(
      (urn) => isUri(urn) && urn.startsWith('urn:') && urn.length <= MAX_IDENTIFIER,
      `must be a URN such as 'urn:air:example.com:mcp:notes'`,
    ),
  ),
  catalog: optional(checks.checkBoolean, true),
} satisfies RulesFor<McpDiscoveryOptions>

/** Checks the option `discovery` of `mcpServer`. */
function checkDiscovery(option: string, value: unknown = {}): false | ReadBy<typeof DISCOVERY_RULES> {
  if (value === false) return value
  if (isOptionsObject(value)) return checks.readMembers(option, value, DISCOVERY_RULES)
  const expected = 'must be false, or an object with at least one option'
  throw checks.invalidKind(option, expected, value, 'Omit it for the default.')
}
