import type { Reporter } from '../delivery/reporter.ts'
import { SAMPLING_HINT } from '../emit-errors.ts'
import { readSessionId } from '../envelope/build-envelope.ts'
import type { TelemetryEmitInput } from '../envelope/envelope.ts'
import { createSessionId } from '../envelope/session-id.ts'
import type { EventRule } from '../event-rules.ts'
import type { TelemetryLevel } from '../levels.ts'
import { ambientSession, type SessionContext } from './context.ts'
import {
  compileGlob,
  DEFAULT_SAMPLING,
  type GlobMatcher,
  type ResolvedSamplingPolicy,
  sessionDraw,
} from './sampling.ts'
import { type SessionTail, type TailDecision, type TailOutcomes, TailSampling } from './tail-sampling.ts'

/** The decision about an event that is kept. */
export interface KeptEvent {
  /** The session id, if it is known already. */
  readonly sessionId?: string
  /** The session whose end decides an event with the decision `hold`. */
  readonly tail?: SessionTail | undefined
  /** The decision about an event that the rates would drop. */
  readonly decision?: TailDecision | undefined
}

const KEPT: KeptEvent = Object.freeze({})

/** Decides which events of a manager are kept. The policy can be replaced. */
export class EventSampling {
  readonly #manager: object
  readonly #outcomes: TailOutcomes
  readonly #reporter: Reporter
  #policy: ResolvedSamplingPolicy = DEFAULT_SAMPLING
  /** The rates of the levels. */
  rates: ReadonlyMap<string, number> = new Map()
  #always: readonly GlobMatcher[] = []
  #never: readonly GlobMatcher[] = []
  /** The held events, if a policy has or had `keep`. */
  tails: TailSampling | undefined
  /** The number of events that are not kept. */
  sampledOut = 0

  /** @param deliver delivers an event that was held. */
  constructor(
    policy: ResolvedSamplingPolicy,
    manager: object,
    deliver: TailOutcomes['deliver'],
    reporter: Reporter,
  ) {
    this.#manager = manager
    this.#reporter = reporter
    const drop = () => {
      this.sampledOut++
    }
    this.#outcomes = { deliver, drop }
    this.use(policy)
  }

  /** Uses a policy from now on. Held events are decided at once if it does not have `keep`. */
  use(policy: ResolvedSamplingPolicy): void {
    this.#policy = policy
    const { debugRate: debug, infoRate: info, warnRate: warn, errorRate: error } = policy
    this.rates = new Map(Object.entries({ debug, info, warn, error, fatal: 1 }))
    this.#always = policy.always.map(compileGlob)
    this.#never = policy.never.map(compileGlob)
    const { keep } = policy
    if (this.tails !== undefined) this.tails.replace(keep)
    else if (keep !== undefined) this.tails = new TailSampling(keep, this.#outcomes, this.#reporter)
  }

  /** Returns the rate of a name that a pattern matches, or `undefined` if the level decides. `never` has priority. */
  fixedRate(name: string): 0 | 1 | undefined {
    if (this.#never.some((matches) => matches(name))) return 0
    return this.#always.some((matches) => matches(name)) ? 1 : undefined
  }

  /** Decides about an event with a rate. @returns `undefined` if it is sampled out, which is counted. */
  decide(
    event: EventRule,
    level: TelemetryLevel,
    rate: number,
    input: TelemetryEmitInput,
    contextOfEvent: () => SessionContext | undefined,
  ): KeptEvent | undefined {
    if (this.#policy.unit === 'event') return rate >= 1 || Math.random() < rate ? KEPT : this.#sampleOut()
    const ownId = readSessionId(input, event.report)
    const context = contextOfEvent()
    const sessionId = ownId ?? context?.sessionId ?? createSessionId()
    const isKept = sessionDraw(sessionId) < rate
    if (this.tails === undefined || event.fixedRate === 0) return isKept ? { sessionId } : this.#sampleOut()
    const tail = ownId === undefined ? context?.session.tail : this.#tailOf(ownId, context)
    const decision = this.tails.decideEvent(tail, level, event.keepsSession)
    if (isKept) return { sessionId }
    return decision === undefined ? this.#sampleOut() : { sessionId, tail, decision }
  }

  /** Returns the tail of the session with the id of an event: the given session, or one in whose run the event is emitted. */
  #tailOf(sessionId: string, context: SessionContext | undefined): SessionTail | undefined {
    const session =
      context?.sessionId === sessionId ? context.session : ambientSession(this.#manager, sessionId)
    return session?.tail
  }

  #sampleOut(): undefined {
    if (this.sampledOut++ === 0 && this.#policy === DEFAULT_SAMPLING)
      this.#reporter.warning(SAMPLING_HINT, undefined, 'sampling')
  }
}
