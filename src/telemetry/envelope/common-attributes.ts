import { isRecord } from '../../base/options/value-kinds.ts'
import { KitTelemetryError } from '../errors.ts'
import { errorWithHelp, telemetryOptions } from '../options.ts'
import { checkAttributes, resolveAttributes } from './build-envelope.ts'
import type { TelemetryAttributes, TelemetryAttributesSource } from './envelope.ts'
import { copyMembers } from './redacted-json.ts'
import type { Redactor } from './redactor.ts'

/** Checks the argument of `withAttributes`, and copies an object. */
export function copyCommonAttributes(source: TelemetryAttributesSource): TelemetryAttributesSource {
  if (typeof source === 'function') return source
  if (isRecord(source)) return Object.freeze({ ...membersOf(source) })
  const expected = 'must be an object of attributes, or a function that returns one'
  throw telemetryOptions.invalidKind('the argument of withAttributes()', expected, source)
}

/** Returns the entries of a `Map`, as those of events, or else the object. */
const membersOf = (given: object): object => (given instanceof Map ? Object.fromEntries(given) : given)

/** The attributes that all events of a manager have, below those of their sessions. */
export class CommonAttributes {
  readonly #sources: readonly TelemetryAttributesSource[]
  readonly #report: (problem: KitTelemetryError) => void
  readonly #reported = new Set<unknown>()
  /** The attributes, and their redacted form with its size, if no source is a function. */
  readonly #fixed: TelemetryAttributes | undefined
  #redacted: readonly [attributes: TelemetryAttributes, bytes: number] | undefined
  #isReading = false

  /** @param report is called once for each function that throws, or does not return an object. */
  constructor(sources: readonly TelemetryAttributesSource[], report: (problem: KitTelemetryError) => void) {
    this.#sources = sources
    this.#report = report
    if (!sources.some((source) => typeof source === 'function'))
      this.#fixed = Object.fromEntries(sources.flatMap(Object.entries))
  }

  /** Returns the attributes of one event, not redacted. Calls each function once, but not for an event that it emits itself. */
  read(): TelemetryAttributes {
    if (this.#fixed !== undefined) return this.#fixed
    const merged = {}
    if (this.#isReading) return merged
    this.#isReading = true
    for (const source of this.#sources) {
      try {
        copyMembers(membersOf(checkAttributes(resolveAttributes({ attributes: source })) ?? {}), merged)
      } catch (cause) {
        this.#leaveOut(source, cause)
      }
    }
    this.#isReading = false
    return merged
  }

  /** Redacts the result of `read`. `redactor.bytes` is then its size in memory. */
  redact(attributes: TelemetryAttributes, redactor: Redactor): TelemetryAttributes {
    if (attributes !== this.#fixed) return this.#map(attributes, redactor)
    this.#redacted ??= [this.#map(attributes, redactor), redactor.bytes]
    const [redacted, bytes] = this.#redacted
    redactor.bytes = bytes
    return redacted
  }

  #map(attributes: TelemetryAttributes, redactor: Redactor): TelemetryAttributes {
    try {
      return redactor.map('attributes', attributes)
    } catch (cause) {
      this.#leaveOut(redactor, cause)
      return {}
    }
  }

  #leaveOut(subject: unknown, cause: unknown): void {
    if (this.#reported.has(subject)) return
    this.#reported.add(subject)
    const why = KitTelemetryError.is(cause) ? cause.message : 'the function threw'
    const problem = `events are delivered without attributes that were passed to withAttributes(): ${why}`
    this.#report(errorWithHelp('TELEMETRY_EMIT_FAILED', problem, { cause }))
  }
}
