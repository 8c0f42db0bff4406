import type { TelemetryLevel } from '../levels.ts'
import { telemetryOptions, withDefaults } from '../options.ts'

const { checkOneOf, checkTexts, copyOptions, invalidOption } = telemetryOptions

/**
 * Which events are kept. `never` wins over `always`, which wins over the rate of the event's level;
 * `fatal` events are kept unless `never` names them.
 *
 * A rate is a probability from 0 (none) to 1 (all). In a pattern, `*` is any run of characters, dots included, also
 * none, and `?` is one character; everything else is literal and case-sensitive.
 */
export interface TelemetrySamplingPolicy {
  /** Default 0.01. */
  readonly debugRate?: number | undefined
  /** Default 0.1. */
  readonly infoRate?: number | undefined
  /** Default 1. */
  readonly warnRate?: number | undefined
  /** Default 1. */
  readonly errorRate?: number | undefined
  /** Patterns of event names that are always kept. Default none. */
  readonly always?: readonly string[] | undefined
  /** Patterns of event names that are never kept. Default none. */
  readonly never?: readonly string[] | undefined
  /**
   * What is drawn: each `event` by itself (the default), or each `session`, so that the events of one session and
   * level are kept or dropped together, in every process alike.
   */
  readonly unit?: 'event' | 'session' | undefined
}

/** A sampling policy with every default filled in. */
export interface ResolvedSamplingPolicy {
  /** From 0 to 1. */
  readonly debugRate: number
  /** From 0 to 1. */
  readonly infoRate: number
  /** From 0 to 1. */
  readonly warnRate: number
  /** From 0 to 1. */
  readonly errorRate: number
  /** Patterns of event names that are always kept. */
  readonly always: readonly string[]
  /** Patterns of event names that are never kept. */
  readonly never: readonly string[]
  /** What is drawn. */
  readonly unit: 'event' | 'session'
}

const DEFAULTS: ResolvedSamplingPolicy = Object.freeze({
  debugRate: 0.01,
  infoRate: 0.1,
  warnRate: 1,
  errorRate: 1,
  always: Object.freeze([]),
  never: Object.freeze([]),
  unit: 'event',
})

/** Copies and checks a policy. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` */
export function copySamplingPolicy(policy: TelemetrySamplingPolicy): TelemetrySamplingPolicy {
  return copyOptions<TelemetrySamplingPolicy>('withSampling', policy, {
    debugRate: checkRate,
    infoRate: checkRate,
    warnRate: checkRate,
    errorRate: checkRate,
    always: checkTexts,
    never: checkTexts,
    unit: (option, value) => checkOneOf(option, value, ['event', 'session']),
  })
}

export function resolveSamplingPolicy(policy: TelemetrySamplingPolicy): ResolvedSamplingPolicy {
  return Object.freeze(withDefaults<ResolvedSamplingPolicy>(DEFAULTS, policy))
}

/** The rate of each event name and level. */
export class Sampler {
  /** Whether sessions are drawn instead of events. */
  readonly bySession: boolean
  readonly #policy: ResolvedSamplingPolicy
  readonly #always: readonly GlobMatcher[]
  readonly #never: readonly GlobMatcher[]

  constructor(policy: ResolvedSamplingPolicy) {
    this.bySession = policy.unit === 'session'
    this.#policy = policy
    this.#always = policy.always.map(compileGlob)
    this.#never = policy.never.map(compileGlob)
  }

  /** The rate that the patterns fix for a name: 0 or 1; `undefined` where its level decides. */
  fixedRate(name: string): 0 | 1 | undefined {
    if (this.#never.some((matches) => matches(name))) return 0
    return this.#always.some((matches) => matches(name)) ? 1 : undefined
  }

  /** The rate of a level; `undefined` when there is no such level. */
  levelRate(level: TelemetryLevel): number | undefined {
    switch (level) {
      case 'debug':
        return this.#policy.debugRate
      case 'info':
        return this.#policy.infoRate
      case 'warn':
        return this.#policy.warnRate
      case 'error':
        return this.#policy.errorRate
      case 'fatal':
        return 1
      default:
        return undefined
    }
  }
}

/** Where a session stands in [0, 1): it is kept at every rate above. The same in every process (FNV-1a, mixed). */
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
 * Compiles a pattern of `*` and `?`. Without backtracking beyond the last `*`: the time is bounded by the length of
 * the pattern times that of the name (at most 256), whatever the pattern.
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

function checkRate(option: string, value: unknown): void {
  if (typeof value !== 'number' || !(value >= 0 && value <= 1))
    throw invalidOption(option, 'must be a number from 0 to 1', value)
}
