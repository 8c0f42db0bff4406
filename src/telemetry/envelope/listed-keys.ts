type Action = 'deny' | 'hash'

/** A listed key. Each of its dot-separated parts is a string, or its literals if it contains `*`. */
interface ListedKey {
  readonly action: Action
  readonly parts: readonly (string | readonly string[])[]
}

/** The beginning of a listed key that the end of a path matches: the next part of the key is at `index`. */
export interface OpenKey {
  readonly listed: ListedKey
  readonly index: number
}

/** Finds the listed keys in paths of keys, one key after the other. */
export class ListedKeys {
  /** By the first part. */
  readonly #literal = new Map<string, OpenKey[]>()
  /** Those whose first part contains `*`. */
  readonly #wild: OpenKey[] = []

  constructor(keys: Readonly<Record<Action, readonly string[]>>) {
    for (const action of ['deny', 'hash'] as const) {
      for (const key of keys[action]) this.#add(key, action)
    }
  }

  get isEmpty(): boolean {
    return this.#literal.size + this.#wild.length === 0
  }

  /**
   * Returns the action for the last key of a path, and the listed keys that may match the path with further keys.
   * @param open the listed keys that may match the path with this key.
   */
  follow(open: readonly OpenKey[], key: string): { action: Action | 'keep'; open: readonly OpenKey[] } {
    let action: Action | 'keep' = 'keep'
    let before = open
    for (const part of fold(key).split('.')) {
      const after: OpenKey[] = []
      for (const list of [before, this.#literal.get(part) ?? [], this.#wild]) {
        for (const { listed, index } of list) {
          if (!matches(listed.parts[index] as ListedKey['parts'][number], part)) continue
          if (index + 1 < listed.parts.length) after.push({ listed, index: index + 1 })
          else if (action !== 'deny') action = listed.action
        }
      }
      before = after
    }
    return { action, open: before }
  }

  #add(key: string, action: Action): void {
    const parts = fold(key)
      .split('.')
      .map((part) => (part.includes('*') ? part.split('*') : part))
    const [first] = parts
    const begun: OpenKey = { listed: { action, parts }, index: 0 }
    if (typeof first !== 'string') this.#wild.push(begun)
    else this.#literal.set(first, [...(this.#literal.get(first) ?? []), begun])
  }
}

/** Returns `true` if a part is equal to a listed one, or has its literals one after the other. Takes linear time. */
function matches(listed: string | readonly string[], part: string): boolean {
  if (typeof listed === 'string') return listed === part
  const first = listed[0] as string
  const last = listed[listed.length - 1] as string
  const end = part.length - last.length
  let at = first.length
  if (end < at || !part.startsWith(first) || !part.endsWith(last)) return false
  for (const literal of listed.slice(1, -1)) {
    const found = part.indexOf(literal, at)
    if (found < 0) return false
    at = found + literal.length
  }
  return at <= end
}

/** Returns a key in lowercase. A Greek final sigma, which depends on the next character, becomes a normal one. */
function fold(key: string): string {
  return key.toLowerCase().replaceAll('ς', 'σ')
}
