import type { IncomingMessage, ServerResponse } from 'node:http'
import { constants } from 'node:http2'
import type { PlainResponse } from '../http/plain-response.ts'
import { http2StreamOf, isClosed, onceClosed } from '../http/response-close.ts'

/** The time in which a client can read a response that was sent before the request body was complete. */
const DISCARD_MS = 5_000

/**
 * Writes a response: a plain one at once, and a stream no faster than the client reads.
 * @returns a promise if it is a web-standard response
 */
export function writeResponse(
  req: IncomingMessage,
  res: ServerResponse,
  response: PlainResponse | Response,
): void | Promise<void> {
  if (response instanceof Response) return writeWebResponse(req, res, response)
  writePlainResponse(req, res, response)
}

/** Writes a short response. Headers that other middleware has set are kept. */
export function writePlainResponse(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body = '' }: PlainResponse,
): void {
  if (isClosed(req, res) || res.headersSent) return
  res.statusCode = status
  const stream = http2StreamOf(req, res)
  for (const name of Object.keys(headers)) {
    // HTTP/2 does not allow this header (RFC 9113 §8.2.2).
    if (stream === undefined || name !== 'Connection') setOrAppend(res, name, headers[name] as string)
  }
  if (status !== 204 && status !== 304) res.setHeader('Content-Length', Buffer.byteLength(body))
  res.end(req.method === 'HEAD' ? undefined : body)
  if (!isExpected(req)) return
  // After the complete response, the client need not send the rest of its body (RFC 9113 §8.1).
  if (stream !== undefined) stream.close(constants.NGHTTP2_NO_ERROR)
  else discardBody(req)
}

/** The headers with lists, to which values are appended. */
const LISTS: ReadonlySet<string> = new Set(['Vary', 'Access-Control-Expose-Headers'])

function setOrAppend(res: ServerResponse, name: string, value: string): void {
  const before = LISTS.has(name) ? res.getHeader(name) : undefined
  if (before === undefined) res.setHeader(name, value)
  else if (!String(before).includes(value)) res.setHeader(name, `${String(before)}, ${value}`)
}

/** Returns `true` if the body is not complete, or was not read. */
function isExpected(req: IncomingMessage): boolean {
  if (req.readableEnded) return false
  if (req.httpVersionMajor >= 2) return !req.complete
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  return (length !== undefined || coding !== undefined) && !req.complete
}

/** Reads and discards the rest of a body for a limited time, so that the client can read the response. */
function discardBody(req: IncomingMessage): void {
  req.resume()
  const timer = setTimeout(() => req.destroy(), DISCARD_MS)
  timer.unref()
  req.once('close', () => clearTimeout(timer))
  req.once('end', () => clearTimeout(timer))
}

async function writeWebResponse(
  req: IncomingMessage,
  res: ServerResponse,
  response: Response,
): Promise<void> {
  if (isClosed(req, res) || res.headersSent) {
    await response.body?.cancel().catch(() => undefined)
    return
  }
  res.statusCode = response.status
  for (const [name, value] of response.headers) {
    // Node.js sets hop-by-hop headers itself.
    if (name !== 'connection' && name !== 'transfer-encoding') setOrAppend(res, name, value)
  }
  if (response.body === null || req.method === 'HEAD') {
    res.end()
    return
  }
  if (response.headers.get('content-type')?.startsWith('application/json')) {
    // A string is sent in one write together with the head.
    const body = await response.text()
    res.setHeader('Content-Length', Buffer.byteLength(body))
    res.end(body)
    return
  }
  res.flushHeaders()
  await pump(response.body, req, res)
}

async function pump(
  body: ReadableStream<Uint8Array>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const reader = body.getReader()
  let wake: (() => void) | undefined
  const onDrain = (): void => wake?.()
  const onClose = (): void => {
    wake?.()
    reader.cancel().catch(() => undefined)
  }
  res.on('drain', onDrain)
  onceClosed(req, res, onClose)
  try {
    for (let read = await reader.read(); !read.done && !isClosed(req, res); read = await reader.read()) {
      if (res.write(read.value)) continue
      await new Promise<void>((resolve) => {
        wake = resolve
        if (isClosed(req, res)) resolve()
      })
    }
    res.end()
  } catch {
    // A stream that fails must not look complete.
    res.destroy()
  } finally {
    res.off('drain', onDrain)
  }
}
