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

// Where the collector is: the first argument, or the variable that OpenTelemetry has for it.
const url = process.argv[2] || process.env.OTEL_EXPORTER_OTLP_ENDPOINT || 'http://127.0.0.1:4318'

const telemetry = KitTelemetry.create()
  .withService('weather')
  .withVersion('1.0.0')
  .withEnvironment(process.env.NODE_ENV ?? 'development')
  // By default one info event in ten is kept.
  .withSampling({ infoRate: 1 })
  .withRedaction({ hashKeys: ['email'], denylistKeys: COMMON_SECRET_KEYS })
  // The library's own troubles: a collector that refuses, events that were dropped.
  .withLogger(console)
  .addTransport(OtlpTransportAdapter.create({ url, compression: 'gzip' }))
  .build()

const router = KitMcpRouter.create().tool(
  'forecast',
  { description: 'Tells tomorrow’s weather', input: z.object({ city: z.string() }) },
  ({ city }) => {
    // Beside what the adapter tells of every call; in the same session, so both have the same session.id.
    telemetry.emit('forecast.asked', { attributes: { city } })
    return `Tomorrow ${city} will be sunny.`
  },
)
// Without `oauth` everybody may call: an example for this machine alone.
const adapter = createMcpAdapter({ router, telemetry, serverInfo: { name: 'weather', version: '1.0.0' } })

const app = express()
app.use('/mcp', mcpHandler(adapter))
const http = createServer(app)
const port = await listen(http, Number(process.env.PORT ?? 3000))
console.log(`The weather server  http://127.0.0.1:${port}/mcp`)
console.log(`Its events go to    ${url}`)

/** First the requests that are being served, then the events they emitted: after `shutdown` nothing is sent. */
async function close(): Promise<void> {
  await stop(http, 1_000)
  await telemetry.shutdown({ timeoutMs: 5_000 })
  for (const { delivered, failed, dropped, pending, lastError } of telemetry.stats().transports) {
    console.log(`${delivered} events delivered, ${failed} failed, ${dropped} dropped, ${pending} pending`)
    if (lastError) console.log(lastError.message)
  }
}

// Once each: whoever presses Ctrl-C again does not want to wait.
process.once('SIGINT', close)
process.once('SIGTERM', close)
