import { isUtf8 } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type BodyLimits,
  type BodyMemory,
  type BodyRead,
  type BodySource,
  readBody,
} from '../http/body-reader.ts'
import type { NodeRequest } from '../http/node-middleware.ts'
import { http2StreamOf, onceClosed } from '../http/response-close.ts'
import { isAmbiguousJson } from '../mcp/wire/ambiguous-json.ts'
import { isEncoded } from '../mcp/wire/mcp-request.ts'
import { isParsed, NodeMcpRequest } from './node-request.ts'

/**
 * A request whose body a gate reads before another server does. The whole body is put back, so that it can be read as a stream
 * again. A text that parsers may understand differently is not accepted.
 */
export class ReplayedRequest extends NodeMcpRequest {
  readonly #req: NodeRequest
  readonly #res: ServerResponse

  constructor(req: NodeRequest, res: ServerResponse, trustsProxy: boolean) {
    super(req, res, trustsProxy)
    this.#req = req
    this.#res = res
  }

  override async readBody(limits: BodyLimits, memory?: BodyMemory): Promise<BodyRead> {
    const req = this.#req
    if (isParsed(req)) {
      // A server behind the gate may parse a text or bytes in its own way.
      const isInvalid = req.body instanceof Uint8Array && !isUtf8(req.body)
      return isInvalid ? { kind: 'unreadable' } : unambiguous(await super.readBody(limits, memory))
    }
    if (Number(req.headers['content-length']) > limits.maxBytes) return { kind: 'too-large' }
    if (isEncoded(req.headers['content-encoding'])) return { kind: 'encoded' }
    if (req.readableDidRead) return { kind: 'consumed' }
    if (req.readableEncoding !== null) return { kind: 'unreadable' }
    let isText = true
    const read = await readBody(
      replayedSource(req, this.#res, (bytes) => {
        isText = isUtf8(bytes)
      }),
      limits,
      memory,
    )
    if (read.kind !== 'text') return read
    // Without a reader, the stream would keep the body, and would not end.
    onceClosed(req, this.#res, () => void req.resume())
    // A client that cancels an HTTP/2 request may end its stream first. The rest of the same packet decides.
    if (req.httpVersionMajor >= 2) await nextTurn()
    return req.aborted || !isText ? { kind: 'unreadable' } : unambiguous(read)
  }
}

function unambiguous(read: BodyRead): BodyRead {
  return read.kind === 'text' && isAmbiguousJson(read.text) ? { kind: 'ambiguous' } : read
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
    const end = (): void => {
      if (sink.isSettled) return
      const bytes = sink.end()
      onBytes(bytes)
      if (bytes.length > 0) req.unshift(bytes)
    }
    const drain = (): void => {
      for (let chunk: unknown = req.read(); chunk !== null; chunk = req.read()) {
        sink.chunk(chunk)
        if (sink.isSettled) return
      }
    }
    const onReadable = (): void => {
      drain()
      if (stream === undefined && req.complete) end()
    }
    const onStreamEnd = (): void => {
      drain()
      end()
    }
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
