import { AsyncLocalStorage } from 'node:async_hooks'
import type { TelemetryActor, TelemetryScope } from './envelope.ts'
import { PendingWork } from './pending-work.ts'
import type { Redactor } from './redactor.ts'
import { sessionDraw } from './sampling.ts'

/** What a session lends to its events, and an outer session to an inner one. JSON values, frozen, not redacted. */
export interface Lendable {
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
  readonly inherited: Lendable
  /** The events under way that it emitted. */
  readonly pending: PendingWork = new PendingWork()
  id: string
  own: Lendable = NOTHING_LENT
  ended = false
  /** The context outside its runs, as long as neither `id` nor `own` changes. */
  lent: LentContext | undefined

  constructor(manager: object, id: string, startedAt: string, inherited: Lendable) {
    this.manager = manager
    this.id = id
    this.startedAt = startedAt
    this.inherited = inherited
  }
}

/** One run of a session: what lies in the ambient async context. */
export interface RunNode {
  readonly session: SessionRecord
  /** What the run took from the one around it. */
  readonly inherited: Lendable
  parent: RunNode | undefined
  lent: LentContext | undefined
}

/** An immutable view of what a session lends, with its redacted form, which is made once. */
export class LentContext implements Lendable {
  readonly session: SessionRecord
  readonly own: Lendable
  readonly sessionId: string
  readonly actor: TelemetryActor | undefined
  readonly scope: TelemetryScope | undefined
  readonly attributes: Readonly<Record<string, unknown>> | undefined
  #sent: Lendable | undefined
  #draw: number | undefined

  constructor(session: SessionRecord, inherited: Lendable) {
    const { own } = session
    this.session = session
    this.own = own
    this.sessionId = session.id
    this.actor = own.actor ?? inherited.actor
    this.scope = own.scope ?? inherited.scope
    this.attributes = overlay(inherited.attributes, own.attributes)
  }

  /** What of it goes into envelopes. A session belongs to one manager, so there is one redactor. */
  sent(redactor: Redactor): Lendable {
    this.#sent ??= {
      actor: this.actor && redactor.actor(this.actor),
      scope: this.scope && redactor.scope(this.scope),
      attributes: this.attributes && redactor.map('attributes', this.attributes),
    }
    return this.#sent
  }

  /** Where the session stands in sampling by session. */
  get draw(): number {
    this.#draw ??= sessionDraw(this.sessionId)
    return this.#draw
  }
}

/** The runs of every manager share one storage; each finds its own by `session.manager`. */
const runs = new AsyncLocalStorage<RunNode>()

const NOTHING_LENT: Lendable = Object.freeze({ actor: undefined, scope: undefined, attributes: undefined })

/** The innermost run that has not ended, of any manager or of the given one. */
export function activeRun(manager?: object): RunNode | undefined {
  for (let node = runs.getStore(); node !== undefined; node = node.parent) {
    if (!node.session.ended && (manager === undefined || node.session.manager === manager)) return node
  }
  return undefined
}

/** What a new session, or a run, takes over from the run around it. */
export function inheritance(manager: object): Lendable {
  const node = activeRun(manager)
  return node === undefined ? NOTHING_LENT : lentBy(node.session, node)
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
    parent: withoutEnded(runs.getStore(), session),
    lent: undefined,
  }
  return runs.run(node, fn)
}

/** What a session lends at this place: inside one of its own runs that run's inheritance, else its own. */
export function lentHere(session: SessionRecord): LentContext {
  let node = runs.getStore()
  while (node !== undefined && node.session !== session) node = node.parent
  return lentBy(session, node)
}

export function lentBy(session: SessionRecord, node: RunNode | undefined): LentContext {
  const holder = node ?? session
  const { lent } = holder
  if (lent !== undefined && lent.own === session.own && lent.sessionId === session.id) return lent
  const fresh = new LentContext(session, holder.inherited)
  holder.lent = fresh
  return fresh
}

/**
 * Drops the runs that can never lend anything again: those of ended sessions, and those of the session about to run.
 * A task that starts its successor within its own run would otherwise pile them up for ever.
 */
function withoutEnded(node: RunNode | undefined, session: SessionRecord): RunNode | undefined {
  const useless = (at: RunNode) => at.session.ended || at.session === session
  let head = node
  while (head !== undefined && useless(head)) head = head.parent
  for (let at = head; at?.parent !== undefined; ) {
    if (at.parent.session.ended) at.parent = at.parent.parent
    else at = at.parent
  }
  return head
}

function overlay(
  below: Lendable['attributes'],
  above: Lendable['attributes'],
): Readonly<Record<string, unknown>> | undefined {
  if (below === undefined || above === undefined) return above ?? below
  return Object.freeze({ ...below, ...above })
}
