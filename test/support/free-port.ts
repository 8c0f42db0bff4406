import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Below what systems give to clients that connect: between the look and the use, and while a server is away, nobody gets one of these by chance. */
const FIRST = 10_000
const LAST = 30_000

/** A port of 127.0.0.1 at which nobody listens. */
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

/** As many free ports, no two alike. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await freePort())
  return [...ports]
}
