// The server of the soak test, run with --expose-gc. It prints its port, and its memory and resources on request.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { InMemoryServerEventBus } from '@modelcontextprotocol/server'
import express, { type RequestHandler } from 'express'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'
import { mcpAuth } from '../../src/express/mcp-auth.ts'
import { mcpCors } from '../../src/express/mcp-cors.ts'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { KitToolError } from '../../src/mcp/router/tool-error.ts'
import type { VerifiedToken, VerifyToken } from '../../src/oauth/options.ts'
import { KitTelemetry } from '../../src/telemetry/index.ts'

/** The memory and the open resources of the program after a garbage collection. */
export interface Weight {
  readonly heapBytes: number
  readonly residentBytes: number
  readonly streams: number
  readonly connections: number
  readonly calls: number
  /** The number of resources that keep Node running, by kind. */
  readonly resources: Readonly<Record<string, number>>
}

let calls = 0
let events = 0

const router = KitMcpRouter.create()
  .context(({ request }) => ({ agent: request.headers.get('user-agent') }))
  .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool(
    'sum',
    { description: 'x', input: z.object({ a: z.number() }), output: z.object({ sum: z.number() }) },
    ({ a }) => ({
      sum: a + 1,
    }),
  )
  .tool('refuse', { description: 'x' }, () => {
    throw new KitToolError('no')
  })
  .tool('break', { description: 'x' }, () => {
    throw new Error('broken')
  })
  .tool('nonsense', { description: 'x' }, () => ({ content: [], _meta: { n: 1n } }) as never)
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('stream', { description: 'x' }, async (_args, { progress, log }) => {
    for (let n = 0; n < 20; n++) {
      await progress(n, 20, 'x'.repeat(200))
      await new Promise(setImmediate)
    }
    await log('info', 'done')
    return 'done'
  })
  .tool('wait', { description: 'x' }, async (_args, { signal }) => {
    calls++
    if (!signal.aborted) await once(signal, 'abort')
    calls--
  })
  .prompt('hello', { input: z.object({ who: z.string() }) }, ({ who }) => `Hello ${who}`)
  .resource('one', { uri: 'x://one' }, () => ({ n: 1 }))
  .resourceTemplate('more', { uriTemplate: 'y://{id}' }, (_uri, { id }) => `${id}`)

const telemetry = KitTelemetry.create()
  .withService('soak')
  .withSampling({ debugRate: 1, infoRate: 1 })
  .withRedaction({ denylistKeys: ['password'], hashKeys: ['user'], maxStringLength: 500 })
  .addTransport({
    type: 'count',
    async handle() {
      events++
    },
  })
  .build()

const bus = new InMemoryServerEventBus()
/** Accepted tokens. The cache is small, so that entries are added and removed all the time. */
const accepted = new LRUCache<string, VerifiedToken>({ max: 200, ttl: 5_000 })

const verify: VerifyToken = async ({ bearerToken }) => {
  const known = bearerToken === undefined ? undefined : accepted.get(bearerToken)
  if (known !== undefined || bearerToken?.startsWith('good') !== true) return known
  await new Promise(setImmediate)
  const expiresAt = Date.now() / 1000 + 60
  const result = { valid: true, user: { id: bearerToken }, scopes: ['mcp:read'], expiresAt }
  accepted.set(bearerToken, result)
  return result
}

const adapter = createMcpAdapter({
  router,
  telemetry,
  recordPayloads: true,
  eventBus: bus,
  oauth: { issuer: 'https://auth.example.com', scopes: ['mcp:read'], verifyToken: verify },
})
const route = [mcpCors(), mcpAuth(adapter), mcpHandler(adapter)] as RequestHandler[]
const server = createServer(
  express()
    .set('env', 'test')
    .use('/mcp', ...route),
)
await once(server.listen(0, '127.0.0.1'), 'listening')

const notifying = setInterval(() => {
  adapter.notify.toolsChanged()
  adapter.notify.resourceUpdated('x://one')
}, 50)

process.on('unhandledRejection', (reason) => {
  console.error(reason)
  process.exit(1)
})

process.on('message', async (message) => {
  if (message === 'end') {
    clearInterval(notifying)
    await telemetry.shutdown()
    server.close()
    process.disconnect()
    return
  }
  process.send?.(await weight())
})

async function weight(): Promise<Weight> {
  for (let time = 0; time < 3; time++) {
    globalThis.gc?.()
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const { heapUsed, rss } = process.memoryUsage()
  const resources: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1
  return {
    heapBytes: heapUsed,
    residentBytes: rss,
    streams: bus.listenerCount,
    connections: await new Promise((resolve) => server.getConnections((_error, count) => resolve(count))),
    calls,
    resources,
  }
}

process.send?.({ port: (server.address() as AddressInfo).port })
// Without events, telemetry would need no memory.
process.on('exit', () => {
  if (events === 0) process.exitCode = 2
})
