import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Listening {
  readonly server: Server
  readonly port: number
  /** `http://127.0.0.1:<port>` */
  readonly origin: string
}

const open = new Set<Server>()

/** Serves on a free port of 127.0.0.1 until the test ends. */
export async function listen(listener: RequestListener): Promise<Listening> {
  // The limit allows the longest token that is accepted, and one character more.
  const server = createServer({ maxHeaderSize: 65_536 }, listener).listen(0, '127.0.0.1')
  open.add(server)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { server, port, origin: `http://127.0.0.1:${port}` }
}

/** Closes a server and all its connections before the test ends. */
export async function stopListening(server: Server): Promise<void> {
  open.delete(server)
  if (!server.listening) return
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}

afterEach(async () => {
  await Promise.all([...open].map(stopListening))
})
