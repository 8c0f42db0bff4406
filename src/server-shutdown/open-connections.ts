import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Http2SecureServer, Http2Server, ServerHttp2Session } from 'node:http2'
import { Server as NetServer, type Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { http2StreamOf } from '../http/response-close.ts'

/** A server of `node:http`, `node:https`, or `node:http2`. */
export type HttpServer = Server | Http2Server | Http2SecureServer

/** How long a connection on which no request is under way may take, once the server closes, to complete a request head. */
const HEAD_GRACE_MS = 1_000

/**
 * The connections of a server and the responses it owes on each, in the order of the requests. Node closes idle
 * connections itself, but neither tells the others that it is closing nor which streams never end by themselves.
 */
export class OpenConnections {
  readonly #server: HttpServer
  readonly #isHttp2: boolean
  /** As the system has them; with TLS, requests come on a second socket over each. */
  readonly #sockets = new Set<Socket>()
  readonly #owed = new Map<Socket | ServerHttp2Session, ServerResponse[]>()
  /** The connections that speak HTTP/2. Each is closed as a whole, and finishes what has begun on it. */
  readonly #sessions = new Set<ServerHttp2Session>()
  /** Answers to requests by which a client listens for as long as the connection lasts. */
  readonly #mayListen = new WeakSet<ServerResponse>()
  /** Connections that speak another protocol now, such as WebSocket: no request tells whether they are idle. */
  readonly #upgraded = new WeakSet<Socket>()
  #closing = false
  #idleGraceMs = 0
  #onEmpty: () => void = () => undefined

  constructor(given: HttpServer) {
    // The overloads of `on()` differ from server to server.
    const server = given as Server
    this.#server = given
    this.#isHttp2 = isHttp2Server(given)
    server.on('connection', this.#onConnection)
    server.on('setSecureContext' in server ? 'secureConnection' : 'connection', this.#onSocket)
    server.on('session', this.#onSession)
    server.prependListener('request', this.#onRequest)
    for (const event of ['upgrade', 'connect']) this.#watchUpgrades(event)
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
    // Closed gracefully: the client learns which of its requests are still answered (RFC 9113 §6.8).
    for (const session of this.#sessions) session.close()
    for (const [socket, responses] of this.#owed) {
      if (!('bytesRead' in socket)) continue
      if (this.#upgraded.has(socket)) continue
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
        // What feeds the stream may write once more before it notices the end.
        res.on('error', () => undefined)
        res.end()
      }
    }
  }

  /** Cuts what is left, upgraded connections too. */
  destroy(): void {
    for (const socket of this.#sockets) socket.destroy()
    if ('closeAllConnections' in this.#server) this.#server.closeAllConnections()
  }

  readonly #onConnection = (socket: Socket): void => {
    this.#sockets.add(socket)
    socket.once('close', () => {
      this.#sockets.delete(socket)
      this.#tellWhenEmpty()
    })
  }

  /** Notes upgraded connections. Node accepts upgrades only if somebody listens, so this listens only next to others. */
  #watchUpgrades(event: string): void {
    const onUpgrade = (_req: IncomingMessage, socket: Socket): void => {
      this.#upgraded.add(socket)
    }
    const follow = (changed: string | symbol, listener: unknown): void => {
      if (changed !== event || listener === onUpgrade) return
      // Before a listener is added, and after one was removed.
      this.#server.off(event, onUpgrade)
      this.#server.prependListener(event, onUpgrade)
    }
    const unfollow = (changed: string | symbol, listener: unknown): void => {
      if (changed !== event || listener === onUpgrade) return
      if (this.#server.listeners(event).every((one) => one === onUpgrade)) this.#server.off(event, onUpgrade)
    }
    if (this.#server.listenerCount(event) > 0) this.#server.prependListener(event, onUpgrade)
    this.#server.on('newListener', follow).on('removeListener', unfollow)
  }

  readonly #onSocket = (socket: Socket): void => {
    const { alpnProtocol } = socket as Partial<TLSSocket>
    const speaksHttp2 = this.#isHttp2 && (alpnProtocol === undefined || alpnProtocol === 'h2')
    if (!speaksHttp2) this.#adopt(socket)
  }

  readonly #onSession = (session: ServerHttp2Session): void => {
    this.#sessions.add(session)
    this.#owed.set(session, [])
    session.once('close', () => {
      this.#sessions.delete(session)
      this.#owed.delete(session)
    })
    if (this.#closing) session.close()
  }

  #adopt(socket: Socket): ServerResponse[] {
    const responses: ServerResponse[] = []
    this.#owed.set(socket, responses)
    socket.once('close', () => this.#owed.delete(socket))
    if (this.#closing) this.#giveHeadGrace(socket)
    return responses
  }

  readonly #onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    const { socket } = req
    const session = http2StreamOf(req, res)?.session as ServerHttp2Session | undefined
    const responses = this.#owed.get(session ?? socket) ?? this.#adopt(socket)
    responses.push(res)
    if (req.method === 'GET' || req.headers['mcp-method'] === 'subscriptions/listen') this.#mayListen.add(res)
    if (this.#closing && session === undefined) this.#announce(responses)
    res.once('close', () => {
      responses.splice(responses.indexOf(res), 1)
      // One that had promised to keep the connection alive before it was known that the server closes.
      if (!this.#closing || responses.length > 0 || session !== undefined) return
      if (this.#idleGraceMs > 0) this.#giveHeadGrace(socket)
      else setImmediate(() => (this.#server as Server).closeIdleConnections())
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
      () => setImmediate(() => this.#isIdle(socket) && socket.destroy()),
      Math.max(HEAD_GRACE_MS, this.#idleGraceMs),
    )
    timer.unref()
    socket.once('close', () => clearTimeout(timer))
  }

  #isIdle(socket: Socket): boolean {
    return this.#owed.get(socket)?.length === 0 && !this.#upgraded.has(socket)
  }

  #tellWhenEmpty(): void {
    if (this.#closing && this.#sockets.size === 0) this.#onEmpty()
  }
}

/** Whether a server is one of `node:http2`, which may speak HTTP/1.1 as well. */
export function isHttp2Server(server: HttpServer): boolean {
  return 'updateSettings' in server && typeof server.updateSettings === 'function'
}

/** Reads the head as it was sent: `getHeader` does not know what was given to `writeHead`, but for HTTP/2. */
function isEventStream(res: ServerResponse): boolean {
  const { _header: head } = res as { _header?: string | boolean | null }
  if (typeof head === 'string') return /^content-type: *text\/event-stream/im.test(head)
  return head === true && /^text\/event-stream/i.test(String(res.getHeader('content-type')))
}
