import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { adapterWith } from '../../src/mcp/adapter.ts'
import { redisEventStore } from '../../src/redis/event-store.ts'
import { spokenOAuth } from '../support/attacks/spoken-tokens.ts'
import { incidentRouter } from '../support/mcp/incident-router.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'

/**
 * `node build/test/full/events-program.js <port of Redis> <certificate of the receiver>` is one node of a server with events. It
 * prints its port. `REDIS_CLIENT` names the library of its client. For each line with a number, it emits an event, and prints the number when `emit` has resolved.
 */
const [, , port, ca = ''] = process.argv
const kind = REDIS_CLIENTS.find(({ name }) => name === process.env.REDIS_CLIENT) ?? REDIS_CLIENTS[0]
const client = await kind?.connect(Number(port))
const adapter = adapterWith(
  {
    router: incidentRouter,
    oauth: spokenOAuth(),
    telemetry: false,
    events: { store: redisEventStore(client as never) },
  },
  { isAllowed: (address) => address === '127.0.0.1', ca },
)
const server = createServer(mcpHandler(adapter))
await once(server.listen(0, '127.0.0.1'), 'listening')
process.stdout.write(`${(server.address() as AddressInfo).port}\n`)

createInterface({ input: process.stdin }).on('line', async (line) => {
  try {
    await adapter.events.emit('incident', { id: Number(line) }, { eventId: `event-${line}` })
    process.stdout.write(`${line}\n`)
  } catch {
    // The store is away. Whether the event was stored is not known.
  }
})
