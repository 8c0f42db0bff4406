import type { ServerResponse } from 'node:http'
import type { NodeRequest } from '../http/node-middleware.ts'
import type { PlainResponse } from '../http/plain-response.ts'
import { http2StreamOf, onceClosed } from '../http/response-close.ts'
import type { Authenticator } from '../mcp/authenticator.ts'
import { refusedUnclear } from '../mcp/operations/unclear-message.ts'
import type { Exchange } from '../mcp/wire/exchange.ts'
import { jsonRpcError, retryLater } from '../mcp/wire/json-rpc.ts'
import type { AuthInfo } from '../oauth/auth-info.ts'
import { ownerOf } from '../oauth/owner.ts'
import { holdsMessages } from './node-request.ts'
import type { ReplayedRequest } from './replayed-request.ts'

/**
 * Checks the scopes of the endpoint and of the operations that a request to another server names. Reads the body, and sets
 * `req.body` and `req._body`, unless a body parser has done so.
 * @returns the response to a request that is refused; undefined for one that may be passed on
 */
export async function judgeOperations(
  authenticator: Authenticator,
  exchange: Exchange,
  request: ReplayedRequest,
  req: NodeRequest,
  res: ServerResponse,
): Promise<PlainResponse | undefined> {
  const { telemetry } = exchange
  const auth = exchange.auth as AuthInfo
  const refuse = (response: PlainResponse): PlainResponse => {
    telemetry.accepted()
    telemetry.completed(response.status)
    return response
  }
  if (req.method !== 'POST' && !hasBody(req, res)) {
    return exchange.gate?.permits(auth.scopes) === true
      ? undefined
      : authenticator.refuseScopes(exchange, request, [])
  }
  const isParsed = holdsMessages(req)
  if (!isParsed && namesOtherCharset(req.headers['content-type'])) return refuse(OTHER_CHARSET)
  const parsed = await authenticator.bodies.receive(request, () => ownerOf(auth))
  if (parsed === undefined)
    return refuse(retryLater(429, 'Too many large requests of this user are being served'))
  if ('response' in parsed) return refuse(parsed.response)
  const unclear = refusedUnclear(request, parsed)
  const needed = unclear === undefined ? authenticator.operationScopes(parsed.messages) : []
  if (unclear === undefined && exchange.gate?.permits(auth.scopes, needed) === true) {
    if (parsed.release !== undefined) onceClosed(req, res, parsed.release)
    if (!isParsed && !isText(req.body)) Object.assign(req, { body: parsed.body, _body: true })
    return undefined
  }
  try {
    if (unclear !== undefined) return refuse(unclear)
    telemetry.received(request.header('mcp-protocol-version'), parsed.messages, undefined)
    return await authenticator.refuseScopes(exchange, request, needed, parsed)
  } finally {
    parsed.release?.()
  }
}

/** Returns `true` if a request has or may have a body. */
function hasBody(req: NodeRequest, res: ServerResponse): boolean {
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  if (coding !== undefined || (length !== undefined && length !== '0') || holdsMessages(req)) return true
  const stream = http2StreamOf(req, res) as { readonly endAfterHeaders?: boolean } | undefined
  return stream !== undefined && stream.endAfterHeaders !== true
}

/** Returns `true` for a body that a parser has read as a whole, without parsing it. */
function isText(body: unknown): boolean {
  return typeof body === 'string' || body instanceof Uint8Array
}

/** Returns `true` if a body may be in another encoding than UTF-8, which parsers behind the gate would use. */
function namesOtherCharset(contentType = ''): boolean {
  return /charset/i.test(contentType.replace(/; *charset=("?)utf-?8\1 *(?=;|$)/i, ''))
}

const OTHER_CHARSET = jsonRpcError(415, -32_000, 'Unsupported Media Type: the charset must be UTF-8')
