import { isJsonContentType } from '@modelcontextprotocol/server'
import type { BodyLimits, BodyMemory } from '../../http/body-reader.ts'
import { jsonRpcError, type ParsedMessages, parseMessages } from './json-rpc.ts'
import type { McpRequest } from './mcp-request.ts'

/** Reads the body of a POST within its limits and its memory, and parses it. */
export async function receiveMessages(
  request: McpRequest,
  limits: BodyLimits,
  memory?: BodyMemory,
): Promise<ParsedMessages> {
  if (!isJsonContentType(request.header('content-type') ?? null)) {
    return {
      response: jsonRpcError(415, -32_000, 'Unsupported Media Type: Content-Type must be application/json'),
    }
  }
  const read = await request.readBody(limits, memory)
  return parseMessages(read, request.header('mcp-protocol-version'), request, memory)
}
