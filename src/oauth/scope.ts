import { isScopeToken } from '../base/options/scope-token.ts'

/** The number of comparisons beyond which granted scopes are looked up in a set. */
const MANY_COMPARISONS = 4_096
/** The maximum length of the granted scopes in a challenge. */
const MAX_NAMED = 4_096

/** Returns the scopes that a verifier granted as a list or as one string with spaces. */
export function grantedScopes(scopes: unknown): string[] {
  if (typeof scopes === 'string') return scopes.split(' ').filter((scope) => scope !== '')
  if (!Array.isArray(scopes)) return []
  // A loop, since array methods are slow for the frozen arrays of `cachedVerifier`. The length is that of most results.
  const granted = new Array<string>(scopes.length)
  let count = 0
  for (const scope of scopes) if (typeof scope === 'string') granted[count++] = scope
  if (count < granted.length) granted.length = count
  return granted
}

/**
 * Returns the scopes that a challenge can name: valid ones (RFC 6749 §3.3) except for `offline_access`, and the first 4,096
 * characters of them.
 */
export function namableScopes(scopes: readonly string[]): readonly string[] {
  let left = MAX_NAMED
  return scopes.filter((scope) => {
    if (!isScopeToken(scope) || scope === 'offline_access') return false
    left -= scope.length + 1
    return left >= 0
  })
}

/** Joins lists of scopes in order, each scope once. */
export function unionOfScopes(...lists: readonly (readonly string[])[]): readonly string[] {
  const filled = lists.filter((list) => list.length > 0)
  if (filled.length <= 1) return filled[0] ?? []
  return [...new Set(filled.flat())]
}

/**
 * Decides whether granted scopes satisfy required ones. `implies` is a hierarchy: a broader scope satisfies the narrower
 * ones it names, transitively. Scopes are compared exactly.
 */
export class ScopeHierarchy {
  /** For each implied scope, the scope itself and all scopes that imply it. */
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

  /** Returns `true` if every scope of `required` is granted, directly or through a broader scope. */
  satisfies(granted: readonly string[], required: readonly string[]): boolean {
    // A few scopes are found faster in the list.
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
