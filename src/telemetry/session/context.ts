import { AsyncLocalStorage } from '../../base/runtime.ts'
import { PendingWork } from '../delivery/pending-work.ts'
import type { TelemetryActor, TelemetryScope } from '../envelope/envelope.ts'
import { overlay } from '../envelope/redacted-json.ts'
import type { RedactedValues, Redactor } from '../envelope/redactor.ts'
import type { RequestAttributes } from './request-attributes.ts'
import type { SessionTail, TailSampling } from './tail-sampling.ts'

/** The values that events inherit from their session, and an inner session from an outer one. Frozen JSON, not redacted. */
export interface InheritedValues {
  readonly actor: TelemetryActor | undefined
  readonly scope: TelemetryScope | undefined
  /** `undefined` if no attributes were set. */
  readonly attributes: Readonly<Record<string, unknown>> | undefined
}

/**
 * The state of a session. `own` and `id` are replaced, never changed, so that a reference is a snapshot. The attributes in `own`
 * may change until they are frozen.
 */
export class SessionRecord {
  /** The manager it belongs to. */
  readonly manager: object
  readonly startedAt: string
  /** The values that it inherited from the run in which it was created. */
  readonly inherited: InheritedValues
  /** The pending events that it emitted. */
  readonly pending: PendingWork = new PendingWork()
  /** Its held events, if the sampling policy has `keep`. */
  readonly tail: SessionTail | undefined
  /** The request in which it was created. */
  readonly outerRequest: RequestAttributes | undefined
  /** The request whose session it is. */
  request: RequestAttributes | undefined
  id: string
  own: InheritedValues = NOTHING_INHERITED
  ended = false
  /** The context outside of its runs. It is valid until `id` or `own` changes. */
  context: SessionContext | undefined

  constructor(
    manager: object,
    id: string,
    startedAt: string,
    inherited: InheritedValues,
    tails: TailSampling | undefined,
  ) {
    this.tail = tails?.session(this.pending)
    this.outerRequest = ambientRequest(manager)
    this.manager = manager
    this.id = id
    this.startedAt = startedAt
    this.inherited = inherited
  }
}

/**
 * One run of a session. It does not refer to the runs around it. Otherwise a task that starts its successor in its own run
 * would keep all previous runs in memory.
 */
export interface RunNode {
  readonly session: SessionRecord
  /** The values that it inherited from the run around it. */
  readonly inherited: InheritedValues
  context: SessionContext | undefined
}

/** The immutable values of a session at one moment, and their redacted form, which is computed once. */
export class SessionContext implements InheritedValues {
  readonly session: SessionRecord
  readonly own: InheritedValues
  readonly sessionId: string
  readonly actor: TelemetryActor | undefined
  readonly scope: TelemetryScope | undefined
  readonly attributes: Readonly<Record<string, unknown>> | undefined
  #redacted: RedactedValues | undefined

  constructor(session: SessionRecord, inherited: InheritedValues) {
    const { own } = session
    // From now on, the session copies its attributes when it changes them.
    Object.freeze(own.attributes)
    this.session = session
    this.own = own
    this.sessionId = session.id
    this.actor = own.actor ?? inherited.actor
    this.scope = own.scope ?? inherited.scope
    this.attributes = overlay(inherited.attributes, own.attributes)
  }

  /** Returns the redacted values. A session belongs to one manager, so the redactor is always the same. */
  redacted(redactor: Redactor): RedactedValues {
    this.#redacted ??= redactor.inherited(this)
    return this.#redacted
  }
}

/**
 * The maximum number of runs in one async context, of one manager and of all managers. Beyond it, the outermost run is
 * dropped, so that a chain of runs whose sessions never end does not grow.
 */
const MAX_RUNS_OF_MANAGER = 32
const MAX_RUNS = 256

/**
 * The runs in the current async context, the innermost first. All managers share one storage. Each manager finds its own
 * runs by `session.manager`. `undefined` in a runtime without async contexts: runs have no effect on events there.
 */
const runs = AsyncLocalStorage === undefined ? undefined : new AsyncLocalStorage<readonly RunNode[]>()

const NO_RUNS: readonly RunNode[] = []

const NOTHING_INHERITED: InheritedValues = Object.freeze({
  actor: undefined,
  scope: undefined,
  attributes: undefined,
})

/** Returns the runs in the current async context, the innermost first. */
export function ambientRuns(): readonly RunNode[] {
  return runs?.getStore() ?? NO_RUNS
}

/** Returns the innermost run whose session has not ended, of any manager or of the given one. */
export function activeRun(manager?: object): RunNode | undefined {
  const nodes = ambientRuns()
  for (let index = 0; index < nodes.length; index++) {
    const node = nodes[index] as RunNode
    if (!node.session.ended && (manager === undefined || node.session.manager === manager)) return node
  }
  return undefined
}

/** Returns the session with an id, of the innermost run in which it is. The session may have ended. */
export function ambientSession(manager: object, id: string): SessionRecord | undefined {
  return ambientRuns().find(({ session }) => session.manager === manager && session.id === id)?.session
}

/** Returns the request of the innermost run that belongs to one. The request may have been completed. */
export function ambientRequest(manager: object): RequestAttributes | undefined {
  for (const { session } of ambientRuns()) {
    if (session.manager !== manager) continue
    const request = session.request ?? session.outerRequest
    if (request !== undefined) return request
  }
  return undefined
}

/**
 * Returns the values that a new session or a run inherits from the run around it. They do not refer to a session, because
 * sessions would otherwise keep one another in memory.
 */
export function inheritance(manager: object): InheritedValues {
  const node = activeRun(manager)
  if (node === undefined) return NOTHING_INHERITED
  const { actor, scope, attributes } = contextOf(node.session, node)
  return { actor, scope, attributes }
}

/** Runs `fn` in `session`. */
export function runInside<T>(session: SessionRecord, fn: () => T): T {
  if (runs === undefined) return fn()
  const outer = inheritance(session.manager)
  const { inherited } = session
  const node: RunNode = {
    session,
    inherited: {
      actor: outer.actor ?? inherited.actor,
      scope: outer.scope ?? inherited.scope,
      attributes: overlay(inherited.attributes, outer.attributes),
    },
    context: undefined,
  }
  return runs.run([node, ...usefulRuns(session)], fn)
}

/** Returns the context of a session in the current async context: that of its run, or else that outside of its runs. */
export function contextHere(session: SessionRecord): SessionContext {
  for (const node of ambientRuns()) if (node.session === session) return contextOf(session, node)
  return contextOf(session, undefined)
}

export function contextOf(session: SessionRecord, node: RunNode | undefined): SessionContext {
  const holder = node ?? session
  const { context } = holder
  if (context !== undefined && context.own === session.own && context.sessionId === session.id) return context
  const fresh = new SessionContext(session, holder.inherited)
  holder.context = fresh
  return fresh
}

/** Returns the current runs, except for those of ended sessions and of the session that is about to run. */
function usefulRuns(session: SessionRecord): readonly RunNode[] {
  let left = MAX_RUNS_OF_MANAGER - 1
  return ambientRuns()
    .filter(({ session: around }) => {
      if (around.ended || around === session) return false
      return around.manager !== session.manager || left-- > 0
    })
    .slice(0, MAX_RUNS - 1)
}
