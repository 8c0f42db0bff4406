import type { PlainResponse } from '../../base/http/plain-response.ts'
import type { ChallengeResult } from '../../oauth/refusal-responses.ts'
import { methodNamed } from '../methods.ts'
import { MODERN_REVISION } from '../revisions.ts'
import { isTooLong } from './json-rpc.ts'
import type { McpRequest } from './mcp-request.ts'

/** Names in the `User-Agent` of OpenAI's clients, which look for a challenge in the result of a tool call. */
const OPENAI = ['openai', 'chatgpt']

/** Returns `true` if a refused call of this client is answered with a tool result. */
export function receivesResult(
  challengeInResult: true | 'auto',
  request: Pick<McpRequest, 'method' | 'header'>,
): boolean {
  if (request.method !== 'POST') return false
  if (challengeInResult === true) return true
  const agent = request.header('user-agent')?.toLowerCase() ?? ''
  return OPENAI.some((name) => agent.includes(name))
}

/** Returns the id of a tool call; `undefined` for a batch, another message, or an id that MCP does not allow. */
export function calledId(body: unknown): string | number | undefined {
  if (typeof body !== 'object' || body === null) return undefined
  const { jsonrpc, method, id } = body as Partial<Record<'jsonrpc' | 'method' | 'id', unknown>>
  if (jsonrpc !== '2.0' || methodNamed(method)?.names !== 'tool') return undefined
  const isId = typeof id === 'string' ? !isTooLong(id) : Number.isSafeInteger(id)
  return isId ? (id as string | number) : undefined
}

/** Returns the result of a refused tool call, with its challenge. */
export function toolResult(
  id: string | number,
  { challenge, description, headers }: ChallengeResult,
  request: McpRequest,
): PlainResponse {
  const isModern = (request.header('mcp-protocol-version') ?? '') >= MODERN_REVISION
  return {
    status: 200,
    headers,
    body: JSON.stringify({
      jsonrpc: '2.0',
      id,
      result: {
        ...(isModern && { resultType: 'complete' }),
        content: [{ type: 'text', text: description }],
        isError: true,
        _meta: { 'mcp/www_authenticate': [challenge] },
      },
    }),
  }
}
