import { createServer } from 'node:http'
import { KitTelemetry, OtlpTransportAdapter } from '../../../src/telemetry/index.ts'
import { reportReady } from '../../support/attacks/resource-report.ts'

/** Emits an event and flushes for each request, as serverless functions do. The first argument is the collector. */

const telemetry = KitTelemetry.create()
  .withSampling({ infoRate: 1 })
  .withLogger({ error: () => {}, warn: () => {} })
  .addTransport(OtlpTransportAdapter.create({ url: process.argv[2] as string }))
  .build()

const server = createServer((request, response) => {
  if (request.url === '/stats') {
    const { accepted, delivered, failed, dropped, pending } = telemetry.stats().transports[0] ?? {}
    response.end(JSON.stringify({ accepted, delivered, failed, dropped, pending }))
    return
  }
  telemetry.emit('request', { attributes: { url: request.url } })
  void telemetry.flush()
  response.end()
}).listen(0, '127.0.0.1', () => reportReady(server))
