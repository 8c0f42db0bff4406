/** An entry and its keys. */
interface Kept<Entry> {
  readonly keys: readonly string[]
  readonly entry: Entry
}

/** The data that the lists of one chain share. */
interface Shared<Entry> {
  readonly kept: Kept<Entry>[]
  readonly indexes: Map<string, number>
}

/**
 * An immutable list whose entries have keys. Lists that grow in one chain share an array; the first `size` entries belong to
 * this list. A second branch of a chain copies the array.
 */
export class Entries<Entry> {
  readonly #shared: Shared<Entry>
  readonly #size: number

  private constructor(shared: Shared<Entry>, size: number) {
    this.#shared = shared
    this.#size = size
  }

  static empty<Entry>(): Entries<Entry> {
    return new Entries<Entry>({ kept: [], indexes: new Map() }, 0)
  }

  has(key: string): boolean {
    const index = this.#shared.indexes.get(key)
    return index !== undefined && index < this.#size
  }

  /** Returns the list with one more entry. The list must not have any of the keys. */
  with(keys: readonly string[], entry: Entry): Entries<Entry> {
    const { kept, indexes } =
      this.#shared.kept.length === this.#size
        ? this.#shared
        : sharedOf(this.#shared.kept.slice(0, this.#size))
    kept.push({ keys, entry })
    for (const key of keys) indexes.set(key, this.#size)
    return new Entries({ kept, indexes }, this.#size + 1)
  }

  toArray(): Entry[] {
    return this.#shared.kept.slice(0, this.#size).map(({ entry }) => entry)
  }
}

function sharedOf<Entry>(kept: Kept<Entry>[]): Shared<Entry> {
  return {
    kept,
    indexes: new Map(kept.flatMap(({ keys }, index) => keys.map((key) => [key, index] as const))),
  }
}
