import { quotedName } from '../base/options/describe-value.ts'
import { didYouMean } from '../base/options/nearest-name.ts'
import type { TelemetryConfig } from './config.ts'
import type { ReportMember } from './envelope/build-envelope.ts'
import type { TelemetryEmitInput } from './envelope/envelope.ts'
import type { KitTelemetryError } from './errors.ts'
import { TypeRule } from './events/actor-types.ts'
import { checkEventName, isBuiltInEvent } from './events/event-name.ts'
import type { TelemetryEventSchema } from './events/schema.ts'
import { isValidationOn } from './events/validation.ts'
import { errorWithHelp } from './options.ts'
import type { SessionContext } from './session/context.ts'

/** The maximum number of event names, in addition to the registered ones, whose `EventRule` is kept. */
const MAX_NAMES = 4096

/** The schema of the attributes of an event, if they are validated. */
type RegisteredEvent = { readonly schema: TelemetryEventSchema; readonly strict: boolean } | undefined

/** The registration and sampling of an event name. */
export interface EventRule {
  /** An event of this package, which is not validated. */
  readonly builtIn: boolean
  /** The schema of the attributes, if they are validated. */
  readonly schema: RegisteredEvent
  readonly fixedRate: 0 | 1 | undefined
  /** `true` if the event makes its session meet the condition `names`. */
  readonly keepsSession: boolean
  readonly isAudited: boolean
  /** Reports a member of an input that is left out. */
  readonly report: ReportMember
}

/** The statements of the parts of a manager about an event name. */
type RulesOfName = (name: string) => Omit<EventRule, 'builtIn' | 'schema'>

/** The rules for events by their name, and for the types of actors and scopes. */
export class EventRules {
  readonly #kept = new Map<string, EventRule>()
  readonly #registered: ReadonlyMap<string, RegisteredEvent> | undefined
  readonly #actors: TypeRule | undefined
  readonly #scopes: TypeRule | undefined
  readonly #rulesOfName: RulesOfName

  constructor(config: TelemetryConfig, rulesOfName: RulesOfName) {
    this.#registered = registeredEvents(config)
    const checks = isValidationOn(config.validation.mode)
    if (checks && Object.keys(config.actors).length > 0) this.#actors = new TypeRule('actor', config.actors)
    if (checks && Object.keys(config.scopes).length > 0) this.#scopes = new TypeRule('scope', config.scopes)
    this.#rulesOfName = rulesOfName
  }

  /** @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME` or `TELEMETRY_UNKNOWN_EVENT`. */
  of(name: string): EventRule {
    return this.#kept.get(name) ?? this.#resolve(name)
  }

  /** Forgets the statements about names, because the sampling policy was replaced. */
  forget(): void {
    this.#kept.clear()
  }

  get checksTypes(): boolean {
    return this.#actors !== undefined || this.#scopes !== undefined
  }

  /** Returns the error of an actor or a scope whose type is not registered, or that is missing. */
  typeError(
    name: string,
    input: TelemetryEmitInput,
    context: SessionContext | undefined,
  ): KitTelemetryError | undefined {
    return (
      this.#actors?.check(name, input.actor ?? context?.actor) ??
      this.#scopes?.check(name, input.scope ?? context?.scope)
    )
  }

  #resolve(name: string): EventRule {
    checkEventName(name)
    const isRegistered = this.#registered?.has(name) === true
    const builtIn = isBuiltInEvent(name) && !isRegistered
    if (!builtIn && !isRegistered && this.#registered !== undefined) {
      throw errorWithHelp(
        'TELEMETRY_UNKNOWN_EVENT',
        `the event ${quotedName(name)} is not registered.${didYouMean(name, this.#registered.keys())}`,
      )
    }
    const rule = { builtIn, schema: this.#registered?.get(name), ...this.#rulesOfName(name) }
    if (this.#kept.size >= MAX_NAMES + (this.#registered?.size ?? 0)) this.#kept.clear()
    this.#kept.set(name, rule)
    return rule
  }
}

/** Returns the schema of each full key, or `undefined` if no registry is attached, so that any name is allowed. */
function registeredEvents(config: TelemetryConfig): ReadonlyMap<string, RegisteredEvent> | undefined {
  if (config.events.length === 0) return undefined
  const registered = new Map<string, RegisteredEvent>()
  for (const { descriptor, validation } of config.events) {
    const validates = isValidationOn(validation.mode)
    for (const name of descriptor.names) {
      registered.set(
        descriptor.get.key(name),
        validates ? { schema: descriptor.get.schema(name), strict: validation.strict } : undefined,
      )
    }
  }
  return registered
}
