import { describeValue } from '../base/options/describe-value.ts'
import { type OptionKit, optionKit, withHelp } from '../base/options/option-kit.ts'
import { KitTelemetryError, type KitTelemetryErrorCode } from './errors.ts'

/**
 * Returns an error whose message ends with the command that prints help.
 * @param options `anchor` is the heading in `docs/reference/errors.md`. Defaults to the heading of the code. `cause` and
 * `details` are those of the error.
 */
export function errorWithHelp(
  code: KitTelemetryErrorCode,
  message: string,
  options: {
    readonly anchor?: string | undefined
    readonly cause?: unknown
    readonly details?: Readonly<Record<string, unknown>>
  } = {},
): KitTelemetryError {
  const { anchor = code.toLowerCase(), ...rest } = options
  return new KitTelemetryError(code, withHelp(message, anchor), {
    ...rest,
    docs: `docs/reference/errors.md#${anchor}`,
  })
}

/**
 * The checks of all options of telemetry and its transports. Their errors have the code
 * `TELEMETRY_CONFIGURATION_INVALID`, and the heading of the call that the option is named by: `withSampling({ infoRate })`.
 */
export const telemetryOptions: OptionKit<KitTelemetryError> = optionKit(({ owner, message }) => {
  const [, call] = /(?<![\w.])([a-zA-Z.]+)\(/.exec(owner) ?? []
  const anchor = call?.replaceAll('.', '').toLowerCase()
  return errorWithHelp('TELEMETRY_CONFIGURATION_INVALID', message, { anchor })
})

/** Returns the defaults, with each member of `options` that is not `undefined` in place of its default. */
export function withDefaults<T extends object>(
  defaults: T,
  options: { readonly [Member in keyof T]?: unknown },
): T {
  const resolved = { ...defaults } as Record<string, unknown>
  for (const [member, value] of Object.entries(options)) {
    if (value !== undefined) resolved[member] = value
  }
  return resolved as T
}

/** Returns the name of the service or of the environment. @throws {KitTelemetryError} if it is empty, or not a string. */
export function nonEmptyName(what: 'service' | 'environment', name: string): string {
  if (typeof name === 'string' && name.trim() !== '') return name
  const [code, method] =
    what === 'service'
      ? (['TELEMETRY_SERVICE_REQUIRED', 'withService'] as const)
      : (['TELEMETRY_ENVIRONMENT_REQUIRED', 'withEnvironment'] as const)
  const problem = `the argument of ${method}() must be the name of the ${what}; received ${describeValue(name)}`
  throw errorWithHelp(code, problem)
}
