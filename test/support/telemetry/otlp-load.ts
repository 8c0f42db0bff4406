import { KitTelemetry, OtlpTransportAdapter } from '../../../src/index.ts'

/**
 * A program under load, as an application would write it: 5 000 events per second to the collector in
 * `argv[2]`, in the encoding in `argv[3]`, until a signal comes. It writes how many events it has emitted.
 */
const [url = '', encoding] = process.argv.slice(2)
const telemetry = KitTelemetry.create()
  .withLogger(false)
  .withService('load')
  .withSampling({ infoRate: 1 })
  .addTransport(OtlpTransportAdapter.create({ url, encoding: encoding as 'json' | 'protobuf' }))
  .build()

let emitted = 0
let stopping = false
process.once('SIGTERM', async () => {
  stopping = true
  process.stdout.write(`${emitted}\n`)
  await telemetry.shutdown()
  process.exit(0)
})

const started = performance.now()
setInterval(() => {
  const due = (performance.now() - started) * 5
  while (!stopping && emitted < due)
    telemetry.emit('load.event', { attributes: { index: emitted++, path: '/notes' } })
}, 5)
