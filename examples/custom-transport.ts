import { appendFile } from 'node:fs/promises'
import { COMMON_SECRET_KEYS, KitTelemetry, type TelemetryTransport } from 'mcp-gatekit'

/** Creates a transport that appends every event to a file as one line of JSON. */
export function fileTransport(path: string): TelemetryTransport {
  let last = Promise.resolve()
  return {
    type: 'file',
    handle(envelope) {
      // Sequential writes keep the order of the events. If a write fails, only its event fails: the manager counts the
      // rejected promise and logs the error.
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
