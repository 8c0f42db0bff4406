import { KitTelemetryError } from '../errors.ts'
import type { TelemetryActor, TelemetryErrorInfo, TelemetryScope } from './envelope.ts'
import { toRedactedJson } from './redacted-json.ts'
import type { KeyRules } from './redaction.ts'

/** Applies one set of rules to the parts of an envelope. What it returns is copied and frozen. */
export class Redactor {
  readonly #rules: KeyRules

  constructor(rules: KeyRules) {
    this.#rules = rules
  }

  /**
   * A map of values, laid over `base`, which this redactor made.
   * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` when `given` is no map, such as a `Date`; what reading its keys throws
   */
  map(
    member: string,
    given: object,
    base?: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    const copy = toRedactedJson(given, this.#rules, base)
    if (copy !== undefined) return copy
    throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', `${member} must be an object of values by key`)
  }

  actor(actor: TelemetryActor): TelemetryActor {
    const { type, id, tags } = actor
    const redacted: { type: string; id?: string; tags?: TelemetryActor['tags'] } = { type }
    if (id !== undefined) redacted.id = id
    if (tags !== undefined) redacted.tags = this.map('actor.tags', tags)
    return Object.freeze(redacted as TelemetryActor)
  }

  scope(scope: TelemetryScope): TelemetryScope {
    const { type, id, tags } = scope
    return Object.freeze(tags === undefined ? { type, id } : { type, id, tags: this.map('scope.tags', tags) })
  }

  /** Only the length of an error's texts is limited. */
  error(error: TelemetryErrorInfo): TelemetryErrorInfo {
    const message = this.#rules.cut(error.message)
    return Object.freeze(
      error.stack === undefined
        ? { ...error, message }
        : { ...error, message, stack: this.#rules.cut(error.stack) },
    )
  }
}
