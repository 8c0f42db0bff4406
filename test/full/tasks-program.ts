import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from 'ioredis'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { redisTaskStore } from '../../src/redis/task-store.ts'

/** `node build/test/full/tasks-program.js <port of Redis>` is one node of a server with tasks. It prints its port. */
const client = new Redis(Number(process.argv[2]), '127.0.0.1')
client.on('error', () => undefined)
const router = KitMcpRouter.create()
  .tool('wait', { description: 'Waits for its signal', task: 'required' }, (_args, { signal }) =>
    once(signal, 'abort'),
  )
  .tool('quick', { description: 'Returns at once', task: 'required' }, () => 'done')
const adapter = createMcpAdapter({ router, tasks: { store: redisTaskStore(client) } })
const server = createServer(mcpHandler(adapter))
await once(server.listen(0, '127.0.0.1'), 'listening')
process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
