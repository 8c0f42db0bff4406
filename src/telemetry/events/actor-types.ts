import { describeName, quotedName } from '../../base/options/describe-value.ts'
import { didYouMean } from '../../base/options/nearest-name.ts'
import type { TelemetryConfig } from '../config.ts'
import type { KitTelemetryError } from '../errors.ts'
import { errorWithHelp, telemetryOptions } from '../options.ts'

const { checkBoolean, checkString, copyOptions } = telemetryOptions

/** The options of an actor or scope type. */
export interface TelemetryTypeOptions {
  /** A description for readers of the code. */
  readonly description?: string | undefined
  /** Requires every event to have an actor (or scope) of this type, or of another required type. Defaults to `false`. */
  readonly required?: boolean | undefined
}

/** A registered actor or scope type. */
export type TelemetryType = TelemetryConfig['actors'][string]

type Kind = 'actor' | 'scope'

const CODES = {
  actor: { method: 'addActor', invalid: 'TELEMETRY_INVALID_ACTOR', duplicate: 'TELEMETRY_DUPLICATE_ACTOR' },
  scope: { method: 'addScope', invalid: 'TELEMETRY_INVALID_SCOPE', duplicate: 'TELEMETRY_DUPLICATE_SCOPE' },
} as const

/** Returns the known types and a new one. Throws what `KitTelemetry.addActor` and `addScope` throw. */
export function withType(
  kind: Kind,
  known: ReadonlyMap<string, TelemetryType>,
  key: string,
  options: TelemetryTypeOptions,
): ReadonlyMap<string, TelemetryType> {
  const { method, invalid, duplicate } = CODES[kind]
  if (typeof key !== 'string' || key === '' || /\s/.test(key) || key.startsWith('__')) {
    throw errorWithHelp(
      invalid,
      `the key of ${method}() must be a non-empty string without spaces that does not start with '__'; received ${describeName(key)}`,
    )
  }
  if (known.has(key))
    throw errorWithHelp(duplicate, `the ${kind} type ${quotedName(key)} is already registered`)
  const { description, required = false } = copyOptions<TelemetryTypeOptions>(method, options, {
    description: checkString,
    required: checkBoolean,
  })
  return new Map(known).set(
    key,
    Object.freeze(description === undefined ? { required } : { description, required }),
  )
}

/** Checks that events have registered actor (or scope) types, and the required ones. */
export class TypeRule {
  readonly #kind: Kind
  readonly #known: ReadonlySet<string>
  readonly #required: ReadonlySet<string>

  constructor(kind: Kind, types: Readonly<Record<string, TelemetryType>>) {
    this.#kind = kind
    this.#known = new Set(Object.keys(types))
    this.#required = new Set(Object.keys(types).filter((type) => types[type]?.required))
  }

  /** Returns an error if an event must not have this actor (or scope), or must have one. */
  check(event: string, value: unknown): KitTelemetryError | undefined {
    const received: unknown = (value as { type?: unknown } | undefined)?.type
    const type = typeof received === 'string' ? received : undefined
    if (value !== undefined && type === undefined)
      return this.#error(
        `event ${quotedName(event)} has ${this.#kind === 'actor' ? 'an actor' : 'a scope'} without a type`,
      )
    if (type !== undefined && !this.#known.has(type)) {
      return this.#error(
        `event ${quotedName(event)} has the ${this.#kind} type ${quotedName(type)}, which is not registered.${didYouMean(type, this.#known)}`,
      )
    }
    if (this.#required.size > 0 && (type === undefined || !this.#required.has(type))) {
      const required = Array.from(this.#required, quotedName).join(' or ')
      return this.#error(
        `event ${quotedName(event)} must have ${this.#kind === 'actor' ? 'an actor' : 'a scope'} of the type ${required}`,
      )
    }
    return undefined
  }

  #error(message: string): KitTelemetryError {
    return errorWithHelp(CODES[this.#kind].invalid, message)
  }
}
