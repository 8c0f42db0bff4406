/** An item that waits until it is due. */
export interface Waiting {
  /** When it is due. If it becomes earlier while the item waits, the item must be added again. */
  dueMs: number
  state: string
}

interface Entry<Item> {
  readonly dueMs: number
  readonly item: Item
}

/** Finds the item that is due first. Adding and taking take time that is logarithmic in the number of items. */
export class DueHeap<Item extends Waiting> {
  readonly #entries: Entry<Item>[] = []

  /** When the first item is due. `Infinity` if there is none. */
  get dueMs(): number {
    this.#dropStale()
    return this.#entries[0]?.dueMs ?? Number.POSITIVE_INFINITY
  }

  /** Adds an item whose state is `waiting`. */
  add(item: Item): void {
    const entries = this.#entries
    const entry = { dueMs: item.dueMs, item }
    let at = entries.push(entry) - 1
    while (at > 0) {
      const parentAt = (at - 1) >> 1
      const parent = entries[parentAt] as Entry<Item>
      if (parent.dueMs <= entry.dueMs) break
      entries[at] = parent
      at = parentAt
    }
    entries[at] = entry
  }

  /** Removes and returns the item that is due first. */
  take(): Item | undefined {
    this.#dropStale()
    return this.#removeFirst()?.item
  }

  /** Removes all items and returns them, in any order. */
  takeAll(): Item[] {
    const waiting = new Set<Item>()
    for (const { item } of this.#entries.splice(0)) if (item.state === 'waiting') waiting.add(item)
    return [...waiting]
  }

  /** Removes entries at the front whose item no longer waits, or was added again with an earlier time. */
  #dropStale(): void {
    for (let first = this.#entries[0]; first !== undefined; first = this.#entries[0]) {
      if (first.item.state === 'waiting' && first.item.dueMs === first.dueMs) return
      this.#removeFirst()
    }
  }

  #removeFirst(): Entry<Item> | undefined {
    const entries = this.#entries
    const first = entries[0]
    const last = entries.pop()
    if (last === undefined || entries.length === 0) return first
    let at = 0
    for (;;) {
      let childAt = 2 * at + 1
      const left = entries[childAt]
      if (left === undefined) break
      const right = entries[childAt + 1]
      if (right !== undefined && right.dueMs < left.dueMs) childAt++
      const child = entries[childAt] as Entry<Item>
      if (last.dueMs <= child.dueMs) break
      entries[at] = child
      at = childAt
    }
    entries[at] = last
    return first
  }
}
