/** Priority of each level, for `minLevel` filtering: a transport drops what is below its own. */
export const LEVEL_PRIORITY = {
  debug: 10,
  info: 20,
  warn: 30,
  error: 40,
  fatal: 50,
} as const

/** Severity of an event, from least to most severe. */
export type TelemetryLevel = keyof typeof LEVEL_PRIORITY

/** Whether `value` is one of the five levels. */
export function isTelemetryLevel(value: unknown): value is TelemetryLevel {
  return typeof value === 'string' && Object.hasOwn(LEVEL_PRIORITY, value)
}
