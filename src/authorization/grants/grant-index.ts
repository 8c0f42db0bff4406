import { randomInt } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Records } from '../records.ts'

/** The number of places in the first level of a table. A user has one level, and so at most this number of grants. */
const PLACES = 64

/** The number of levels of a client, each of which is twice as large as the previous one. */
const MAX_LEVELS = 16

/** The number of places of a level that are tried. */
const MAX_TRIES = 4

export interface GrantIndexContext {
  readonly records: Records
  /** The time for which an entry is kept. */
  readonly seconds: number
  /** Returns the last use of a grant in milliseconds since 1970, or `undefined` if it has ended. */
  readonly lastUse: (name: string) => Promise<number | undefined>
  /** Ends a grant whose place is needed, or whose refresh token has expired. */
  readonly end: (name: string) => Promise<unknown>
}

/**
 * The grants of each user and of each client. A store has no lists, so that an entry is a record at a place of a table. A node
 * takes a place in one step, so that no node overwrites the entry of another one. The entries of grants that have ended stay until their
 * place is needed. Nothing is wrong if a node stops between two commands: its entry is missing, or it names no live grant.
 */
export class GrantIndex {
  readonly #context: GrantIndexContext
  /** The levels of clients that were not full. */
  readonly #levels = new LRUCache<string, number>({ max: 1_000 })

  constructor(context: GrantIndexContext) {
    this.#context = context
  }

  /**
   * Adds a grant to those of a user. If all places are taken, the grant whose last use was the longest ago ends. Resolves with `false`
   * if other requests were faster each time.
   */
  async addToUser(sub: string, name: string): Promise<boolean> {
    for (let tries = 0; tries < MAX_TRIES; tries++)
      if (await this.#take(userPlace(sub, randomInt(PLACES)), name)) return true
    // Other nodes may take the places that are found, so that the search is repeated.
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const found = await Promise.all(places(PLACES).map((place) => this.#look(userPlace(sub, place))))
      for (const one of found.sort((a, b) => (a.usedAt ?? 0) - (b.usedAt ?? 0))) {
        if (await this.#replace(one, name)) return true
        if (one.usedAt !== undefined) break
      }
    }
    return false
  }

  /** Adds a grant to those of a client. */
  async addToClient(clientId: string, name: string): Promise<void> {
    for (let level = this.#levels.get(clientId) ?? 0; level < MAX_LEVELS; level++) {
      // The level is stored first, so that no entry is overlooked.
      await this.#context.records.set('ClientGrantLevel', `${clientId}#${level}`, true, this.#context.seconds)
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const place = clientPlace(clientId, level, randomInt(sizeOf(level)))
        if (!(await this.#take(place, name))) continue
        this.#levels.set(clientId, level)
        return
      }
    }
  }

  /** Returns the names of the grants of a user. Some of them may have ended. */
  async ofUser(sub: string): Promise<readonly string[]> {
    return await this.#names(places(PLACES).map((place) => userPlace(sub, place)))
  }

  /** Returns the names of the grants of a client, in portions. Some of them may have ended. */
  async *ofClient(clientId: string): AsyncGenerator<readonly string[]> {
    const levels = await Promise.all(
      places(MAX_LEVELS).map((level) =>
        this.#context.records.get('ClientGrantLevel', `${clientId}#${level}`),
      ),
    )
    for (const [level, isUsed] of levels.entries())
      for (let first = 0; isUsed === true && first < sizeOf(level); first += PLACES)
        yield await this.#names(places(PLACES).map((place) => clientPlace(clientId, level, first + place)))
  }

  async #names(all: readonly Place[]): Promise<readonly string[]> {
    const names = await Promise.all(all.map((place) => this.#read(place)))
    return [...new Set(names.filter((name) => name !== undefined))]
  }

  /** Takes a place that is empty, or that of a grant that has ended. */
  async #take(place: Place, name: string): Promise<boolean> {
    const found = await this.#look(place)
    return found.usedAt === undefined && (await this.#replace(found, name))
  }

  /** Takes a place, and ends the grant that had it. */
  async #replace({ place: { kind, id }, other }: FoundPlace, name: string): Promise<boolean> {
    const { records, seconds, end } = this.#context
    if (other === undefined) return await records.add(kind, id, name, seconds)
    await end(other)
    const taken = await records.take(kind, id)
    const isOther = taken === undefined || taken === other
    // Another node was faster: its entry is put back.
    return (await records.add(kind, id, isOther ? name : taken, seconds)) && isOther
  }

  async #look(place: Place): Promise<FoundPlace> {
    const other = await this.#read(place)
    return { place, other, usedAt: other === undefined ? undefined : await this.#context.lastUse(other) }
  }

  async #read({ kind, id }: Place): Promise<string | undefined> {
    const name = await this.#context.records.get(kind, id)
    return typeof name === 'string' ? name : undefined
  }
}

/** The key of an entry in the store. */
interface Place {
  readonly kind: 'UserGrant' | 'ClientGrant'
  readonly id: string
}

/** A place, the grant that has it, and the last use of this grant unless it has ended. */
interface FoundPlace {
  readonly place: Place
  readonly other: string | undefined
  readonly usedAt: number | undefined
}

function userPlace(sub: string, place: number): Place {
  return { kind: 'UserGrant', id: JSON.stringify([sub, place]) }
}

function clientPlace(clientId: string, level: number, place: number): Place {
  return { kind: 'ClientGrant', id: JSON.stringify([clientId, level, place]) }
}

function sizeOf(level: number): number {
  return PLACES * 2 ** level
}

function places(count: number): readonly number[] {
  return [...Array(count).keys()]
}
