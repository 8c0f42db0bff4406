import { COMMON_SECRET_KEYS, KitTelemetry, type KitTelemetryManager } from 'mcp-gatekit'

type Transport = Parameters<ReturnType<typeof KitTelemetry.create>['addTransport']>[0]

/** Creates the telemetry of the notes server. It keeps every event and hashes email addresses. */
export function notesTelemetry(environment: string, transports: readonly Transport[]): KitTelemetryManager {
  const telemetry = KitTelemetry.create()
    .withService('notes')
    .withEnvironment(environment)
    // By default, one info event in ten and one debug event in a hundred are kept.
    .withSampling({ debugRate: 1, infoRate: 1 })
    .withRedaction({ hashKeys: ['email'], denylistKeys: COMMON_SECRET_KEYS })
    .withLogger(console)
  return transports.reduce((builder, transport) => builder.addTransport(transport), telemetry).build()
}
