import { describeName, quotedName } from '../../options/describe-value.ts'
import { didYouMean } from '../../options/nearest-name.ts'
import { KitTelemetryError } from '../errors.ts'
import { configurationError, telemetryOptions } from '../options.ts'

const { checkBoolean, checkString, copyOptions } = telemetryOptions

/** What is said of an actor or scope type when it is registered. */
export interface TelemetryParticipantOptions {
  /** For people. */
  readonly description?: string | undefined
  /** Whether every event needs an actor (scope) of this type, or of another required one. Default false. */
  readonly required?: boolean | undefined
}

/** A registered actor or scope type. */
export interface TelemetryParticipantType {
  /** For people. */
  readonly description?: string
  /** Whether every event needs one of this type, or of another required one. */
  readonly required: boolean
}

type Kind = 'actor' | 'scope'

const CODES = {
  actor: { method: 'addActor', invalid: 'TELEMETRY_INVALID_ACTOR', duplicate: 'TELEMETRY_DUPLICATE_ACTOR' },
  scope: { method: 'addScope', invalid: 'TELEMETRY_INVALID_SCOPE', duplicate: 'TELEMETRY_DUPLICATE_SCOPE' },
} as const

/** `known` and one more type. @throws {KitTelemetryError} as `KitTelemetry.addActor` and `addScope` say */
export function withParticipant(
  kind: Kind,
  known: ReadonlyMap<string, TelemetryParticipantType>,
  key: string,
  options: TelemetryParticipantOptions,
): ReadonlyMap<string, TelemetryParticipantType> {
  const { method, invalid, duplicate } = CODES[kind]
  if (typeof key !== 'string' || key === '' || /\s/.test(key) || key.startsWith('__')) {
    throw configurationError(
      invalid,
      `the key of ${method}() must be a non-empty string without spaces that does not start with '__'; received ${describeName(key)}`,
    )
  }
  if (known.has(key))
    throw configurationError(duplicate, `the ${kind} type ${quotedName(key)} is already registered`)
  const { description, required = false } = copyOptions<TelemetryParticipantOptions>(method, options, {
    description: checkString,
    required: checkBoolean,
  })
  return new Map(known).set(
    key,
    Object.freeze(description === undefined ? { required } : { description, required }),
  )
}

/** The registered actor (or scope) types, as a rule for events. */
export class ParticipantRule {
  readonly #kind: Kind
  readonly #known: ReadonlySet<string>
  readonly #required: ReadonlySet<string>

  constructor(kind: Kind, types: Readonly<Record<string, TelemetryParticipantType>>) {
    this.#kind = kind
    this.#known = new Set(Object.keys(types))
    this.#required = new Set(Object.keys(types).filter((type) => types[type]?.required))
  }

  /** Why an event with `participant` (or none) must not be sent, if so. */
  refusal(event: string, participant: unknown): KitTelemetryError | undefined {
    const given: unknown = (participant as { type?: unknown } | undefined)?.type
    const type = typeof given === 'string' ? given : undefined
    if (participant !== undefined && type === undefined)
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
      return this.#error(`event ${quotedName(event)} needs the required ${this.#kind} ${required}`)
    }
    return undefined
  }

  #error(message: string): KitTelemetryError {
    return new KitTelemetryError(CODES[this.#kind].invalid, message)
  }
}
