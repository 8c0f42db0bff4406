import { createServer } from 'node:http'
import { metrics } from '@opentelemetry/api'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import express from 'express'
import {
  COMMON_SECRET_KEYS,
  createMcpAdapter,
  KitMcpRouter,
  KitTelemetry,
  LoggerTransportAdapter,
  mcpHandler,
  OtlpTransportAdapter,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { z } from 'zod'
import { listen, stop } from '../listen.ts'
import { recordDelivery } from './delivery-metrics.ts'

// Metrics are served at http://127.0.0.1:9464/metrics, for Prometheus or a Collector.
const exporter = new PrometheusExporter({ preventServerStart: true })
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [exporter] }))

// Events go to the console and, if there is one, to a Collector.
const { OTEL_EXPORTER_OTLP_ENDPOINT: collector } = process.env
let builder = KitTelemetry.create()
  .withService('library')
  .withSampling({ infoRate: 1 })
  .withRedaction({ denylistKeys: COMMON_SECRET_KEYS })
  .withLogger(console)
  .addTransport(LoggerTransportAdapter.create({ logger: console, minLevel: 'warn' }))
if (collector !== undefined) builder = builder.addTransport(OtlpTransportAdapter.create({ url: collector }))
const telemetry = builder.build()
recordDelivery(telemetry)

const router = KitMcpRouter.create()
  .tool(
    'find-book',
    { description: 'Finds a book', input: z.object({ title: z.string() }) },
    ({ title }, { session }) => {
      session?.set({ 'library.shelves': 12 })
      return `${title} is on shelf 3.`
    },
  )
  .tool('lend-book', { description: 'Lends a book' }, () => {
    throw new Error('The catalog is not available')
  })
  .tool(
    'export-catalog',
    { description: 'Exports the catalog', limits: { calls: { max: 1, perSeconds: 3600, by: 'user' } } },
    () => 'Emma, Persuasion',
  )
  .tool('remove-book', { description: 'Removes a book', scopes: ['library:write'] }, () => 'Removed.')

// The token is for this example only. A real server verifies tokens with `jwtVerifier()`.
const adapter = createMcpAdapter({
  router,
  telemetry,
  sessions: true,
  limits: { calls: { max: 120, perSeconds: 60, by: 'user' }, timeoutMs: 120_000, maxResultBytes: 1_000_000 },
  oauth: {
    issuer: 'https://auth.example.com',
    resource: 'http://127.0.0.1:3000/mcp',
    rateLimit: { points: 10, durationSeconds: 60 },
    verifyToken: ({ bearerToken }) =>
      bearerToken === 'demo' ? { valid: true, user: { id: 'ada' }, scopes: ['library:read'] } : undefined,
  },
})

const app = express()
app.use('/mcp', mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
const http = createServer(app)
const scraped = createServer((req, res) => {
  if (req.url === '/metrics') exporter.getMetricsRequestHandler(req, res)
  else res.writeHead(404).end()
})
const port = await listen(http, Number(process.env.PORT ?? 3000))
const metricsPort = await listen(scraped, Number(process.env.METRICS_PORT ?? 9464))
console.log(`The MCP server is at http://127.0.0.1:${port}/mcp`)
console.log(`The metrics are at http://127.0.0.1:${metricsPort}/metrics`)

async function close(): Promise<void> {
  await stop(http, 1_000)
  await telemetry.shutdown({ timeoutMs: 5_000 })
  await stop(scraped)
}
process.once('SIGTERM', () => void close())
process.once('SIGINT', () => void close())
