import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Below the ephemeral ports, so that the system gives no client the port while the server is down. */
const FIRST = 10_000
const LAST = 30_000

/** Returns a port of 127.0.0.1 on which no process listens. */
export async function freePort(): Promise<number> {
  for (;;) {
    const candidate = FIRST + Math.floor(Math.random() * (LAST - FIRST))
    const server = createServer()
    try {
      await once(server.listen(candidate, '127.0.0.1'), 'listening')
    } catch {
      continue
    }
    const { port } = server.address() as AddressInfo
    server.close()
    await once(server, 'close')
    return port
  }
}

/** Returns `count` different free ports. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await freePort())
  return [...ports]
}
