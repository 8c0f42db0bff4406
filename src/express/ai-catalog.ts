import type { ServerResponse } from 'node:http'
import type { NodeMiddleware, NodeRequest } from '../base/http/node-middleware.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { CARD_SUFFIX, CATALOG_PATH, catalogResponse } from '../mcp/discovery.ts'
import type { McpEndpoint } from '../mcp/endpoint.ts'
import { endpointOf } from '../mcp/endpoint-of.ts'
import type { McpAdapter } from '../mcp/mcp-adapter.ts'
import { NodeMcpRequest } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'

const { invalidKind } = optionChecksOf('aiCatalog')

/**
 * Serves the catalog of several servers at `/.well-known/ai-catalog.json`, in place of the catalogs that `mcpServer` serves for one
 * server each. Mount it in front of `mcpServer`, at the root of the application. Other requests are passed on.
 *
 * A server with `discovery: false` is left out. The identifiers of the servers must differ: of servers with the same one, the
 * catalog contains only the first, and a warning is written.
 * @param adapters the return values of `createMcpAdapter()` or `KitMcpServer…build()`.
 * @returns middleware for Express, Connect, or a plain `http.createServer`.
 * @throws {KitMcpConfigError} if `adapters` is not an array of adapters.
 * @example
 * ```ts
 * import express from 'express'
 * import { aiCatalog, createMcpAdapter, KitMcpRouter, mcpServer } from 'mcp-gatekit'
 *
 * const router = KitMcpRouter.create()
 * const notes = createMcpAdapter({ router, serverInfo: { name: 'notes', version: '1.0.0' } })
 * const tasks = createMcpAdapter({ router, serverInfo: { name: 'tasks', version: '1.0.0' } })
 *
 * express()
 *   .use(aiCatalog([notes, tasks]))
 *   .use(mcpServer(notes, { path: '/notes' }))
 *   .use(mcpServer(tasks, { path: '/tasks' }))
 *   .listen(3000)
 * ```
 * @see docs/guides/discovery.md
 */
export function aiCatalog(adapters: readonly McpAdapter[]): NodeMiddleware {
  const expected = 'must be an array of return values of KitMcpServer…build() or createMcpAdapter()'
  if (!Array.isArray(adapters) || adapters.length === 0) throw invalidKind('adapters', expected, adapters)
  const endpoints = adapters.map((adapter) => {
    const endpoint = endpointOf(adapter)
    if (endpoint === undefined) throw invalidKind('adapters', expected, adapter)
    return endpoint
  })
  const servers = endpoints.map(({ discovery }) => discovery)
  const trustsProxy = endpoints.every((endpoint) => endpoint.trustsProxy)
  return function aiCatalog(req, res, next = () => undefined) {
    const request = new NodeMcpRequest(req, res, trustsProxy)
    if (request.path !== CATALOG_PATH) return next()
    writePlainResponse(req, res, catalogResponse(servers, request))
  }
}

/**
 * Returns a function that responds to requests for the server card or the catalog of an endpoint, and returns `false` for others.
 * @param endpointPath the path of the endpoint without the slash at its end
 * @param hasCatalog `true` if the catalog is served
 */
export function discoveryDocuments(
  { discovery, trustsProxy }: McpEndpoint,
  endpointPath: string,
  hasCatalog: boolean,
): (req: NodeRequest, res: ServerResponse, path: string) => boolean {
  const cardPath = endpointPath + CARD_SUFFIX
  return (req, res, path) => {
    const isCard = path === cardPath
    const request = new NodeMcpRequest(req, res, trustsProxy)
    // The catalog is at the root of the host.
    if (!isCard && !(hasCatalog && request.path === CATALOG_PATH)) return false
    writePlainResponse(req, res, isCard ? discovery.card(request) : discovery.catalog(request))
    return true
  }
}
