import { COMMON_SECRET_KEYS, KitTelemetry } from 'mcp-gatekit'
import { auditFile, type TelemetryTransport } from 'mcp-gatekit/telemetry'

/** Creates a transport that appends the events of one namespace to a file. Other events count as delivered. */
export function namespaceFile(namespace: string, path: string): TelemetryTransport {
  const file = auditFile(path)
  return {
    type: `${namespace}-file`,
    init: (meta) => file.init?.(meta),
    // If a write fails, its promise rejects: the manager counts the event as failed and logs the error.
    handle: (envelope) => (envelope.name.startsWith(`${namespace}.`) ? file.handle(envelope) : undefined),
    shutdown: (deadline) => file.shutdown?.(deadline),
  }
}

const telemetry = KitTelemetry.create()
  .withService('billing')
  .withSampling({ infoRate: 1 })
  .withRedaction({ denylistKeys: [...COMMON_SECRET_KEYS, 'card'] })
  .withLogger(console)
  .addTransport(namespaceFile('invoice', process.argv[2] ?? 'events.jsonl'))
  .build()

telemetry.emit('invoice.paid', { attributes: { cents: 1200, card: '4242 4242 4242 4242' } })
await telemetry.shutdown()
