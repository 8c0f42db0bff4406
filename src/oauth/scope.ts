/** From so many comparisons on, the granted scopes are looked up in a set. */
const MANY_COMPARISONS = 4_096

/** The scopes a verifier granted: a list, or one string with spaces between them. */
export function grantedScopes(scopes: unknown): string[] {
  if (typeof scopes === 'string') return scopes.split(' ').filter((scope) => scope !== '')
  const granted: string[] = []
  // What `cachedVerifier` gives is frozen, which array methods are slow with.
  if (Array.isArray(scopes)) for (const scope of scopes) if (typeof scope === 'string') granted.push(scope)
  return granted
}

/** Several lists of scopes as one, in order, each scope once. */
export function unionOfScopes(...lists: readonly (readonly string[])[]): readonly string[] {
  const filled = lists.filter((list) => list.length > 0)
  if (filled.length <= 1) return filled[0] ?? []
  return [...new Set(filled.flat())]
}

/**
 * Decides whether granted scopes satisfy required ones. `implies` is a hierarchy: a broader scope
 * satisfies the narrower ones it names, transitively. Comparison is exact and case-sensitive.
 */
export class ScopeHierarchy {
  /** For each scope that something implies: itself and everything that implies it. */
  readonly #satisfiedBy = new Map<string, Set<string>>()

  constructor(implies: Readonly<Record<string, readonly string[]>> = {}) {
    for (const broader of Object.keys(implies)) {
      const reached = new Set<string>()
      const open = [broader]
      for (let scope = open.pop(); scope !== undefined; scope = open.pop()) {
        for (const narrower of Object.hasOwn(implies, scope) ? (implies[scope] ?? []) : []) {
          if (reached.has(narrower)) continue
          reached.add(narrower)
          open.push(narrower)
        }
      }
      for (const narrower of reached) {
        const broaderOnes = this.#satisfiedBy.get(narrower) ?? new Set([narrower])
        this.#satisfiedBy.set(narrower, broaderOnes.add(broader))
      }
    }
  }

  /** Whether every one of `required` is granted, directly or through a broader scope. */
  satisfies(granted: readonly string[], required: readonly string[]): boolean {
    // Few scopes are found faster in the list.
    const all = granted.length * required.length > MANY_COMPARISONS ? new Set(granted) : undefined
    for (const scope of required) {
      if (all === undefined ? granted.includes(scope) : all.has(scope)) continue
      const broaderOnes = this.#satisfiedBy.get(scope)
      if (broaderOnes === undefined || !holdsOneOf(granted, all, broaderOnes)) return false
    }
    return true
  }
}

function holdsOneOf(
  granted: readonly string[],
  all: ReadonlySet<string> | undefined,
  wanted: ReadonlySet<string>,
): boolean {
  if (all === undefined) return granted.some((one) => wanted.has(one))
  for (const one of wanted) if (all.has(one)) return true
  return false
}
