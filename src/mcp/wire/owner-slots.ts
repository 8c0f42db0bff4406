/** The limits of {@link OwnerSlots}. */
export interface SlotLimits {
  /** The number of slots of all owners together. */
  readonly max: number
  /** The number of slots of one owner. */
  readonly maxPerOwner: number
}

/**
 * Counts what owners hold at the same time, such as streams or calls in progress. An owner without any uses no memory. An unknown owner
 * (`undefined`) counts only toward the total.
 */
export class OwnerSlots {
  readonly #limits: SlotLimits
  readonly #byOwner = new Map<string, number>()
  #taken = 0

  constructor(limits: SlotLimits) {
    this.#limits = limits
  }

  /** Returns the limit that is reached for `owner`, or undefined if a slot is free. */
  exhausted(owner: string | undefined): 'owner' | 'all' | undefined {
    const held = owner === undefined ? 0 : (this.#byOwner.get(owner) ?? 0)
    if (held >= this.#limits.maxPerOwner) return 'owner'
    return this.#taken >= this.#limits.max ? 'all' : undefined
  }

  /** Takes a slot, even if none is free. @returns a function that gives it back; further calls have no effect */
  take(owner: string | undefined): () => void {
    this.#taken++
    if (owner !== undefined) this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? 0) + 1)
    let isHeld = true
    return () => {
      if (isHeld) this.#giveBack(owner)
      isHeld = false
    }
  }

  #giveBack(owner: string | undefined): void {
    this.#taken--
    if (owner === undefined) return
    const left = (this.#byOwner.get(owner) ?? 1) - 1
    if (left === 0) this.#byOwner.delete(owner)
    else this.#byOwner.set(owner, left)
  }
}
