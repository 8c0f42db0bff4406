import { metrics } from '@opentelemetry/api'
import type { KitTelemetryManager } from 'mcp-gatekit'

/** Records the delivery statistics of a manager as metrics, by transport and outcome. They are read at each export. */
export function recordDelivery(telemetry: KitTelemetryManager): void {
  const meter = metrics.getMeter('library')
  meter
    .createObservableCounter('telemetry.events', {
      description: 'The number of events that have been delivered or lost.',
      unit: '{event}',
    })
    .addCallback((result) => {
      for (const { type: transport, delivered, failed, dropped } of telemetry.stats().transports) {
        result.observe(delivered, { transport, outcome: 'delivered' })
        result.observe(failed, { transport, outcome: 'failed' })
        result.observe(dropped, { transport, outcome: 'dropped' })
      }
    })
  meter
    .createObservableGauge('telemetry.events.pending', {
      description: 'The number of events that wait for a transport.',
      unit: '{event}',
    })
    .addCallback((result) => {
      for (const { type: transport, pending } of telemetry.stats().transports)
        result.observe(pending, { transport })
    })
}
