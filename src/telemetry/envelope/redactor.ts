import { KitTelemetryError } from '../errors.ts'
import type { TelemetryActor, TelemetryErrorInfo, TelemetryScope } from './envelope.ts'
import { toRedactedJson } from './redacted-json.ts'
import type { KeyRules } from './redaction.ts'

/** Applies one set of rules to the parts of an envelope. The results are frozen copies. */
export class Redactor {
  readonly #rules: KeyRules

  constructor(rules: KeyRules) {
    this.#rules = rules
  }

  /**
   * Redacts an object.
   * @param base an earlier result of this method. The values are merged over it.
   * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if `value` is not an object of values by key, such as a `Date`. Errors
   * while its keys are read are thrown as they are.
   */
  map(
    member: string,
    value: object,
    base?: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    const copy = toRedactedJson(value, this.#rules, base)
    if (copy !== undefined) return copy
    throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', `${member} must be an object`)
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

  /** Replaces the secrets in the message and the stack of an error, and limits their length. */
  error(error: TelemetryErrorInfo): TelemetryErrorInfo {
    const message = this.#rules.string(error.message)
    return Object.freeze(
      error.stack === undefined
        ? { ...error, message }
        : { ...error, message, stack: this.#rules.string(error.stack) },
    )
  }
}
