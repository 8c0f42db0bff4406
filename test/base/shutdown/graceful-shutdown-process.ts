import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gracefulShutdown } from '../../../src/base/shutdown/graceful-shutdown.ts'
import { KitTelemetry } from '../../../src/telemetry/builder.ts'

/** A process that the tests end: `/slow` gets a response when the server closes, and `/never` gets none. */
const telemetry = KitTelemetry.create()
  .withService('test')
  .withEnvironment('test')
  .addTransport({
    type: 'slow',
    handle: async ({ name }) => {
      await new Promise((resolve) => setTimeout(resolve, 100))
      console.log(`event ${name}`)
    },
  })
  .build()

const server = createServer((req, res) => {
  console.log('begun')
  if (req.url === '/never') return
  shutdown.signal.addEventListener('abort', () => {
    setTimeout(() => {
      telemetry.emit('request.done', { level: 'error' })
      res.end('done')
    }, 50)
  })
})
const shutdown = gracefulShutdown(server, {
  telemetry,
  timeoutMs: 5000,
  signals: ['SIGTERM', 'SIGINT'],
  onClosed: (report) => console.log(JSON.stringify(report)),
})
shutdown.signal.addEventListener('abort', () => console.log('closing'))
server.listen(0, () => console.log(`port ${(server.address() as AddressInfo).port}`))
