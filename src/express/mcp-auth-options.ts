import { checkTelemetry } from '../mcp/telemetry-option.ts'
import {
  checkAllowedHosts,
  checkAllowedOrigins,
  type OriginPolicyOptions,
} from '../mcp/wire/origin-policy.ts'
import { isOptionsObject, type OptionChecks, optionChecksOf } from '../options/option-checks.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'

/** The origins and hosts that may send requests. */
export interface AllowedOriginsOptions {
  /**
   * The origins that may send requests: a list, or `'*'`. Without it, a loopback host permits only loopback origins, and any
   * other host permits every origin.
   */
  readonly allowedOrigins?: readonly string[] | '*' | undefined
  /**
   * The host names, without port, that are allowed in `Host`. Without it, a server that listens on a loopback address allows
   * only loopback names, and any other server allows all.
   */
  readonly allowedHosts?: readonly string[] | undefined
}

/** Options of {@link mcpAuth}. */
export interface McpAuthOptions extends AllowedOriginsOptions {
  /**
   * The telemetry manager that receives the decisions about requests, and their durations. Only for OAuth options: an adapter
   * has its own. No events are emitted by default.
   */
  readonly telemetry?: KitTelemetryManager<any, any, any> | undefined
}

export interface ResolvedMcpAuthOptions {
  readonly telemetry: KitTelemetryManager<any, any, any> | undefined
  readonly originPolicy: OriginPolicyOptions | undefined
}

const checks = optionChecksOf('mcpAuth')

/** @throws {KitMcpConfigError} if an option is invalid or unknown. */
export function resolveMcpAuthOptions(options: McpAuthOptions, isAdapter: boolean): ResolvedMcpAuthOptions {
  if (!isOptionsObject(options))
    throw checks.invalidKind('options', 'must be an object such as { telemetry }', options)
  checks.checkKnownOptions('mcpAuth', options, ['telemetry', 'allowedOrigins', 'allowedHosts'])
  const { telemetry } = options
  if (telemetry !== undefined && isAdapter) {
    throw checks.invalidKind(
      'telemetry',
      'must not be set together with an adapter. Pass it to createMcpAdapter() or withTelemetry()',
      telemetry,
    )
  }
  return {
    telemetry: telemetry === undefined ? undefined : checkTelemetry(telemetry, checks),
    originPolicy: resolveOriginPolicy(checks, options),
  }
}

/**
 * Returns the checks of `Origin` and `Host`, or `undefined` if neither option is set.
 * @throws {KitMcpConfigError} if an option is invalid.
 */
export function resolveOriginPolicy(
  checks: OptionChecks,
  { allowedOrigins, allowedHosts }: AllowedOriginsOptions,
): OriginPolicyOptions | undefined {
  if (allowedOrigins === undefined && allowedHosts === undefined) return undefined
  return {
    allowedOrigins: allowedOrigins === undefined ? undefined : checkAllowedOrigins(checks, allowedOrigins),
    allowedHosts: allowedHosts === undefined ? undefined : checkAllowedHosts(checks, allowedHosts),
    hasOAuth: true,
  }
}
