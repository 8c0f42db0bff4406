import { isUtf8 } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type BodyLimits,
  type BodyMemory,
  type BodyRead,
  type BodySource,
  readBody,
} from '../base/http/body-reader.ts'
import type { NodeRequest } from '../base/http/node-middleware.ts'
import type { PlainResponse } from '../base/http/plain-response.ts'
import { http2StreamOf, onceClosed } from '../base/http/response-close.ts'
import type { Authenticator } from '../mcp/authenticator.ts'
import { refusedUnclear } from '../mcp/operations/unclear-message.ts'
import { isAmbiguousJson } from '../mcp/wire/ambiguous-json.ts'
import type { Exchange } from '../mcp/wire/exchange.ts'
import { jsonRpcError, retryLater } from '../mcp/wire/json-rpc.ts'
import type { AuthInfo } from '../oauth/auth-info.ts'
import { ownerOf } from '../oauth/owner.ts'
import { holdsMessages, isParsed, NodeMcpRequest } from './node-request.ts'

/**
 * A request whose body a gate reads before another server does. The whole body is put back, so that it can be read as a stream
 * again. A text that parsers may understand differently is not accepted.
 */
export class ReplayedRequest extends NodeMcpRequest {
  override async readBody(limits: BodyLimits, memory?: BodyMemory): Promise<BodyRead> {
    const { req } = this
    // A server behind the gate may parse a text or bytes in its own way.
    if (isParsed(req) && req.body instanceof Uint8Array && !isUtf8(req.body)) return { kind: 'unreadable' }
    const read = await super.readBody(limits, memory)
    return read.kind === 'text' && isAmbiguousJson(read.text) ? { kind: 'ambiguous' } : read
  }

  protected override async readStream(limits: BodyLimits, memory?: BodyMemory): Promise<BodyRead> {
    const { req, res } = this
    if (req.readableEncoding !== null) return { kind: 'unreadable' }
    let isText = true
    const source = replayedSource(req, res, (bytes) => {
      isText = isUtf8(bytes)
    })
    const read = await readBody(source, limits, memory)
    if (read.kind !== 'text') return read
    // Without a reader, the stream would keep the body, and would not end.
    onceClosed(req, res, () => void req.resume())
    // A client that cancels an HTTP/2 request may end its stream first. The rest of the same packet decides.
    if (req.httpVersionMajor >= 2) await nextTurn()
    return req.aborted || !isText ? { kind: 'unreadable' } : read
  }
}

/**
 * Reads a body, and puts it back when it is complete. The stream has not emitted `end` by then, because it does so in a later
 * tick than the last `readable`.
 */
function replayedSource(
  req: NodeRequest,
  res: ServerResponse,
  onBytes: (bytes: Uint8Array) => void,
): BodySource {
  return (sink) => {
    const drain = (isComplete: boolean): void => {
      for (let chunk: unknown; !sink.isSettled; sink.chunk(chunk)) {
        chunk = req.read()
        if (chunk === null) break
      }
      if (!isComplete || sink.isSettled) return
      const bytes = sink.end()
      onBytes(bytes)
      if (bytes.length > 0) req.unshift(bytes)
    }
    const onReadable = (): void => drain(stream === undefined && req.complete)
    const onStreamEnd = (): void => drain(true)
    const stream = http2StreamOf(req, res)
    // An HTTP/2 request is complete only after `end`. Its own listener of the stream ends it, so this one must come first.
    stream?.prependListener('end', onStreamEnd)
    if (req.readableEnded) sink.end()
    else if (req.destroyed) sink.broken()
    else req.on('readable', onReadable).on('end', sink.end).on('error', sink.broken).on('close', sink.broken)
    return () => {
      stream?.off('end', onStreamEnd)
      req.off('readable', onReadable).off('end', sink.end).off('error', sink.broken).off('close', sink.broken)
    }
  }
}

/**
 * Checks the scopes of the endpoint and of the operations that a request to another server names. Reads the body, and sets
 * `req.body` and `req._body`, unless a body parser has done so.
 * @returns the response to a request that is refused; undefined for one that may be passed on
 */
export async function judgeOperations(
  authenticator: Authenticator,
  exchange: Exchange,
  request: ReplayedRequest,
): Promise<PlainResponse | undefined> {
  const { req, res } = request
  const { telemetry } = exchange
  const auth = exchange.auth as AuthInfo
  const refuse = (response: PlainResponse): PlainResponse => {
    telemetry.responded(response, request)
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
    // A parser may have read the body as a whole, without parsing it.
    const isText = typeof req.body === 'string' || req.body instanceof Uint8Array
    if (!isParsed && !isText) Object.assign(req, { body: parsed.body, _body: true })
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

/** Returns `true` if a body may be in another encoding than UTF-8, which parsers behind the gate would use. */
function namesOtherCharset(contentType = ''): boolean {
  return /charset/i.test(contentType.replace(/; *charset=("?)utf-?8\1 *(?=;|$)/i, ''))
}

const OTHER_CHARSET = jsonRpcError(415, -32_000, 'Unsupported Media Type: the charset must be UTF-8')
