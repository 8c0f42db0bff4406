import { createServer } from 'node:http'
import express from 'express'
import {
  COMMON_SECRET_KEYS,
  createMcpAdapter,
  KitMcpRouter,
  KitTelemetry,
  mcpHandler,
  OtlpTransportAdapter,
} from 'mcp-gatekit'
import { z } from 'zod'
import { listen, stop } from './listen.ts'

// The URL of the collector: the first argument, or the standard variable of OpenTelemetry.
const url = process.argv[2] || process.env.OTEL_EXPORTER_OTLP_ENDPOINT || 'http://127.0.0.1:4318'

const telemetry = KitTelemetry.create()
  .withService('weather')
  .withVersion('1.0.0')
  .withEnvironment(process.env.NODE_ENV ?? 'development')
  // By default, one info event in ten is kept.
  .withSampling({ infoRate: 1 })
  .withRedaction({ hashKeys: ['email'], denylistKeys: COMMON_SECRET_KEYS })
  // Receives internal diagnostics, such as rejected batches and dropped events.
  .withLogger(console)
  .addTransport(OtlpTransportAdapter.create({ url, compression: 'gzip' }))
  .build()

const router = KitMcpRouter.create().tool(
  'forecast',
  {
    title: 'Weather forecast',
    description: 'Returns tomorrow’s weather',
    input: z.object({ city: z.string() }),
    annotations: { readOnlyHint: true, openWorldHint: false },
  },
  ({ city }) => {
    // The adapter also emits an event for every call. Both have the same session.id.
    telemetry.emit('forecast.asked', { attributes: { city } })
    return `Tomorrow ${city} will be sunny.`
  },
)
// Without `oauth`, no token is required. Run this example only on your own machine.
const adapter = createMcpAdapter({ router, telemetry, serverInfo: { name: 'weather', version: '1.0.0' } })

const app = express()
app.use('/mcp', mcpHandler(adapter))
const http = createServer(app)
const port = await listen(http, Number(process.env.PORT ?? 3000))
console.log(`The MCP server is at http://127.0.0.1:${port}/mcp`)
console.log(`Events go to ${url}`)

/** Finishes running requests first and then sends their events. After `shutdown`, no events are sent. */
async function close(): Promise<void> {
  await stop(http, 1_000)
  await telemetry.shutdown({ timeoutMs: 5_000 })
  for (const { delivered, failed, dropped, pending, lastError } of telemetry.stats().transports) {
    console.log(`${delivered} events delivered, ${failed} failed, ${dropped} dropped, ${pending} pending`)
    if (lastError) console.log(lastError.message)
  }
}

// A second Ctrl-C ends the process immediately.
process.once('SIGINT', close)
process.once('SIGTERM', close)
