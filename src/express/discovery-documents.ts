import type { ServerResponse } from 'node:http'
import type { NodeRequest } from '../http/node-middleware.ts'
import { CARD_SUFFIX, CATALOG_PATH } from '../mcp/discovery.ts'
import type { McpEndpoint } from '../mcp/endpoint.ts'
import { documentRequest } from '../mcp/wire/document-request.ts'
import { NodeMcpRequest, pathOf } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'

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
    if (!isCard && !(hasCatalog && isCatalogPath(req))) return false
    const request = documentRequest(new NodeMcpRequest(req, res, trustsProxy))
    writePlainResponse(req, res, isCard ? discovery.card(request) : discovery.catalog(request))
    return true
  }
}

/** Returns `true` for a request for the catalog, which is at the root of the host. */
export function isCatalogPath(req: NodeRequest): boolean {
  return pathOf(req.originalUrl ?? req.url) === CATALOG_PATH
}
