import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'

/** How long a connection on which no request is under way may take, once the server closes, to complete a request head. */
const HEAD_GRACE_MS = 1_000

/**
 * The connections of a server and the responses it owes on each, in the order of the requests. Node closes idle
 * connections itself, but neither tells the others that it is closing nor which streams never end by themselves.
 */
export class OpenConnections {
  readonly #server: Server
  /** As the system has them; with TLS, requests come on a second socket over each. */
  readonly #sockets = new Set<Socket>()
  readonly #owed = new Map<Socket, ServerResponse[]>()
  /** Answers to requests by which a client listens for as long as the connection lasts. */
  readonly #mayListen = new WeakSet<ServerResponse>()
  #closing = false
  #idleGraceMs = 0
  #onEmpty: () => void = () => undefined

  constructor(server: Server) {
    this.#server = server
    server.on('connection', this.#onConnection)
    server.on('setSecureContext' in server ? 'secureConnection' : 'connection', this.#adopt)
    server.prependListener('request', this.#onRequest)
  }

  /** Connections that are open. */
  get count(): number {
    return this.#sockets.size
  }

  /** Requests whose response is not finished, event streams included. */
  get pending(): number {
    let pending = 0
    for (const responses of this.#owed.values()) pending += responses.length
    return pending
  }

  /**
   * Accepts nothing new from now on; resolves when the last connection is gone. What is owed is still answered.
   * @param idleGraceMs for how long idle connections may still bring a request.
   */
  drain(idleGraceMs: number = 0): Promise<void> {
    this.#closing = true
    this.#idleGraceMs = idleGraceMs
    const listening = new Promise<void>((resolve) => {
      // That of HTTP closes idle connections as well, also those whose next request has come but was not read yet.
      if (idleGraceMs > 0) NetServer.prototype.close.call(this.#server, () => resolve())
      else this.#server.close(() => resolve())
    })
    const empty = new Promise<void>((resolve) => {
      this.#onEmpty = resolve
    })
    for (const [socket, responses] of this.#owed) {
      if (responses.length > 0) this.#announce(responses)
      else if (socket.bytesRead === 0 && idleGraceMs === 0) socket.destroy()
      else this.#giveHeadGrace(socket)
    }
    this.#tellWhenEmpty()
    return Promise.all([listening, empty]).then(() => undefined)
  }

  /**
   * Ends the event streams that would not end by themselves, as their handlers would: with a proper end. The event
   * stream that answers a POST ends with the call it belongs to; only one of `subscriptions/listen` does not.
   */
  endStreams(): void {
    for (const responses of this.#owed.values()) {
      for (const res of responses) {
        if (res.writableEnded || !this.#mayListen.has(res) || !isEventStream(res)) continue
        // Whoever feeds the stream may write once more before it hears of the end.
        res.on('error', () => undefined)
        res.end()
      }
    }
  }

  /** Cuts what is left, upgraded connections too. */
  destroy(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.closeAllConnections()
  }

  readonly #onConnection = (socket: Socket): void => {
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      this.#tellWhenEmpty()
    })
  }

  readonly #adopt = (socket: Socket): ServerResponse[] => {
    const responses: ServerResponse[] = []
    this.#owed.set(socket, responses)
    socket.once('close', () => this.#owed.delete(socket))
    if (this.#closing) this.#giveHeadGrace(socket)
    return responses
  }

  readonly #onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const { socket } = req
    const responses = this.#owed.get(socket) ?? this.#adopt(socket)
    responses.push(res)
    if (req.method === 'GET' || req.headers['mcp-method'] === 'subscriptions/listen') this.#mayListen.add(res)
    if (this.#closing) this.#announce(responses)
    res.once('close', () => {
      responses.splice(responses.indexOf(res), 1)
      // One that had promised to keep the connection alive before it was known that the server closes.
      if (!this.#closing || responses.length > 0) return
      if (this.#idleGraceMs > 0) this.#giveHeadGrace(socket)
      else setImmediate(() => this.#server.closeIdleConnections())
    })
  }

  /** `Connection: close` on the last response of a connection: on an earlier one it would cost those behind it. */
  #announce(responses: readonly ServerResponse[]): void {
    for (const res of responses) {
      if (res.headersSent) continue
      if (res === responses.at(-1)) res.setHeader('Connection', 'close')
      else res.removeHeader('Connection')
    }
  }

  #giveHeadGrace(socket: Socket): void {
    const timer = setTimeout(
      // A request that has come while the process was busy is read after timers have run.
      () => setImmediate(() => this.#owed.get(socket)?.length === 0 && socket.destroy()),
      Math.max(HEAD_GRACE_MS, this.#idleGraceMs),
    )
    timer.unref()
    socket.once('close', () => clearTimeout(timer))
  }

  #tellWhenEmpty(): void {
    if (this.#closing && this.#sockets.size === 0) this.#onEmpty()
  }
}

/** Asked of the head as it was sent: `getHeader` does not know what was given to `writeHead`. */
function isEventStream(res: ServerResponse): boolean {
  const { _header: head } = res as { _header?: string | null }
  return typeof head === 'string' && /^content-type: *text\/event-stream/im.test(head)
}
