import { isOptionsObject } from '../../base/options/option-kit.ts'
import type { TelemetryConfig } from '../config.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../levels.ts'
import { telemetryOptions, withDefaults } from '../options.ts'

const {
  checkKnownOptions,
  checkMs,
  checkOneOf,
  checkTexts,
  checkWholeNumber,
  copyOptions,
  invalidKind,
  invalidOption,
  unusableOption,
} = telemetryOptions

/** The names of the levels. */
const LEVELS = Object.keys(LEVEL_PRIORITY) as TelemetryLevel[]

/** The default and the largest value of `maxBuffered`. */
const DEFAULT_MAX_BUFFERED = 200
const LARGEST_MAX_BUFFERED = 10_000

/**
 * The rules that decide which events are kept. `never` has priority over `always`, and `always` over the rate of the
 * level. `fatal` events are kept unless `never` matches them.
 *
 * A rate is a probability from 0 (none) to 1 (all). In a pattern, `*` matches any number of characters, including dots, and
 * `?` matches one character. All other characters are literal and case-sensitive.
 */
export interface TelemetrySamplingPolicy {
  /** The rate of `debug` events. Defaults to 0.01. */
  readonly debugRate?: number | undefined
  /** The rate of `info` events. Defaults to 0.1. */
  readonly infoRate?: number | undefined
  /** The rate of `warn` events. Defaults to 1. */
  readonly warnRate?: number | undefined
  /** The rate of `error` events. Defaults to 1. */
  readonly errorRate?: number | undefined
  /** Patterns of event names that are always kept. Defaults to none. */
  readonly always?: readonly string[] | undefined
  /** Patterns of event names that are never kept. Defaults to none. */
  readonly never?: readonly string[] | undefined
  /**
   * `event` decides for each event. `session` decides for each session, so that the events of one session and level are
   * kept or dropped together, consistently across processes. Defaults to `event`.
   */
  readonly unit?: 'event' | 'session' | undefined
  /**
   * The conditions under which all events of a session are kept. It requires `unit: 'session'` and at least one condition.
   * Events that sampling would drop are held until their session ends. If the session has met a condition, they are delivered
   * in order, with the condition as the attribute `kit.sampled_by`. Events that sampling keeps are delivered at once. Defaults
   * to none.
   */
  readonly keep?:
    | {
        /** The session has an event of this level or above. */
        readonly level?: TelemetryLevel | undefined
        /** The session has lasted longer than this time, in milliseconds. */
        readonly slowerThanMs?: number | undefined
        /** The session has an event whose name matches one of these patterns. */
        readonly names?: readonly string[] | undefined
        /** The maximum number of held events of a session, from 1 to 10 000. Beyond it, the oldest are dropped. Defaults to 200. */
        readonly maxBuffered?: number | undefined
      }
    | undefined
}

/** A sampling policy with all defaults. */
export type ResolvedSamplingPolicy = TelemetryConfig['sampling']

/** The policy of a manager that was built without `withSampling`. */
export const DEFAULT_SAMPLING: ResolvedSamplingPolicy = Object.freeze({
  debugRate: 0.01,
  infoRate: 0.1,
  warnRate: 1,
  errorRate: 1,
  always: Object.freeze([]),
  never: Object.freeze([]),
  unit: 'event',
})

/** Copies and checks a policy. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if it is invalid. */
export function copySamplingPolicy(policy: TelemetrySamplingPolicy): TelemetrySamplingPolicy {
  const copy = copyOptions<TelemetrySamplingPolicy>('withSampling', policy, {
    debugRate: checkRate,
    infoRate: checkRate,
    warnRate: checkRate,
    errorRate: checkRate,
    always: checkTexts,
    never: checkTexts,
    unit: (option, value) => checkOneOf(option, value, ['event', 'session']),
    keep: checkKeep,
  })
  return copy.keep === undefined ? copy : Object.freeze({ ...copy, keep: resolveKeep(copy.keep) })
}

/**
 * Merges two policies. Members of the later one replace those of the earlier one.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the result has `keep` without `unit: 'session'`.
 */
export function mergeSamplingPolicies(
  earlier: TelemetrySamplingPolicy | undefined,
  later: TelemetrySamplingPolicy,
): TelemetrySamplingPolicy {
  const merged = { ...earlier, ...later }
  if (merged.keep !== undefined && merged.unit !== 'session') {
    throw unusableOption(
      'withSampling({ keep })',
      "can be used only with unit: 'session'",
      "Set unit: 'session' in the same call",
    )
  }
  return merged
}

export function resolveSamplingPolicy(policy: TelemetrySamplingPolicy | undefined): ResolvedSamplingPolicy {
  if (policy === undefined) return DEFAULT_SAMPLING
  return Object.freeze(withDefaults<ResolvedSamplingPolicy>(DEFAULT_SAMPLING, policy))
}

type KeepPolicy = NonNullable<TelemetrySamplingPolicy['keep']>

function resolveKeep({
  level,
  slowerThanMs,
  names,
  maxBuffered,
}: KeepPolicy): ResolvedSamplingPolicy['keep'] {
  return Object.freeze({
    ...(level !== undefined && { level }),
    ...(slowerThanMs !== undefined && { slowerThanMs }),
    names: Object.freeze([...(names ?? [])]),
    maxBuffered: maxBuffered ?? DEFAULT_MAX_BUFFERED,
  })
}

/**
 * Returns a number from 0 to below 1 for a session, the same in every process (FNV-1a, mixed). The session is kept if its
 * rate is above the number.
 */
export function sessionDraw(sessionId: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < sessionId.length; index++) {
    hash = Math.imul(hash ^ sessionId.charCodeAt(index), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000
}

export type GlobMatcher = (name: string) => boolean

/**
 * Compiles a pattern of `*` and `?`. Matching goes back to the last `*` at most, so its time is bounded by the length of
 * the pattern times the length of the name, which is at most 256.
 */
export function compileGlob(pattern: string): GlobMatcher {
  const glob = Array.from(pattern.replace(/\*+/g, '*'))
  return (name) => {
    const text = Array.from(name)
    let g = 0
    let t = 0
    let star = -1
    let resume = 0
    while (t < text.length) {
      if (glob[g] === '*') {
        star = g++
        resume = t
      } else if (g < glob.length && (glob[g] === '?' || glob[g] === text[t])) {
        g++
        t++
      } else if (star >= 0) {
        g = star + 1
        t = ++resume
      } else {
        return false
      }
    }
    return g === glob.length || (g === glob.length - 1 && glob[g] === '*')
  }
}

function checkKeep(option: string, value: unknown): void {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object', value)
  checkKnownOptions(option, value, ['level', 'slowerThanMs', 'names', 'maxBuffered'])
  const nameOf = (member: string): string => option.replace('keep', `keep: { ${member} }`)
  const { level, slowerThanMs, names, maxBuffered } = value as Readonly<Record<string, unknown>>
  if (level !== undefined) checkOneOf(nameOf('level'), level, LEVELS)
  if (slowerThanMs !== undefined) checkMs(nameOf('slowerThanMs'), slowerThanMs, 'more than 0')
  const patterns = names === undefined ? [] : checkTexts(nameOf('names'), names)
  if (maxBuffered !== undefined) checkWholeNumber(nameOf('maxBuffered'), maxBuffered, 1, LARGEST_MAX_BUFFERED)
  if (level === undefined && slowerThanMs === undefined && patterns.length === 0) {
    throw unusableOption(option, 'must have at least one condition', 'Set level, slowerThanMs, or names')
  }
}

function checkRate(option: string, value: unknown): void {
  if (typeof value !== 'number' || !(value >= 0 && value <= 1))
    throw invalidOption(option, 'must be a number from 0 to 1', value)
}
