import { AsyncContext } from '../../base/runtime.ts'
import type { PendingWork } from '../delivery/pending-work.ts'
import { LOSS_REPEAT_MS, type Reporter } from '../delivery/reporter.ts'
import { DEFAULT_MAX_PENDING_BYTES } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../levels.ts'
import { compileGlob, type GlobMatcher, type ResolvedSamplingPolicy } from './sampling.ts'

type KeepPolicy = NonNullable<ResolvedSamplingPolicy['keep']>

/** A condition that a session can meet: the name of the member of `keep`. */
export type KeepCondition = 'level' | 'slowerThanMs' | 'names'

/**
 * The decision about an event that sampling would drop: to hold it, or to deliver it at once because of a condition.
 * `undefined` means that it is dropped.
 */
export type TailDecision = 'hold' | KeepCondition

/** The attribute of a delivered event that contains the condition. */
const SAMPLED_BY = 'kit.sampled_by'

/**
 * The maximum number of held events of a manager. Beyond it, or beyond 64 MiB, the session that has held events for the longest
 * time is decided. Otherwise, sessions that never end would fill the memory.
 */
export const MAX_HELD = 10_000

/** An event that was emitted earlier, and the async context in which it was emitted, which contains the active span. */
export interface HeldEvent {
  readonly envelope: TelemetryEnvelope
  /** Its size in memory. */
  readonly bytes: number
  readonly context: AsyncContext
  readonly emittedAtMs: number
}

/** The functions of the manager that receive the decisions. */
export interface TailOutcomes {
  /** Delivers an event that was held. */
  deliver(event: HeldEvent, pending: PendingWork): void
  /** Counts an event that was held as sampled out. */
  drop(): void
}

/** The held events of all sessions of a manager, which `keep` decides when their session ends. */
export class TailSampling {
  #keep: KeepPolicy | undefined
  #names: readonly GlobMatcher[] = []
  #minPriority = Number.POSITIVE_INFINITY
  readonly #outcomes: TailOutcomes
  readonly #reporter: Reporter
  /** The sessions with held events. The session that has held events for the longest time is the first. */
  readonly #holding = new Set<SessionTail>()
  #held = 0
  #heldBytes = 0
  #isClosed = false

  constructor(keep: KeepPolicy, outcomes: TailOutcomes, reporter: Reporter) {
    this.#outcomes = outcomes
    this.#reporter = reporter
    this.replace(keep)
  }

  /** Replaces the conditions. Without any, nothing is held, and the sessions with held events are decided by the previous ones. */
  replace(keep: KeepPolicy | undefined): void {
    if (keep === undefined) this.#decideAll()
    this.#keep = keep
    this.#names = keep?.names.map(compileGlob) ?? []
    this.#minPriority = keep?.level === undefined ? Number.POSITIVE_INFINITY : LEVEL_PRIORITY[keep.level]
  }

  /** The number of held events. */
  get held(): number {
    return this.#held
  }

  /** Begins a session. @param pending counts the delivered events of the session until they have settled. */
  session(pending: PendingWork): SessionTail {
    return new SessionTail(this, pending)
  }

  /** Returns `true` if an event with this name makes its session meet the condition `names`. */
  hasName(name: string): boolean {
    return this.#names.some((matches) => matches(name))
  }

  /** Returns the condition that a session with these properties meets. */
  condition(hasLevel: boolean, hasName: boolean, durationMs: number): KeepCondition | undefined {
    if (hasLevel) return 'level'
    const slowerThanMs = this.#keep?.slowerThanMs
    if (slowerThanMs !== undefined && durationMs > slowerThanMs) return 'slowerThanMs'
    return hasName ? 'names' : undefined
  }

  /**
   * Records the conditions that an event meets, and decides the event in case that sampling would drop it.
   * @param session the session of the event. An event without one, or after the end of its session, is decided at once.
   */
  decideEvent(
    session: SessionTail | undefined,
    level: TelemetryLevel,
    hasName: boolean,
  ): TailDecision | undefined {
    if (this.#keep === undefined) return undefined
    const hasLevel = LEVEL_PRIORITY[level] >= this.#minPriority
    if (session === undefined || session.ended)
      return session?.condition() ?? this.condition(hasLevel, hasName, 0)
    session.record(hasLevel, hasName)
    return 'hold'
  }

  /** Holds an event until its session ends. @param bytes its size in memory. */
  hold(session: SessionTail, envelope: TelemetryEnvelope, bytes: number): void {
    const context = new AsyncContext('KitTelemetryEvent')
    const event = { envelope, bytes, context, emittedAtMs: Date.now() }
    const replaced = session.push(event, this.#keep?.maxBuffered ?? Number.POSITIVE_INFINITY)
    this.#heldBytes += bytes
    if (replaced === undefined) {
      this.#held++
      this.#holding.add(session)
    } else {
      this.#heldBytes -= replaced.bytes
      this.#outcomes.drop()
    }
    // Code that reads the input of the event may have ended the session or shut down the manager.
    if (session.ended || this.#isClosed || this.#keep === undefined) this.decide(session)
    else if (this.#isFull) this.#decideLongest()
  }

  get #isFull(): boolean {
    return this.#held > MAX_HELD || this.#heldBytes > DEFAULT_MAX_PENDING_BYTES
  }

  /** Delivers the held events of a session if it has met a condition, and drops them otherwise. */
  decide(session: SessionTail): void {
    if (!this.#holding.delete(session)) return
    const condition = session.condition()
    for (const event of session.take()) {
      this.#held--
      this.#heldBytes -= event.bytes
      if (condition === undefined) this.#outcomes.drop()
      else
        this.#outcomes.deliver({ ...event, envelope: sampledBy(event.envelope, condition) }, session.pending)
    }
  }

  /** Decides all sessions as if they had ended. Later events are decided at once. */
  close(): void {
    this.#isClosed = true
    this.#decideAll()
  }

  #decideAll(): void {
    for (const session of this.#holding) this.decide(session)
  }

  #decideLongest(): void {
    if (this.#reporter.isDue(this, LOSS_REPEAT_MS))
      this.#reporter.warning(
        `the limit of ${MAX_HELD} held events was reached, or of 64 MiB, so sessions are decided before their end. End every session with end(), or lower maxBuffered of withSampling({ keep })`,
        undefined,
        'held',
      )
    for (const longest of this.#holding) {
      this.decide(longest)
      if (!this.#isFull) return
    }
  }
}

/** The held events of one session, and the conditions that it has met. */
export class SessionTail {
  readonly pending: PendingWork
  readonly #all: TailSampling
  readonly #startedAt = performance.now()
  #endedAt: number | undefined
  #hasLevel = false
  #hasName = false
  readonly #events: HeldEvent[] = []

  constructor(all: TailSampling, pending: PendingWork) {
    this.#all = all
    this.pending = pending
  }

  /** `true` after the session has ended. */
  get ended(): boolean {
    return this.#endedAt !== undefined
  }

  /** Records the conditions that an event meets. */
  record(hasLevel: boolean, hasName: boolean): void {
    this.#hasLevel ||= hasLevel
    this.#hasName ||= hasName
  }

  /** Returns the condition that the session has met by now, or had met when it ended. */
  condition(): KeepCondition | undefined {
    const durationMs = (this.#endedAt ?? performance.now()) - this.#startedAt
    return this.#all.condition(this.#hasLevel, this.#hasName, durationMs)
  }

  /** Adds an event. @returns the oldest event, if the new one has replaced it because there are `max` events already. */
  push(event: HeldEvent, max: number): HeldEvent | undefined {
    return this.#events.push(event) > max ? this.#events.shift() : undefined
  }

  /** Removes and returns the events in the order in which they were emitted. */
  take(): HeldEvent[] {
    return this.#events.splice(0)
  }

  /** Decides the session. */
  end(): void {
    this.#endedAt = performance.now()
    this.#all.decide(this)
  }
}

/** Returns the envelope with the attribute that contains the condition. */
export function sampledBy(envelope: TelemetryEnvelope, condition: KeepCondition): TelemetryEnvelope {
  const attributes = Object.freeze({ ...envelope.attributes, [SAMPLED_BY]: condition })
  return Object.freeze({ ...envelope, attributes })
}
