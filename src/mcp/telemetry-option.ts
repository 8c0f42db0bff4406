import type { OptionChecks } from '../options/option-checks.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'

/** @throws {KitMcpConfigError} if `manager` is not a telemetry manager. */
export function checkTelemetry(
  manager: KitTelemetryManager<any, any, any>,
  { invalidKind }: OptionChecks,
): KitTelemetryManager<any, any, any> {
  if (typeof (manager as { session?: unknown } | null)?.session !== 'function') {
    throw invalidKind('telemetry', 'must be the manager that KitTelemetry…build() returned', manager)
  }
  return manager
}
