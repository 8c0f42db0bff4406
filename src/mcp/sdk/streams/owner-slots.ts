/** How many slots there are. */
export interface SlotLimits {
  /** Of all owners together. */
  readonly max: number
  readonly maxPerOwner: number
}

/**
 * Counts what owners hold at the same time: sessions, or streams. An owner that holds nothing is not remembered.
 * An owner that is not known (`undefined`) counts only toward the total.
 */
export class OwnerSlots {
  readonly #limits: SlotLimits
  readonly #byOwner = new Map<string, number>()
  #taken = 0

  constructor(limits: SlotLimits) {
    this.#limits = limits
  }

  /** The number of owners that hold something. */
  get owners(): number {
    return this.#byOwner.size
  }

  /** The limit that leaves no slot for `owner`; undefined if one is free. */
  exhausted(owner: string | undefined): 'owner' | 'all' | undefined {
    const held = owner === undefined ? 0 : (this.#byOwner.get(owner) ?? 0)
    if (held >= this.#limits.maxPerOwner) return 'owner'
    return this.#taken >= this.#limits.max ? 'all' : undefined
  }

  /** Takes a slot, whether or not one is free. @returns gives it back; further calls do nothing. */
  take(owner: string | undefined): () => void {
    this.#taken++
    if (owner !== undefined) this.#byOwner.set(owner, (this.#byOwner.get(owner) ?? 0) + 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#taken--
      if (owner === undefined) return
      const left = (this.#byOwner.get(owner) as number) - 1
      if (left === 0) this.#byOwner.delete(owner)
      else this.#byOwner.set(owner, left)
    }
  }
}
