import { describeKind, describeValue } from '../options/describe-value.ts'
import { KitTelemetryError, type KitTelemetryErrorCode } from './errors.ts'
import { quoted, suggestion } from './suggestion.ts'

/**
 * An error of a call that configures something: `message`, and the heading of `docs/reference/errors.md` that tells more.
 * @param docs default: the heading of the code
 */
export function configurationError(
  code: KitTelemetryErrorCode,
  message: string,
  docs: string = `docs/reference/errors.md#${code.toLowerCase()}`,
): KitTelemetryError {
  return new KitTelemetryError(code, `${message}${message.endsWith('.') ? '' : '.'} See ${docs}`, { docs })
}

/** `<option> must be <expected>, got <what was given> (<hint>).`, as `TELEMETRY_CONFIGURATION_INVALID`. */
export function invalidOption(
  option: string,
  expected: string,
  given: unknown,
  hint?: string,
): KitTelemetryError {
  return misconfigured(option, `must be ${expected}, got ${describeValue(given)}`, hint)
}

/** As `invalidOption`, for an option that takes a secret: what was given is told by its kind and length alone. */
export function invalidKind(
  option: string,
  expected: string,
  given: unknown,
  hint?: string,
): KitTelemetryError {
  return misconfigured(option, `must be ${expected}, got ${describeKind(given)}`, hint)
}

/** `<option> <problem> (<hint>).`, where the problem says by itself what was given. */
export function unusableOption(option: string, problem: string, hint?: string): KitTelemetryError {
  return misconfigured(option, problem, hint)
}

/**
 * Names the option that was probably meant, and all there are.
 * @param like what is compared with the known ones, where `member` is another word for one of them
 */
export function unknownOption(
  where: string,
  member: string,
  known: readonly string[],
  like: string = member,
): KitTelemetryError {
  const meant = suggestion(like, known)
  return misconfigured(
    where,
    `does not know the option ${quoted(member)}${meant}. Known are: ${known.join(', ')}`,
  )
}

/** A heading of `docs/reference/errors.md` is that of the call which the option is named by: `withSampling({ infoRate })`. */
function misconfigured(option: string, problem: string, hint?: string): KitTelemetryError {
  const [, call] = /(?<![\w.])([a-zA-Z.]+)\(/.exec(option) ?? []
  return configurationError(
    'TELEMETRY_CONFIGURATION_INVALID',
    `${option} ${problem}${hint === undefined ? '' : ` (${hint})`}`,
    call === undefined ? undefined : `docs/reference/errors.md#${call.replaceAll('.', '').toLowerCase()}`,
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
    throw invalidKind(`the argument of ${method}()`, 'an object', options)
  }
  const copy: Record<string, unknown> = {}
  for (const [member, value] of Object.entries(options)) {
    const check = Object.hasOwn(checks, member) ? checks[member as keyof T] : undefined
    if (check === undefined) throw unknownOption(`${method}()`, member, Object.keys(checks))
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
  if (!Array.isArray(value)) throw invalidKind(option, 'an array of strings', value)
  for (let index = 0; index < value.length; index++) checkString(value[index], `${option}, item ${index},`)
}

export function checkOneOf(values: readonly string[]): (value: unknown, option: string) => void {
  return (value, option) => {
    if (typeof value === 'string' && values.includes(value)) return
    const meant = typeof value === 'string' ? suggestion(value, values) : ''
    const expected = `one of ${values.map((known) => `'${known}'`).join(', ')}`
    throw invalidOption(option, expected, value, meant === '' ? undefined : meant.slice(2, -1))
  }
}
