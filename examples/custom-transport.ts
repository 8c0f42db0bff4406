import { appendFile } from 'node:fs/promises'
import { COMMON_SECRET_KEYS, KitTelemetry, type TelemetryTransport } from 'mcp-gatekit'

/** Appends every event to a file, one line of JSON each. */
export function fileTransport(path: string): TelemetryTransport {
  let last = Promise.resolve()
  return {
    type: 'file',
    handle(envelope) {
      // One after the other, so that the lines keep the order of the events. A line that could not be written
      // fails its own event only: the promise tells the manager, which counts it and logs why.
      last = last.catch(() => {}).then(() => appendFile(path, `${JSON.stringify(envelope)}\n`))
      return last
    },
  }
}

const telemetry = KitTelemetry.create()
  .withService('billing')
  .withSampling({ infoRate: 1 })
  .withRedaction({ denylistKeys: [...COMMON_SECRET_KEYS, 'card'] })
  .withLogger(console)
  .addTransport(fileTransport(process.argv[2] ?? 'events.jsonl'))
  .build()

telemetry.emit('invoice.paid', { attributes: { cents: 1200, card: '4242 4242 4242 4242' } })
await telemetry.shutdown()
