/**
 * The priority of each level. A transport ignores events whose priority is below that of its `minLevel`.
 *
 * @example
 * ```ts
 * import { LEVEL_PRIORITY, type TelemetryEnvelope } from 'mcp-gatekit/telemetry'
 *
 * const isUrgent = ({ level }: TelemetryEnvelope): boolean => LEVEL_PRIORITY[level] >= LEVEL_PRIORITY.error
 * ```
 * @see docs/reference/transports.md
 */
export const LEVEL_PRIORITY = {
  debug: 10,
  info: 20,
  warn: 30,
  error: 40,
  fatal: 50,
} as const

/** The severity of an event, from least to most severe. */
export type TelemetryLevel = keyof typeof LEVEL_PRIORITY

/**
 * Returns `true` if a value is one of the five levels.
 * @param value any value, such as an environment variable.
 *
 * @example
 * ```ts
 * import { isTelemetryLevel, type TelemetryLevel } from 'mcp-gatekit/telemetry'
 *
 * const given = process.env.MIN_LEVEL
 * const minLevel: TelemetryLevel = isTelemetryLevel(given) ? given : 'info'
 * ```
 * @see docs/reference/transports.md
 */
export function isTelemetryLevel(value: unknown): value is TelemetryLevel {
  return typeof value === 'string' && Object.hasOwn(LEVEL_PRIORITY, value)
}
