import { AssertionError } from 'node:assert'
import type { TelemetryTransport } from '../telemetry/delivery/transport.ts'
import type { TelemetryEnvelope } from '../telemetry/envelope/envelope.ts'
import { mismatches, shown } from './partial-match.ts'

/** A value, or parts of it: objects may name fewer members; a `RegExp` stands for a string, a function tests the value. */
export type PatternOf<T> =
  | (T extends string ? RegExp : never)
  | ((value: any) => boolean)
  | (T extends readonly (infer Item)[]
      ? readonly PatternOf<Item>[]
      : T extends object
        ? { readonly [Member in keyof T]?: PatternOf<T[Member]> | undefined }
        : T)

/** What an event is compared with. Attributes and tags may be anything. */
export type EnvelopePattern = {
  readonly [Member in Exclude<keyof TelemetryEnvelope, 'name' | 'attributes'>]?:
    | PatternOf<TelemetryEnvelope[Member]>
    | undefined
} & { readonly attributes?: Readonly<Record<string, any>> | ((attributes: any) => boolean) | undefined }

/** A transport that keeps every event, and expects things of them. */
export interface TelemetryRecorder extends TelemetryTransport {
  readonly type: 'recorder'
  handle(envelope: TelemetryEnvelope): void
  /** What was recorded so far, in the order of the emits: all of it, or the events of one name. A copy of the list. */
  events(name?: string): TelemetryEnvelope[]
  /** Forgets what was recorded. */
  clear(): void
  /**
   * Expects an event of this name that matches `pattern`. Members that the pattern does not name are not looked at, at
   * any depth; one that it names as `undefined` must be absent; arrays must be as long. In it, a `RegExp` stands for a
   * string that it finds, a function for a value that it returns `true` for.
   * @returns the first such event
   * @throws {AssertionError} which shows the pattern and what was recorded
   */
  expectEvent(name: string, pattern?: EnvelopePattern): TelemetryEnvelope
  /**
   * Expects that there is no event of this name, or none that matches `pattern`.
   * @throws {AssertionError} which shows the pattern and what was recorded
   */
  expectNoEvent(name: string, pattern?: EnvelopePattern): void
}

/** How many events a failure shows; of more, the latest. */
const MAX_SHOWN = 20

/**
 * Makes a recorder. Sampling comes before it: by default one `info` event in ten arrives, so tests set
 * `.withSampling({ debugRate: 1, infoRate: 1 })`.
 *
 * @example
 * const recorder = createTelemetryRecorder()
 * const telemetry = builder.withSampling({ infoRate: 1 }).addTransport(recorder).build()
 * payInvoice(telemetry)
 * recorder.expectEvent('billing.invoice.paid', { attributes: { cents: 1200 } })
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
  const wanted = Object.keys(pattern).length === 0 ? '' : ` with ${shown(pattern, { compact: false })}`
  return `${JSON.stringify(name)}${wanted}`
}

/** The events, those of `name` with where they differ from `pattern`. */
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
  return [`Recorded: ${events.length} ${events.length === 1 ? 'event' : 'events'}${left}`, ...lines].join(
    '\n',
  )
}

/** Without what every event of a test has in common. */
function line({ name, level, actor, scope, attributes, error }: TelemetryEnvelope): string {
  const rest = Object.entries({ actor, scope, attributes, error: error && { ...error, stack: undefined } })
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => ` ${key}: ${shown(withoutUndefined(value as object))}`)
  return `${level} ${name}${rest.join('')}`
}

function withoutUndefined(value: object): object {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined))
}
