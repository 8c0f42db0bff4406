import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerResponse } from 'node:http2'
import type { Socket } from 'node:net'

/** Returns the stream of an HTTP/2 response; `undefined` for HTTP/1.1. */
export function http2StreamOf(
  req: IncomingMessage,
  res: ServerResponse,
): Http2ServerResponse['stream'] | undefined {
  return req.httpVersionMajor >= 2 ? (res as unknown as Http2ServerResponse).stream : undefined
}

/** Returns `true` if the response has ended, complete or not. Data that is written now does not reach the client. */
export function isClosed(req: IncomingMessage, res: ServerResponse): boolean {
  if (res.destroyed || isStranded(req, res)) return true
  // For HTTP/2, the stream has the state, not the response.
  const stream = http2StreamOf(req, res)
  return stream !== undefined && (stream.destroyed || stream.aborted)
}

/** Returns `true` if the client disconnected before the response was complete. */
export function isCut(req: IncomingMessage, res: ServerResponse): boolean {
  // Node.js ends the stream of a canceled HTTP/2 request, so that it counts as finished.
  return isClosed(req, res) && !(res.writableEnded && res.writableFinished)
}

/** Ends a response that cannot be completed, so that its client does not take it for a complete one. */
export function cutOff(req: IncomingMessage, res: ServerResponse): void {
  const stream = http2StreamOf(req, res)
  if (stream === undefined) res.destroy()
  // Without an error, the stream would end as if its response was complete. The error becomes INTERNAL_ERROR (RFC 9113 §7), and is not
  // emitted. `close(INTERNAL_ERROR)` is not usable: Node.js 24 fills the memory in an endless loop if data was written in the same turn.
  else stream.destroy(new Error('The response cannot be completed.'))
}

/** Calls `listener` once when the response ends, complete or not; immediately if it has ended. */
export function onceClosed(req: IncomingMessage, res: ServerResponse, listener: () => void): void {
  if (isClosed(req, res)) {
    listener()
    return
  }
  if (res.socket !== null) {
    res.once('close', listener)
    return
  }
  let called = false
  const once = (): void => {
    if (called) return
    called = true
    waiting.delete(once)
    listener()
  }
  const waiting = waitingOn(req.socket)
  waiting.add(once)
  res.once('close', once)
}

/** Returns `true` if the connection closed while the response waited for earlier ones (pipelining, RFC 9112 §9.3.2). */
function isStranded(req: IncomingMessage, res: ServerResponse): boolean {
  return res.socket === null && req.socket?.destroyed === true && !res.writableFinished
}

/** Listeners of responses that wait for earlier ones. Node.js does not close these responses with the connection. */
const waitingBySocket = new WeakMap<Socket, Set<() => void>>()

function waitingOn(socket: Socket): Set<() => void> {
  const known = waitingBySocket.get(socket)
  if (known !== undefined) return known
  const waiting = new Set<() => void>()
  waitingBySocket.set(socket, waiting)
  socket.once('close', () => {
    for (const listener of waiting) listener()
  })
  return waiting
}
