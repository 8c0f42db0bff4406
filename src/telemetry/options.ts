import { KitTelemetryError } from './errors.ts'
import { quoted, suggestion } from './suggestion.ts'

/** A `TELEMETRY_CONFIGURATION_INVALID` that names the option and how to mend it. */
export function invalidOption(option: string, expected: string, given: unknown): KitTelemetryError {
  return new KitTelemetryError(
    'TELEMETRY_CONFIGURATION_INVALID',
    `${option} must be ${expected}; got ${typeof given === 'number' ? String(given) : quoted(given)}`,
  )
}

/**
 * Copies an options object whose members are checked one by one.
 * @param method the call that took it, for the message, e.g. `withSampling`
 * @param checks for each member, a function that throws when its value cannot be; never called for `undefined`
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for no object, an unknown member or a wrong value
 */
export function copyOptions<T extends object>(
  method: string,
  options: T,
  checks: { readonly [Member in keyof T]-?: (value: unknown, option: string) => void },
): T {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw invalidOption(`the argument of ${method}()`, 'an object', options)
  }
  const copy: Record<string, unknown> = {}
  for (const [member, value] of Object.entries(options)) {
    const check = Object.hasOwn(checks, member) ? checks[member as keyof T] : undefined
    if (check === undefined) {
      throw new KitTelemetryError(
        'TELEMETRY_CONFIGURATION_INVALID',
        `${method}() does not know the option ${quoted(member)}${suggestion(member, Object.keys(checks))}`,
      )
    }
    if (value !== undefined) check(value, `${method}({ ${member} })`)
    copy[member] = Array.isArray(value) ? Object.freeze([...value]) : value
  }
  return Object.freeze(copy) as T
}

/** Replaces what is `undefined` by its default. */
export function withDefaults<T extends object>(
  defaults: T,
  given: { readonly [Member in keyof T]?: unknown },
): T {
  const resolved = { ...defaults } as Record<string, unknown>
  for (const [member, value] of Object.entries(given)) {
    if (value !== undefined) resolved[member] = value
  }
  return resolved as T
}

export function checkBoolean(value: unknown, option: string): void {
  if (typeof value !== 'boolean') throw invalidOption(option, 'true or false', value)
}

export function checkString(value: unknown, option: string): void {
  if (typeof value !== 'string' || value === '')
    throw invalidOption(option, 'a string that is not empty', value)
}

export function checkStrings(value: unknown, option: string): void {
  if (!Array.isArray(value)) throw invalidOption(option, 'an array of strings', value)
  for (let index = 0; index < value.length; index++) checkString(value[index], `${option}, item ${index},`)
}

export function checkOneOf(values: readonly string[]): (value: unknown, option: string) => void {
  return (value, option) => {
    if (typeof value !== 'string' || !values.includes(value)) {
      throw invalidOption(option, `one of ${values.map((known) => `'${known}'`).join(', ')}`, value)
    }
  }
}
