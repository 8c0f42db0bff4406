import {
  type JSONRPCRequest,
  type MessageClassification,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import { MODERN_REVISION } from '../../revisions.ts'
import type { RouterTable } from '../../router/router-table.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'
import { classifyRequest } from './classification.ts'

/** A request that the fast path can serve. */
export type FastRequest =
  | {
      readonly era: 'modern'
      readonly message: JSONRPCRequest
      readonly classification: MessageClassification
    }
  | { readonly era: 'legacy'; readonly message: JSONRPCRequest }

/** By method, the parameter that the header `Mcp-Name` mirrors (SEP-2243), or `''` if there is none. */
const MIRRORED: ReadonlyMap<string, '' | 'name' | 'uri'> = new Map([
  ['tools/call', 'name'],
  ['tools/list', ''],
  ['prompts/get', 'name'],
  ['prompts/list', ''],
  ['resources/read', 'uri'],
  ['resources/list', ''],
  ['resources/templates/list', ''],
  ['completion/complete', ''],
] as const)

/**
 * Returns `body` as a request for the fast path, if it is one: a single well-formed JSON-RPC request of a known method, whose
 * headers agree with it and do not repeat arguments. Returns undefined for every other body, which the handler of the SDK
 * serves.
 */
export function fastRequest(request: McpRequest, body: unknown, table: RouterTable): FastRequest | undefined {
  const { method, params } = (body ?? {}) as { method?: unknown; params?: Record<string, unknown> | null }
  const mirrored = MIRRORED.get(method as string)
  if (mirrored === undefined) return undefined
  if (method === 'tools/call' && table.tools.get(params?.name as string)?.declaresHeaders === true)
    return undefined
  const protocolVersionHeader = request.header('mcp-protocol-version')
  const mcpMethodHeader = request.header('mcp-method')
  const mcpNameHeader = request.header('mcp-name')
  const classification = classifyRequest(
    () => ({
      ...(protocolVersionHeader !== undefined && { protocolVersionHeader }),
      ...(mcpMethodHeader !== undefined && { mcpMethodHeader }),
      ...(mcpNameHeader !== undefined && { mcpNameHeader }),
    }),
    body,
  )
  if (classification === undefined) return undefined
  const message = body as JSONRPCRequest
  if (classification === 'legacy') {
    const isServed =
      protocolVersionHeader === undefined || SUPPORTED_PROTOCOL_VERSIONS.includes(protocolVersionHeader)
    return isServed && acceptsBoth(request.header('accept')) ? { era: 'legacy', message } : undefined
  }
  const headersAgree =
    classification.revision === MODERN_REVISION &&
    protocolVersionHeader === MODERN_REVISION &&
    mcpMethodHeader === method &&
    (mirrored === '' || (mcpNameHeader === params?.[mirrored] && isUnencoded(mcpNameHeader)))
  return headersAgree ? { era: 'modern', message, classification } : undefined
}

/** Returns `true` if a header value is not encoded as `=?base64?…?=`. */
function isUnencoded(value: string | undefined): boolean {
  return value !== undefined && !value.startsWith('=?')
}

/** Returns `true` if a client accepts JSON and event streams. Unlike the SDK, accepts wildcards. */
function acceptsBoth(accept: string | undefined): boolean {
  if (accept === undefined || accept.includes('*/*')) return true
  return accept.includes('application/json') && accept.includes('text/event-stream')
}
