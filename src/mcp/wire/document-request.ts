import type { MetadataRequest } from '../../oauth/metadata/protected-resource.ts'
import type { McpRequest } from './mcp-request.ts'

/** Returns a request for a document. Its origin and its web-standard form are computed if they are read. */
export function documentRequest(request: McpRequest, path: string = request.path): MetadataRequest {
  return {
    method: request.method,
    path,
    get origin() {
      return request.origin
    },
    ifNoneMatch: request.header('if-none-match'),
    get request() {
      return request.request
    },
  }
}
