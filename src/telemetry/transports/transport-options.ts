import { isOptionsObject } from '../../base/options/option-kit.ts'
import type { OptionRule, OptionRules, ReadBy } from '../../base/options/option-rules.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../levels.ts'
import { telemetryOptions } from '../options.ts'

const { checkKnownOptions, checkMs, invalidKind, wholeNumber } = telemetryOptions

/**
 * Reads the options of a transport by a table of rules, into a frozen object. Errors name an option `call({ option })`. The
 * values may be secrets, so the rules of this folder do not repeat them.
 * @param required the options that an error names for an argument that is not an object.
 * @param aliases other words for known options.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid or unknown.
 */
export function readTransportOptions<Rules extends OptionRules>(
  call: string,
  options: unknown,
  rules: Rules,
  required?: readonly string[],
  aliases?: Readonly<Record<string, string>>,
): ReadBy<Rules> {
  if (!isOptionsObject(options)) {
    const example = required === undefined ? '' : `, such as { ${required.join(', ')} }`
    throw invalidKind(`the argument of ${call}()`, `must be an object${example}`, options)
  }
  checkKnownOptions(`${call}()`, options, Object.keys(rules), aliases)
  const given = options as Readonly<Record<string, unknown>>
  const read = Object.entries(rules).map(([option, rule]) => [
    option,
    rule(`${call}({ ${option} })`, given[option], given),
  ])
  return Object.freeze(Object.fromEntries(read))
}

/** The rule of `minLevel`. */
export const minLevel: OptionRule<TelemetryLevel> = telemetryOptions.oneOf(
  Object.keys(LEVEL_PRIORITY) as TelemetryLevel[],
)

/** The rule of a timeout in milliseconds. */
export const timeoutMs: OptionRule<number> = (option, value) => checkMs(option, value, 'more than 0')

/** The rule of a whole number without a maximum. */
export function countFrom(min: number): OptionRule<number> {
  return wholeNumber(min, Number.MAX_SAFE_INTEGER)
}
