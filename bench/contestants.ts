import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A function that starts a measured server. Each server runs in a separate process and has its own port. */
export type Contestant = () => Promise<Server> | Server

/** Listens on a free loopback port and resolves with the port. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
