import { AssertionError } from 'node:assert'
import { counted } from '../base/options/counted.ts'
import { definedMembers } from '../base/options/defined-members.ts'
import type { TelemetryTransport } from '../telemetry/delivery/transport.ts'
import type { TelemetryEnvelope } from '../telemetry/envelope/envelope.ts'
import { mismatches, shown } from './partial-match.ts'

/** A value, or a pattern for it: objects may have fewer members, a `RegExp` matches a string, and a function tests the value. */
export type PatternOf<T> =
  | (T extends string ? RegExp : never)
  | ((value: any) => boolean)
  | (T extends readonly (infer Item)[]
      ? readonly PatternOf<Item>[]
      : T extends object
        ? { readonly [Member in keyof T]?: PatternOf<T[Member]> | undefined }
        : T)

/** A pattern for an event. Attributes and tags may have any type. */
export type EnvelopePattern = {
  readonly [Member in Exclude<keyof TelemetryEnvelope, 'name' | 'attributes'>]?:
    | PatternOf<TelemetryEnvelope[Member]>
    | undefined
} & { readonly attributes?: Readonly<Record<string, any>> | ((attributes: any) => boolean) | undefined }

/** A transport that keeps every event, with assertions about them. */
export interface TelemetryRecorder extends TelemetryTransport {
  readonly type: 'recorder'
  handle(envelope: TelemetryEnvelope): void
  /**
   * Returns a copy of the list of recorded events, in the order in which they were emitted.
   * @param name returns only events of this name.
   */
  events(name?: string): TelemetryEnvelope[]
  /** Removes all recorded events. */
  clear(): void
  /**
   * Expects an event of this name that matches `pattern`. Members that the pattern does not name are ignored, at any depth. A
   * member that is `undefined` in the pattern must be absent. Arrays must have the same length. In the pattern, a `RegExp`
   * stands for a string that it matches, and a function for a value for which it returns `true`.
   * @param name the name of the event.
   * @param pattern the expected members. By default, any event of this name matches.
   * @returns the first such event.
   * @throws {AssertionError} if there is none. The message shows the pattern and the recorded events.
   */
  expectEvent(name: string, pattern?: EnvelopePattern): TelemetryEnvelope
  /**
   * Expects that no event of this name matches `pattern`.
   * @param name the name of the event.
   * @param pattern the members that must not occur. By default, any event of this name matches.
   * @throws {AssertionError} if there is one. The message shows the pattern and the recorded events.
   */
  expectNoEvent(name: string, pattern?: EnvelopePattern): void
}

/** The maximum number of events in a message. If there are more, it shows the latest. */
const MAX_SHOWN = 20

/**
 * Creates a transport that records events for tests. Set `.withSampling({ debugRate: 1, infoRate: 1 })` in tests: by default,
 * only one `info` event in ten passes sampling.
 * @returns the transport, for `.addTransport()`.
 * @example
 * ```ts
 * import { KitTelemetry } from 'mcp-gatekit/telemetry'
 * import { createTelemetryRecorder } from 'mcp-gatekit/testing'
 *
 * const recorder = createTelemetryRecorder()
 * const telemetry = KitTelemetry.create()
 *   .withService('billing')
 *   .withSampling({ infoRate: 1 })
 *   .addTransport(recorder)
 *   .build()
 * telemetry.emit('billing.invoice.paid', { attributes: { cents: 1200 } })
 * recorder.expectEvent('billing.invoice.paid', { attributes: { cents: 1200 } })
 * ```
 * @see docs/guides/testing.md
 */
export function createTelemetryRecorder(): TelemetryRecorder {
  let recorded: TelemetryEnvelope[] = []

  function events(name?: string): TelemetryEnvelope[] {
    return recorded.filter((event) => name === undefined || event.name === name)
  }

  function matching(name: string, pattern: EnvelopePattern): TelemetryEnvelope[] {
    return events(name).filter((event) => mismatches(pattern, event).length === 0)
  }

  function expectEvent(name: string, pattern: EnvelopePattern = {}): TelemetryEnvelope {
    const [found] = matching(name, pattern)
    if (found !== undefined) return found
    const named = events(name)
    throw new AssertionError({
      message: [
        `no event ${described(name, pattern)} was recorded`,
        listed(recorded, name, pattern),
        ...(named.length > 0 ? [] : [SAMPLING_NOTE]),
      ].join('\n\n'),
      actual: named,
      expected: { name, ...pattern },
      operator: 'expectEvent',
      stackStartFn: expectEvent,
    })
  }

  function expectNoEvent(name: string, pattern: EnvelopePattern = {}): void {
    const found = matching(name, pattern)
    if (found.length === 0) return
    throw new AssertionError({
      message: `an event ${described(name, pattern)} was recorded\n\n${listed(found, name)}`,
      actual: found,
      expected: [],
      operator: 'expectNoEvent',
      stackStartFn: expectNoEvent,
    })
  }

  return Object.freeze<TelemetryRecorder>({
    type: 'recorder',
    handle: (envelope) => {
      recorded.push(envelope)
    },
    events,
    clear: () => {
      recorded = []
    },
    expectEvent,
    expectNoEvent,
  })
}

const SAMPLING_NOTE =
  'If it was emitted, it may have been sampled out: tests set withSampling({ debugRate: 1, infoRate: 1 }).'

function described(name: string, pattern: EnvelopePattern): string {
  const wanted = Object.keys(pattern).length === 0 ? '' : ` with ${shown(pattern, false)}`
  return `${JSON.stringify(name)}${wanted}`
}

/** Formats events. Events of `name` are followed by their differences from `pattern`. */
function listed(events: readonly TelemetryEnvelope[], name: string, pattern?: EnvelopePattern): string {
  if (events.length === 0) return 'Nothing was recorded.'
  const first = Math.max(0, events.length - MAX_SHOWN)
  const lines = events
    .slice(first)
    .flatMap((event, index) => [
      `  ${first + index + 1}. ${line(event)}`,
      ...(pattern === undefined || event.name !== name
        ? []
        : mismatches(pattern, event).map(
            ({ path, expected, actual }) => `       ${path}: expected ${expected}, got ${actual}`,
          )),
    ])
  const left = first === 0 ? '' : `, of which the last ${MAX_SHOWN} are`
  return [`Recorded: ${counted(events.length, 'event')}${left}`, ...lines].join('\n')
}

/** Formats an event without the members that all events of a test share. */
function line({ name, level, actor, scope, attributes, error }: TelemetryEnvelope): string {
  const members = { actor, scope, attributes, error: error && { ...error, stack: undefined } }
  const rest = Object.entries(definedMembers(members)).map(
    ([key, value]) => ` ${key}: ${shown(definedMembers(value as object))}`,
  )
  return `${level} ${name}${rest.join('')}`
}
