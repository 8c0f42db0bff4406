import { once } from 'node:events'
import { type AddressInfo, createServer as createPlainServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { gzipSync } from 'node:zlib'

/** Answers a connection on which a request has arrived. */
export type Misbehavior = (socket: Socket) => unknown

const OK = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'

/** Sends `piece` again and again until the connection ends. */
function repeat(socket: Socket, piece: string | Buffer, everyMs: number): void {
  const timer = setInterval(() => socket.write(piece), everyMs)
  socket.once('close', () => clearInterval(timer))
}

/** Sends `piece` as fast as the other side reads, until the connection ends. */
function flood(socket: Socket, piece: Buffer): void {
  const write = (): void => {
    while (!socket.destroyed && socket.write(piece));
  }
  socket.on('drain', write)
  write()
}

/** Ends a connection with a reset. One with TLS is only closed without its last message. */
export function reset(socket: Socket): void {
  if ('encrypted' in socket) socket.destroy()
  else socket.resetAndDestroy()
}

/** Every way in which a server can fail to send a response. */
export const MISBEHAVIORS: Readonly<Record<string, Misbehavior>> = {
  'switches protocols (101)': (socket) =>
    socket.end('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'),
  'switches protocols, and stays open': (socket) =>
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nrest'),
  'closes before the head': (socket) => socket.end(),
  'closes within the head': (socket) => socket.end(OK),
  'closes within the body': (socket) => socket.end(`${OK}Content-Length: 100\r\n\r\n{`),
  'closes within a chunk': (socket) => socket.end(`${OK}Transfer-Encoding: chunked\r\n\r\n64\r\n{`),
  'resets the connection': (socket) => reset(socket),
  'resets the connection within the body': (socket) =>
    socket.write(`${OK}Content-Length: 100\r\n\r\n{`, () => reset(socket)),
  'sends a body without an end': (socket) => {
    socket.write(`${OK}\r\n`)
    flood(socket, Buffer.alloc(65_536, ' '))
  },
  'sends a head without an end': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    repeat(socket, 'X: y\r\n', 5)
  },
  'sends a head of many megabytes': (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nX: ')
    flood(socket, Buffer.alloc(65_536, 'y'))
  },
  'sends a body byte by byte': (socket) => {
    socket.write(`${OK}Content-Length: 100000\r\n\r\n`)
    repeat(socket, ' ', 5)
  },
  'sends chunks byte by byte': (socket) => {
    socket.write(`${OK}Transfer-Encoding: chunked\r\n\r\n`)
    repeat(socket, '1\r\n \r\n', 5)
  },
  'does not respond': () => undefined,
  'redirects to itself': (socket) =>
    socket.end('HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n'),
  'sends informational responses only': (socket) => repeat(socket, 'HTTP/1.1 103 Early Hints\r\n\r\n', 5),
  'sends garbage': (socket) => socket.end(Buffer.alloc(1_000, 0xfe)),
  'sends a Content-Length that is too large': (socket) => socket.end(`${OK}Content-Length: 1000\r\n\r\n{}`),
  'sends a Content-Length that is too small': (socket) => socket.end(`${OK}Content-Length: 1\r\n\r\n{}{}`),
  'sends two Content-Length headers': (socket) =>
    socket.end(`${OK}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}`),
  'sends chunk sizes that are not numbers': (socket) =>
    socket.end(`${OK}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n`),
  'sends a status that is not valid': (socket) => socket.end('HTTP/1.1 999 X\r\nContent-Length: 0\r\n\r\n'),
  'sends a gzip bomb': (socket) => {
    const bomb = gzipSync(Buffer.alloc(20_000_000))
    socket.write(`${OK}Content-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`)
    socket.end(bomb)
  },
  'sends garbage as gzip': (socket) =>
    socket.end(`${OK}Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello`),
}

export interface HostileServer {
  readonly origin: string
  /** Answers the next requests. */
  misbehave: Misbehavior
  /** The number of open connections on which a request has arrived. */
  readonly connections: () => number
  close(): Promise<void>
}

/** Starts a server on a free port of 127.0.0.1, with TLS if there is a certificate. */
export async function startHostileServer(
  misbehave: Misbehavior,
  certificate?: { readonly key: string; readonly cert: string },
): Promise<HostileServer> {
  const open = new Set<Socket>()
  const asked = new Set<Socket>()
  const listener = (socket: Socket): void => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    socket.on('error', () => undefined)
    let isAnswered = false
    socket.on('data', () => {
      if (isAnswered) return
      isAnswered = true
      asked.add(socket)
      socket.once('close', () => asked.delete(socket))
      hostile.misbehave(socket)
    })
  }
  const server: Server =
    certificate === undefined
      ? createPlainServer(listener)
      : createTlsServer({ ...certificate, ALPNProtocols: ['http/1.1'] }, listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const hostile: HostileServer = {
    origin: `${certificate === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    misbehave,
    connections: () => asked.size,
    async close() {
      for (const socket of open) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  return hostile
}
