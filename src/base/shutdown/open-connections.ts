import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Http2SecureServer, Http2Server, ServerHttp2Session } from 'node:http2'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { http2StreamOf } from '../http/response-close.ts'
import { requiredModule } from '../runtime.ts'

/** A server of `node:http`, `node:https`, or `node:http2`. */
export type HttpServer = Server | Http2Server | Http2SecureServer

/** The time that an idle connection has to complete a request head after the shutdown has begun. */
const HEAD_GRACE_MS = 1_000

/**
 * The connections of a server, each with its pending responses in the order of the requests. Node.js closes idle connections
 * itself. It does not announce the shutdown on others, and does not know which streams never end by themselves.
 */
export class OpenConnections {
  readonly #server: HttpServer
  readonly #isHttp2: boolean
  /** The sockets of the operating system. With TLS, requests arrive on a second socket on top of each. */
  readonly #sockets = new Set<Socket>()
  readonly #pendingResponses = new Map<Socket | ServerHttp2Session, ServerResponse[]>()
  /** The responses that may be endless event streams. */
  readonly #mayBeEndless = new WeakSet<ServerResponse>()
  #closing = false
  #idleGraceMs = 0
  #onEmpty: () => void = () => undefined

  constructor(httpServer: HttpServer) {
    // The overloads of `on()` differ between the kinds of servers.
    const server = httpServer as Server
    this.#server = httpServer
    this.#isHttp2 = isHttp2Server(httpServer)
    server.on('connection', this.#onConnection)
    server.on('setSecureContext' in server ? 'secureConnection' : 'connection', this.#onSocket)
    server.on('session', this.#onSession)
    server.prependListener('request', this.#onRequest)
  }

  /** The number of open connections. */
  get count(): number {
    return this.#sockets.size
  }

  /** The number of requests whose response is not finished, including event streams. */
  get pending(): number {
    return [...this.#pendingResponses.values()].flat().length
  }

  /**
   * Stops accepting connections, and resolves when the last one has closed. Pending responses are still sent.
   * @param idleGraceMs the time during which a request on an idle connection is still accepted
   */
  drain(idleGraceMs: number = 0): Promise<void> {
    this.#closing = true
    this.#idleGraceMs = idleGraceMs
    const listening = new Promise<void>((resolve) => {
      // `close()` of an HTTP server also closes idle connections, even those with a received but unread request.
      if (idleGraceMs > 0)
        requiredModule('node:net').Server.prototype.close.call(this.#server, () => resolve())
      else this.#server.close(() => resolve())
    })
    const empty = new Promise<void>((resolve) => {
      this.#onEmpty = resolve
    })
    for (const [connection, responses] of this.#pendingResponses) {
      // A graceful close of HTTP/2 names the requests that are still processed (RFC 9113 §6.8).
      if (!('bytesRead' in connection)) connection.close()
      else if (isUpgraded(connection)) continue
      else if (responses.length > 0) this.#announce(responses)
      else if (connection.bytesRead === 0 && idleGraceMs === 0) connection.destroy()
      else this.#closeUnlessUsed(connection)
    }
    this.#checkEmpty()
    return Promise.all([listening, empty]).then(() => undefined)
  }

  /**
   * Ends the event streams that would not end by themselves. The event stream of a POST ends with its call, except for
   * `subscriptions/listen`.
   */
  endStreams(): void {
    for (const res of [...this.#pendingResponses.values()].flat()) {
      if (res.writableEnded || !this.#mayBeEndless.has(res) || !isEventStream(res)) continue
      // The source of the stream may write once more before it notices the end.
      res.on('error', () => undefined)
      res.end()
    }
  }

  /** Cuts all remaining connections, including upgraded ones. */
  destroy(): void {
    for (const socket of this.#sockets) socket.destroy()
    if ('closeAllConnections' in this.#server) this.#server.closeAllConnections()
  }

  readonly #onConnection = (socket: Socket): void => {
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      this.#checkEmpty()
    })
  }

  readonly #onSocket = (socket: Socket): void => {
    const { alpnProtocol } = socket as Partial<TLSSocket>
    const speaksHttp2 = this.#isHttp2 && (alpnProtocol === undefined || alpnProtocol === 'h2')
    if (!speaksHttp2) this.#adopt(socket)
  }

  readonly #onSession = (session: ServerHttp2Session): void => {
    this.#pendingResponses.set(session, [])
    session.once('close', () => this.#pendingResponses.delete(session))
    if (this.#closing) session.close()
  }

  #adopt(socket: Socket): ServerResponse[] {
    const responses: ServerResponse[] = []
    this.#pendingResponses.set(socket, responses)
    socket.once('close', () => this.#pendingResponses.delete(socket))
    if (this.#closing) this.#closeUnlessUsed(socket)
    return responses
  }

  readonly #onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const { socket } = req
    const session = http2StreamOf(req, res)?.session as ServerHttp2Session | undefined
    const responses = this.#pendingResponses.get(session ?? socket) ?? this.#adopt(socket)
    responses.push(res)
    if (req.method === 'GET' || req.headers['mcp-method'] === 'subscriptions/listen')
      this.#mayBeEndless.add(res)
    if (this.#closing && session === undefined) this.#announce(responses)
    res.once('close', () => {
      responses.splice(responses.indexOf(res), 1)
      // The response may have been sent with `Connection: keep-alive` before the shutdown began.
      if (!this.#closing || responses.length > 0 || session !== undefined) return
      if (this.#idleGraceMs > 0) this.#closeUnlessUsed(socket)
      else setImmediate(() => (this.#server as Server).closeIdleConnections())
    })
  }

  /** Sets `Connection: close` on the last response of a connection. On an earlier one, it would drop the later ones. */
  #announce(responses: readonly ServerResponse[]): void {
    for (const res of responses) {
      if (res.headersSent) continue
      if (res === responses.at(-1)) res.setHeader('Connection', 'close')
      else res.removeHeader('Connection')
    }
  }

  #closeUnlessUsed(socket: Socket): void {
    const timer = setTimeout(
      // A request that was received while the process was busy is read after timers have run.
      () => setImmediate(() => this.#destroyIdle(socket)),
      Math.max(HEAD_GRACE_MS, this.#idleGraceMs),
    )
    timer.unref()
    socket.once('close', () => clearTimeout(timer))
  }

  #destroyIdle(socket: Socket): void {
    if (this.#pendingResponses.get(socket)?.length === 0 && !isUpgraded(socket)) socket.destroy()
  }

  #checkEmpty(): void {
    if (this.#closing && this.#sockets.size === 0) this.#onEmpty()
  }
}

/** Returns `true` for a server of `node:http2`, which may also serve HTTP/1.1. */
export function isHttp2Server(server: HttpServer): boolean {
  return 'updateSettings' in server && typeof server.updateSettings === 'function'
}

/** Returns `true` for a connection of another protocol, such as WebSocket, of which Node.js has released the parser. */
function isUpgraded(socket: Socket): boolean {
  return (socket as { readonly parser?: unknown }).parser === null
}

/** Reads the sent head. For HTTP/1.1, `getHeader` does not return headers that were passed to `writeHead`. */
function isEventStream(res: ServerResponse): boolean {
  const { _header: head } = res as { _header?: string | boolean | null }
  if (typeof head === 'string') return /^content-type: *text\/event-stream/im.test(head)
  return head === true && /^text\/event-stream/i.test(String(res.getHeader('content-type')))
}
