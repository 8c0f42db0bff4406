import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { http2StreamOf, isClosed } from '../base/http/response-close.ts'

/** While more bytes of earlier responses wait for the client of a connection, no further request of it begins. */
const MAX_UNSENT_BYTES = 1024 * 1024

/** The maximum number of pipelined requests of a connection that are served at a time (RFC 9112 §9.3.2). */
const MAX_PIPELINED = 8

/** The maximum number of pipelined requests of a connection that wait. With more of them, the connection is closed. */
const MAX_WAITING = 1_024

/** Shorter bodies are not counted, because a request takes about as much memory. */
const MIN_COUNTED_BYTES = 4_096

const turns = new WeakMap<object, ConnectionTurns>()

/**
 * The requests that arrive on one connection before the client has read earlier responses: pipelined ones, and those of HTTP/2.
 * At most one begins in each turn of the event loop, so that a response is counted before the next request begins.
 */
export class ConnectionTurns {
  readonly #isPipeline: boolean
  readonly #waiting: (() => Promise<void>)[] = []
  #unsentBytes = 0
  #served = 0
  #hasBegun = false

  private constructor(isPipeline: boolean) {
    this.#isPipeline = isPipeline
  }

  /**
   * Serves a request when it is its turn: at once, unless earlier responses of its connection are not sent yet.
   * @param serve serves the request, and must not reject
   */
  static serve(req: IncomingMessage, res: ServerResponse, serve: () => Promise<void>): void {
    // Most requests are alone on their connection.
    if (req.httpVersionMajor < 2 && res.socket !== null) return void serve()
    const connection = ConnectionTurns.#of(req, res)
    // A client that has disconnected gets no response, so nothing is done for it.
    const turn = async () => (isClosed(req, res) ? undefined : await serve())
    // A request must not begin in the context of another one.
    connection.#waiting.push(AsyncResource.bind(turn))
    if (connection.#isPipeline && connection.#waiting.length > MAX_WAITING) req.socket.destroy()
    else connection.#next()
  }

  /** Counts the bytes of a response. @returns a function that must be called when they are sent. Undefined for a few bytes. */
  static count(req: IncomingMessage, res: ServerResponse, bytes: number): (() => void) | undefined {
    if (bytes < MIN_COUNTED_BYTES) return undefined
    const connection = ConnectionTurns.#of(req, res)
    connection.#unsentBytes += bytes
    return () => {
      connection.#unsentBytes -= bytes
      connection.#next()
    }
  }

  static #of(req: IncomingMessage, res: ServerResponse): ConnectionTurns {
    const stream = http2StreamOf(req, res)
    // The requests of test tools may have no socket.
    const connection: object = stream?.session ?? req.socket ?? req
    const known = turns.get(connection) ?? new ConnectionTurns(stream === undefined)
    turns.set(connection, known)
    return known
  }

  #next(): void {
    if (this.#hasBegun || this.#unsentBytes > MAX_UNSENT_BYTES) return
    if (this.#isPipeline && this.#served >= MAX_PIPELINED) return
    const serve = this.#waiting.shift()
    if (serve === undefined) return
    this.#hasBegun = true
    this.#served++
    setImmediate(() => {
      this.#hasBegun = false
      this.#next()
    })
    void serve().finally(() => {
      this.#served--
      this.#next()
    })
  }
}
