import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
} from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { NodeMiddleware } from '../../src/base/http/node-middleware.ts'
import { selfSigned } from './certificates.ts'

export interface Http2Listening {
  readonly server: Http2Server | Http2SecureServer
  readonly port: number
  /** Opens an HTTP/2 connection. */
  connect(): Promise<ClientHttp2Session>
  close(): Promise<void>
}

/** Serves HTTP/2 on a free port of 127.0.0.1: unencrypted, or over TLS together with HTTP/1.1. */
export async function listenHttp2(listener: NodeMiddleware, secure = false): Promise<Http2Listening> {
  const serve = listener as unknown as Parameters<typeof createServer>[1]
  const certificate = secure ? selfSigned() : undefined
  const server =
    certificate === undefined
      ? createServer(serve)
      : createSecureServer({ ...certificate, allowHTTP1: true }, serve as never)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const sessions = new Set<ClientHttp2Session>()
  return {
    server,
    port,
    async connect() {
      const session = connect(`${secure ? 'https' : 'http'}://127.0.0.1:${port}`, {
        ...(certificate !== undefined && { ca: certificate.cert }),
      })
      // Errors show as failed streams.
      session.on('error', () => undefined)
      sessions.add(session)
      await once(session, 'connect')
      return session
    },
    async close() {
      for (const session of sessions) session.destroy()
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

/** One stream and the response on it. */
export class Http2Exchange {
  readonly stream: ClientHttp2Stream
  readonly status: Promise<number>
  /** Resolves with the received data when the stream closes; never rejects. */
  readonly closed: Promise<{ readonly text: string; readonly rstCode: number }>

  constructor(session: ClientHttp2Session, headers: Readonly<Record<string, string>> = {}) {
    this.stream = session.request({ ':method': 'POST', ':path': '/mcp', ...headers })
    this.stream.on('error', () => undefined)
    this.status = new Promise((resolve) => {
      this.stream.once('response', (given) => resolve(Number(given[':status'])))
    })
    this.closed = this.#read()
  }

  async #read() {
    let text = ''
    this.stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    await new Promise<void>((resolve) => this.stream.once('close', () => resolve()))
    return { text, rstCode: this.stream.rstCode ?? -1 }
  }
}
