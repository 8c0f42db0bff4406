import type { BodyRead } from '../../http/body-reader.ts'
import type { PlainResponse } from '../../http/plain-response.ts'
import { checkDepth, isTooDeepValue, MAX_JSON_DEPTH } from './json-depth.ts'

const MAX_BATCH = 100

/** The messages of a body, or the answer to one that cannot be served. */
export type ParsedMessages =
  | { readonly body: unknown; readonly messages: readonly unknown[] }
  | { readonly response: PlainResponse }

/**
 * Parses a body into JSON-RPC messages. Batches belong to revision 2025-03-26 alone, which is also what
 * a request without `MCP-Protocol-Version` counts as.
 * @param client tells whether a body that could not be read ended with its connection.
 */
export function parseMessages(
  read: BodyRead,
  revision: string | undefined,
  client: { readonly disconnected: boolean } = { disconnected: false },
): ParsedMessages {
  let body: unknown
  switch (read.kind) {
    case 'too-large':
      return { response: jsonRpcError(413, -32_000, 'Payload Too Large') }
    case 'encoded':
      return {
        response: jsonRpcError(415, -32_000, 'Unsupported Media Type: no Content-Encoding is understood'),
      }
    case 'timeout':
      return {
        response: closing(jsonRpcError(408, -32_000, 'Request Timeout: the body did not arrive in time')),
      }
    case 'unreadable':
      return { response: client.disconnected ? CLIENT_GONE : parseError() }
    case 'value':
      if (isTooDeepValue(read.value)) return { response: tooDeep() }
      body = read.value
      break
    case 'text':
      switch (checkDepth(read.text)) {
        case 'too-deep':
          return { response: tooDeep() }
        case 'not-json':
          return { response: parseError() }
      }
      try {
        body = JSON.parse(read.text)
      } catch {
        return { response: parseError() }
      }
  }
  if (!Array.isArray(body)) return { body, messages: [body] }
  if (revision !== undefined && revision !== '2025-03-26') {
    return { response: invalidRequest('batches belong to protocol revision 2025-03-26 only') }
  }
  if (body.length === 0 || body.length > MAX_BATCH) {
    return { response: invalidRequest(`a batch holds 1 to ${MAX_BATCH} messages`) }
  }
  if (!hasDistinctIds(body)) return { response: invalidRequest('two requests of a batch have one id') }
  const messages = withoutSelfCancellations(body)
  return { body: messages, messages }
}

/** An answer names its request by the id alone; of two requests with one id only one would be answered. */
function hasDistinctIds(batch: readonly unknown[]): boolean {
  const ids = batch.flatMap((message) => {
    const { id, method } = (message ?? {}) as Partial<Record<'id' | 'method', unknown>>
    return method !== undefined && (typeof id === 'string' || typeof id === 'number') ? [id] : []
  })
  return new Set(ids).size === ids.length
}

/** A request that its own batch cancels would never be answered, and the response with it never end. */
function withoutSelfCancellations(batch: readonly unknown[]): readonly unknown[] {
  const ids = new Set(batch.map((message) => (message as { id?: unknown } | null)?.id))
  return batch.filter((message) => {
    const { id, method, params } = (message ?? {}) as Partial<Record<'id' | 'method', unknown>> & {
      params?: { requestId?: unknown } | null
    }
    const requestId = params?.requestId
    return (
      id !== undefined ||
      method !== 'notifications/cancelled' ||
      requestId === undefined ||
      !ids.has(requestId)
    )
  })
}

/**
 * A JSON-RPC error as an HTTP answer.
 * @param options.id the id of the request; `null` if it could not be read; `undefined` leaves it out.
 */
export function jsonRpcError(
  status: number,
  code: number,
  message: string,
  options: { readonly id: string | number | null | undefined } = { id: null },
): PlainResponse {
  return {
    status,
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      error: { code, message },
      ...(options.id !== undefined && { id: options.id }),
    }),
  }
}

/** The answer that is not read, because the client has disconnected. */
export const CLIENT_GONE: PlainResponse = { status: 499, headers: {} }

function parseError(): PlainResponse {
  return jsonRpcError(400, -32_700, 'Parse error: the body is not valid JSON')
}

function tooDeep(): PlainResponse {
  return invalidRequest(`JSON must not be nested deeper than ${MAX_JSON_DEPTH} levels`)
}

function invalidRequest(why: string): PlainResponse {
  return jsonRpcError(400, -32_600, `Invalid Request: ${why}`)
}

/** The rest of the body is not waited for, so the connection cannot be used again. */
function closing(answer: PlainResponse): PlainResponse {
  return { ...answer, headers: { ...answer.headers, Connection: 'close' } }
}
