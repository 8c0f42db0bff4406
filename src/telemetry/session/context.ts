import { AsyncLocalStorage } from 'node:async_hooks'
import { PendingWork } from '../delivery/pending-work.ts'
import type { TelemetryActor, TelemetryScope } from '../envelope/envelope.ts'
import type { Redactor } from '../envelope/redactor.ts'
import { sessionDraw } from './sampling.ts'

/** What a session lends to its events, and an outer session to an inner one. JSON values, frozen, not redacted. */
export interface InheritedValues {
  readonly actor: TelemetryActor | undefined
  readonly scope: TelemetryScope | undefined
  /** `undefined` when no attributes were ever given. */
  readonly attributes: Readonly<Record<string, unknown>> | undefined
}

/** What a session knows of itself. `own` and `id` are replaced, never changed, so that a snapshot is a reference. */
export class SessionRecord {
  /** The manager it belongs to. */
  readonly manager: object
  readonly startedAt: string
  /** What it took from the run it was made in. */
  readonly inherited: InheritedValues
  /** The events under way that it emitted. */
  readonly pending: PendingWork = new PendingWork()
  id: string
  own: InheritedValues = NOTHING_INHERITED
  ended = false
  /** The context outside its runs, as long as neither `id` nor `own` changes. */
  context: SessionContext | undefined

  constructor(manager: object, id: string, startedAt: string, inherited: InheritedValues) {
    this.manager = manager
    this.id = id
    this.startedAt = startedAt
    this.inherited = inherited
  }
}

/**
 * One run of a session. It does not refer to the runs around it: a task that starts its successor within its own run
 * would otherwise keep every run before it in memory.
 */
export interface RunNode {
  readonly session: SessionRecord
  /** What the run took from the one around it. */
  readonly inherited: InheritedValues
  context: SessionContext | undefined
}

/** An immutable view of what a session lends, with its redacted form, which is made once. */
export class SessionContext implements InheritedValues {
  readonly session: SessionRecord
  readonly own: InheritedValues
  readonly sessionId: string
  readonly actor: TelemetryActor | undefined
  readonly scope: TelemetryScope | undefined
  readonly attributes: Readonly<Record<string, unknown>> | undefined
  #redacted: InheritedValues | undefined
  #draw: number | undefined

  constructor(session: SessionRecord, inherited: InheritedValues) {
    const { own } = session
    this.session = session
    this.own = own
    this.sessionId = session.id
    this.actor = own.actor ?? inherited.actor
    this.scope = own.scope ?? inherited.scope
    this.attributes = overlay(inherited.attributes, own.attributes)
  }

  /** What of it goes into envelopes. A session belongs to one manager, so there is one redactor. */
  redacted(redactor: Redactor): InheritedValues {
    this.#redacted ??= {
      actor: this.actor && redactor.actor(this.actor),
      scope: this.scope && redactor.scope(this.scope),
      attributes: this.attributes && redactor.map('attributes', this.attributes),
    }
    return this.#redacted
  }

  /** Where the session stands in sampling by session. */
  get draw(): number {
    this.#draw ??= sessionDraw(this.sessionId)
    return this.#draw
  }
}

/**
 * The maximum number of runs in one async context, of one manager and of all. Beyond it the outermost run is forgotten,
 * so that a chain of runs whose sessions are never ended does not grow.
 */
const MAX_RUNS_OF_MANAGER = 32
const MAX_RUNS = 256

/**
 * The runs in the ambient async context, the innermost first. The runs of every manager share one storage; each manager
 * finds its own by `session.manager`.
 */
const runs = new AsyncLocalStorage<readonly RunNode[]>()

const NO_RUNS: readonly RunNode[] = []

const NOTHING_INHERITED: InheritedValues = Object.freeze({
  actor: undefined,
  scope: undefined,
  attributes: undefined,
})

/** The runs in the ambient async context, the innermost first. */
export function ambientRuns(): readonly RunNode[] {
  return runs.getStore() ?? NO_RUNS
}

/** The innermost run that has not ended, of any manager or of the given one. */
export function activeRun(manager?: object): RunNode | undefined {
  const nodes = ambientRuns()
  for (let index = 0; index < nodes.length; index++) {
    const node = nodes[index] as RunNode
    if (!node.session.ended && (manager === undefined || node.session.manager === manager)) return node
  }
  return undefined
}

/**
 * What a new session, or a run, takes over from the run around it. It refers to values only, and not to the session that
 * lends them: sessions would otherwise keep one another in memory.
 */
export function inheritance(manager: object): InheritedValues {
  const node = activeRun(manager)
  if (node === undefined) return NOTHING_INHERITED
  const { actor, scope, attributes } = contextOf(node.session, node)
  return { actor, scope, attributes }
}

/** Runs `fn` with `session` as the ambient one. */
export function runInside<T>(session: SessionRecord, fn: () => T): T {
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

/** What a session lends at this place: inside one of its own runs that run's inheritance, else its own. */
export function contextHere(session: SessionRecord): SessionContext {
  return contextOf(
    session,
    ambientRuns().find((node) => node.session === session),
  )
}

export function contextOf(session: SessionRecord, node: RunNode | undefined): SessionContext {
  const holder = node ?? session
  const { context } = holder
  if (context !== undefined && context.own === session.own && context.sessionId === session.id) return context
  const fresh = new SessionContext(session, holder.inherited)
  holder.context = fresh
  return fresh
}

/** The ambient runs that may lend something again: not those of ended sessions, nor those of the session about to run. */
function usefulRuns(session: SessionRecord): readonly RunNode[] {
  let left = MAX_RUNS_OF_MANAGER - 1
  return ambientRuns()
    .filter(({ session: around }) => {
      if (around.ended || around === session) return false
      return around.manager !== session.manager || left-- > 0
    })
    .slice(0, MAX_RUNS - 1)
}

function overlay(
  below: InheritedValues['attributes'],
  above: InheritedValues['attributes'],
): Readonly<Record<string, unknown>> | undefined {
  if (below === undefined || above === undefined) return above ?? below
  return Object.freeze({ ...below, ...above })
}
