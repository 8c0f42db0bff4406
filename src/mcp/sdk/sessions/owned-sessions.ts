import type { Session } from './session.ts'

/** The sessions of one owner. */
interface Owned {
  /** In the order of their last use. */
  readonly sessions: Set<Session>
  /** The memory that their kept events take, in bytes. */
  bytes: number
}

/**
 * The sessions of an adapter, by owner. The sessions whose owner is not known have one owner together (`undefined`). The kept
 * events of one owner take at most `maxBytes`: those of the session that was not used for the longest time are dropped first.
 */
export class OwnedSessions {
  readonly #maxBytes: number
  readonly #byOwner = new Map<string | undefined, Owned>()

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Returns the sessions of an owner, in the order of their last use. */
  of(owner: string | undefined): ReadonlySet<Session> | undefined {
    return this.#byOwner.get(owner)?.sessions
  }

  /** Adds a session to those of `session.countedFor`. */
  add(session: Session): void {
    const owned = this.#byOwner.get(session.countedFor) ?? { sessions: new Set(), bytes: 0 }
    this.#byOwner.set(session.countedFor, owned)
    owned.sessions.add(session)
    this.kept(session, session.keptBytes)
  }

  delete(session: Session): void {
    const owned = this.#find(session)
    if (owned === undefined) return
    owned.sessions.delete(session)
    owned.bytes -= session.keptBytes
    if (owned.sessions.size === 0) this.#byOwner.delete(session.countedFor)
  }

  /** Moves a session behind the others of its owner, as the one that was used last. */
  use(session: Session): void {
    const sessions = this.#find(session)?.sessions
    if (sessions?.delete(session)) sessions.add(session)
  }

  /** Counts what a session keeps in addition, or has dropped. */
  kept(session: Session, bytes: number): void {
    const owned = this.#find(session)
    if (owned === undefined) return
    owned.bytes += bytes
    if (bytes <= 0 || owned.bytes <= this.#maxBytes) return
    for (const one of owned.sessions)
      while (owned.bytes > this.#maxBytes && one.dropOldestEvent()) {
        // Dropping an event counts it.
      }
  }

  /**
   * Returns those of `sessions` whose owner has the most sessions. If several owners have, and `owner` is one of them, returns
   * the sessions of `owner`.
   */
  ofLargestOwner(sessions: Iterable<Session>, owner: string | undefined): readonly Session[] {
    let most = 0
    let largest: Session[] = []
    for (const session of sessions) {
      const { size } = this.#find(session)?.sessions ?? NO_SESSIONS
      if (size > most) largest = []
      most = Math.max(most, size)
      if (size === most) largest.push(session)
    }
    const own = largest.filter((session) => session.countedFor === owner)
    return own.length > 0 ? own : largest
  }

  #find(session: Session): Owned | undefined {
    const owned = this.#byOwner.get(session.countedFor)
    return owned?.sessions.has(session) === true ? owned : undefined
  }
}

const NO_SESSIONS: ReadonlySet<Session> = new Set()
