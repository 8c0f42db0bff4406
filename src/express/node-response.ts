import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpResponse, PlainResponse } from '../base/http/plain-response.ts'
import { cutOff, http2StreamOf, isClosed, onceClosed } from '../base/http/response-close.ts'
import type { StreamResponse } from '../mcp/wire/event-stream.ts'
import { FAILED_RESPONSE } from '../oauth/refusal-responses.ts'
import { ConnectionTurns } from './connection-turns.ts'
import { addHeaders, setOrAppend } from './cors-decision.ts'

/** A longer body waits for its client as a buffer, because the characters of a string are on the heap of V8. */
const MAX_STRING_LENGTH = 65_536

/** The size of the parts in which a body is written over HTTP/2: the end of a write shows that the client has taken it. */
const PART_BYTES = 65_536

/**
 * Codes with which a stream of HTTP/2 is closed (RFC 9113 section 7): after the complete response, the client need not send the
 * rest of its body (section 8.1). `node:http2` has the codes too, but takes long to load.
 */
const NO_ERROR = 0
const CANCEL = 8

/** The time after which a connection is closed if its client takes nothing of a response that waits. */
const UNREAD_MS = 60_000

/** The time in which a client can read a response that was sent before the request body was complete. */
const DISCARD_MS = 5_000

/**
 * Writes a response: a complete one at once, and a stream no faster than the client reads.
 * @param hasReadBody as for `writePlainResponse`
 */
export function writeResponse(
  req: IncomingMessage,
  res: ServerResponse,
  response: HttpResponse,
  hasReadBody = false,
): void | Promise<void> {
  const { body } = response
  if (typeof body === 'object') return writeStream(req, res, { ...response, body })
  writePlainResponse(req, res, response as PlainResponse, hasReadBody)
}

/**
 * Writes a response of plain values. Headers that other middleware has set are kept.
 * @param hasReadBody `true` if the whole body of the request was read, which Node.js reports later
 */
export function writePlainResponse(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body = '' }: PlainResponse,
  hasReadBody = false,
): void {
  if (isClosed(req, res) || res.headersSent) return
  res.statusCode = status
  const stream = http2StreamOf(req, res)
  for (const name of Object.keys(headers)) {
    // HTTP/2 does not allow this header (RFC 9113 §8.2.2).
    if (stream === undefined || name !== 'Connection') setOrAppend(res, name, headers[name] as string)
  }
  if (status === 204 || status === 304) res.end()
  else endWithBody(req, res, body)
  if (hasReadBody || !isExpected(req)) return
  if (stream === undefined) discardBody(req)
  // A long body is still being written.
  else if (res.writableEnded) stream.close(NO_ERROR)
}

/** Responds with 500. A response that has begun cannot be replaced. If it stayed open, the client would wait forever. */
export function writeFailure(
  req: IncomingMessage,
  res: ServerResponse,
  otherwise: () => void = () => res.destroy(),
): void {
  try {
    if (res.headersSent) cutOff(req, res)
    else writePlainResponse(req, res, FAILED_RESPONSE)
  } catch {
    // Other middleware has replaced the methods of the response.
    otherwise()
  }
}

/** Ends a response with a body. Other requests of its connection may wait until the client has read it. */
function endWithBody(req: IncomingMessage, res: ServerResponse, text: string): void {
  const body = text.length > MAX_STRING_LENGTH ? Buffer.from(text) : text
  const length = Buffer.byteLength(body)
  res.setHeader('Content-Length', length)
  if (req.method === 'HEAD') {
    res.end()
    return
  }
  const sent = ConnectionTurns.count(req, res, length)
  if (sent !== undefined) onceClosed(req, res, sent)
  if (http2StreamOf(req, res) !== undefined) {
    if (length > PART_BYTES) {
      void finish(req, res, () => bodyWriter(req, res)(Buffer.from(body)))
      return
    }
    // A counted response must not make other requests wait for a client that does not read it.
    if (sent !== undefined) onceClosed(req, res, closeUnlessRead(req, res))
  } else if (typeof body !== 'string') res.prependOnceListener('finish', closeUnlessRead(req, res))
  // A string is sent in one write together with the head.
  res.end(body)
}

/** Ends a response when `write` has written its body. */
async function finish(req: IncomingMessage, res: ServerResponse, write: () => Promise<void>): Promise<void> {
  try {
    await write()
    res.end()
    if (isExpected(req)) http2StreamOf(req, res)?.close(NO_ERROR)
  } catch {
    cutOff(req, res)
  }
}

/**
 * Closes the connection if its client takes nothing for a time, or the stream of HTTP/2.
 * @returns a function that must be called when the client has taken everything
 */
function closeUnlessRead(req: IncomingMessage, res: ServerResponse): () => void {
  const stream = http2StreamOf(req, res)
  if (stream !== undefined) {
    // With the code of `destroy()`, the client could take the response for a complete one. The timeouts of Node.js start again
    // when any stream of the connection proceeds.
    const timer = setTimeout(() => stream.close(CANCEL), UNREAD_MS).unref()
    return () => clearTimeout(timer)
  }
  const { socket } = req
  const cut = (): void => void socket.destroy()
  let previous = 0
  const begin = (): void => {
    previous = socket.timeout ?? 0
    // The sockets of test tools may have no timeouts.
    socket.setTimeout?.(UNREAD_MS)
  }
  res.once('timeout', cut)
  if (res.socket === null) res.once('socket', begin)
  else begin()
  return () => {
    res.off('timeout', cut)
    socket.setTimeout?.(previous)
  }
}

/** Returns `true` if the body is not complete, or was not read. */
function isExpected(req: IncomingMessage): boolean {
  if (req.readableEnded || req.complete) return false
  if (req.httpVersionMajor >= 2) return true
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  return length === undefined ? coding !== undefined : req.readableLength !== Number(length)
}

/** Reads and discards the rest of a body for a limited time, so that the client can read the response. */
function discardBody(req: IncomingMessage): void {
  req.resume()
  const timer = setTimeout(() => req.destroy(), DISCARD_MS).unref()
  req.once('close', () => clearTimeout(timer))
  req.once('end', () => clearTimeout(timer))
}

async function writeStream(
  req: IncomingMessage,
  res: ServerResponse,
  { status, headers, body }: StreamResponse,
): Promise<void> {
  if (isClosed(req, res) || res.headersSent) {
    // The client has left: an error of the body has no receiver.
    await body.cancel().catch(() => undefined)
    return
  }
  res.statusCode = status
  addHeaders(res, headers)
  res.flushHeaders()
  const reader = body.getReader()
  // If the client has left, an error of the body has no receiver.
  const write = bodyWriter(req, res, () => void reader.cancel().catch(() => undefined))
  await finish(req, res, async () => {
    for (let read = await reader.read(); !read.done && !isClosed(req, res); read = await reader.read()) {
      // Other requests of the connection may wait until the client has taken the chunk.
      const sent = ConnectionTurns.count(req, res, read.value.length)
      await write(read.value).finally(sent)
    }
  })
}

/**
 * Returns a function that writes a part of a body. It resolves when the client can take more, or when the response has ended.
 * @param onClosed is called when the response has ended, complete or not
 */
function bodyWriter(
  req: IncomingMessage,
  res: ServerResponse,
  onClosed: () => void = () => undefined,
): (chunk: Uint8Array) => Promise<void> {
  const partBytes = http2StreamOf(req, res) === undefined ? Number.POSITIVE_INFINITY : PART_BYTES
  let wake: () => void = () => undefined
  onceClosed(req, res, () => {
    wake()
    onClosed()
  })
  return async (chunk) => {
    for (let from = 0; from < chunk.length && !isClosed(req, res); from += partBytes) {
      if (res.write(chunk.subarray(from, from + partBytes))) continue
      const taken = closeUnlessRead(req, res)
      await new Promise<void>((resolve) => {
        wake = resolve
        if (isClosed(req, res)) resolve()
        else res.once('drain', resolve)
      })
      taken()
    }
  }
}
