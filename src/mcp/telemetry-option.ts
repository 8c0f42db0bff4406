import type { OptionChecks } from '../base/options/option-checks.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'

/** A telemetry manager, or `false` for neither events nor lines on stderr. */
export type TelemetryOption = KitTelemetryManager<any, any, any> | false

/** @throws {KitMcpConfigError} if `manager` is neither a telemetry manager nor `false`. */
export function checkTelemetry(manager: TelemetryOption, { invalidKind }: OptionChecks): TelemetryOption {
  if (manager === false) return manager
  if (typeof (manager as { session?: unknown } | null)?.session !== 'function') {
    throw invalidKind(
      'telemetry',
      'must be the manager that KitTelemetry…build() returned, or false',
      manager,
    )
  }
  return manager
}
