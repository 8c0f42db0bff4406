import { keepLinks, linksOf } from '../../describe-error.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryActor, TelemetryEnvelope, TelemetryErrorInfo, TelemetryScope } from './envelope.ts'
import { fittedLinks, stackOf } from './error-stack.ts'
import { latestCopyBytes, toRedactedJson } from './redacted-json.ts'
import type { KeyRules } from './redaction.ts'
import { textBytes } from './weight.ts'

/** The values that events inherit from their session. */
type Inherited = {
  readonly [Member in 'actor' | 'scope' | 'attributes']: TelemetryEnvelope[Member] | undefined
}

/** The redacted values that events inherit from their session, and their bytes in memory. */
export interface RedactedValues extends Inherited {
  readonly bytes: number
}

/** Applies one set of rules to the parts of an envelope. The results are frozen copies. */
export class Redactor {
  readonly #rules: KeyRules
  /** The bytes of the latest result in memory. */
  bytes = 0

  constructor(rules: KeyRules) {
    this.#rules = rules
  }

  /**
   * Redacts an object.
   * @param base an earlier result of this method. The values are merged over it. Its bytes are not counted.
   * @throws {KitTelemetryError} `TELEMETRY_EMIT_FAILED` if `value` is not an object of values by key, such as a `Date`. Errors
   * while its keys are read are thrown as they are.
   */
  map(
    member: string,
    value: object,
    base?: Readonly<Record<string, unknown>>,
  ): Readonly<Record<string, unknown>> {
    const copy = toRedactedJson(value, this.#rules, base)
    this.bytes = latestCopyBytes()
    if (copy !== undefined) return copy
    throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', `${member} must be an object`)
  }

  actor(actor: TelemetryActor): TelemetryActor {
    const { type, id, tags } = actor
    const redacted: { type: string; id?: string; tags?: TelemetryActor['tags'] } = { type }
    if (id !== undefined) redacted.id = id
    this.bytes = 0
    if (tags !== undefined) redacted.tags = this.map('actor.tags', tags)
    this.bytes += textBytes(type) + textBytes(id ?? '')
    return Object.freeze(redacted as TelemetryActor)
  }

  scope(scope: TelemetryScope): TelemetryScope {
    const { type, id, tags } = scope
    this.bytes = 0
    const redacted = tags === undefined ? { type, id } : { type, id, tags: this.map('scope.tags', tags) }
    this.bytes += textBytes(type) + textBytes(id)
    return Object.freeze(redacted)
  }

  /** Redacts the values of a session. */
  inherited({ actor, scope, attributes }: Inherited): RedactedValues {
    let bytes = 0
    const counted = <Value>(redacted: Value): Value => {
      bytes += this.bytes
      return redacted
    }
    return {
      actor: actor && counted(this.actor(actor)),
      scope: scope && counted(this.scope(scope)),
      attributes: attributes && counted(this.map('attributes', attributes)),
      bytes,
    }
  }

  /** Redacts an error, and limits the length of its message and its stack. */
  error(texts: TelemetryErrorInfo): TelemetryErrorInfo {
    const rules = this.#rules
    const { name, message, code, stack } = texts
    this.bytes = 0
    const attributes = texts.attributes && this.map('error.attributes', texts.attributes)
    const links = fittedLinks(linksOf(texts) ?? [], rules)
    const redacted = {
      name: rules.name(name),
      message: rules.string(message),
      ...(code !== undefined && { code: rules.name(code) }),
      ...(stack !== undefined && { stack: links.length === 0 ? rules.string(stack) : stackOf(links) }),
    }
    for (const text of Object.values(redacted)) this.bytes += textBytes(text)
    for (const link of links) this.bytes += textBytes(link.message) + textBytes(link.frames)
    const hasAttributes = attributes !== undefined && Object.keys(attributes).length > 0
    const info = Object.freeze(hasAttributes ? { ...redacted, attributes } : redacted)
    return links.length === 0 ? info : keepLinks(info, links)
  }
}
