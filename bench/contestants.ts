import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A server to be measured: started in a process of its own, on a port of its own. */
export type Contestant = () => Promise<Server> | Server

/** Listens on a free loopback port; resolves with the port. */
export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
