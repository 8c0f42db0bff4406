import { inspect } from 'node:util'
import { isRecord } from '../base/options/value-kinds.ts'

/** A difference at one place of a value. */
export interface Mismatch {
  /** The path, such as `attributes.lines[0].cents`, or `''` for the value itself. */
  readonly path: string
  readonly expected: string
  readonly actual: string
}

/**
 * Compares `value` with a pattern. Objects may have more members than the pattern; arrays must have the same length. A member that
 * is `undefined` in the pattern must be absent or `undefined`. In the pattern, a `RegExp` stands for a string that it matches,
 * and a function for a value for which it returns `true`.
 * @returns every place where they differ, or an empty list if they match
 */
export function mismatches(pattern: unknown, value: unknown, path = ''): Mismatch[] {
  const differ = (): Mismatch[] => [{ path, expected: shown(pattern), actual: shown(value) }]
  if (typeof pattern === 'function') return pattern(value) === true ? [] : differ()
  // A copy, because a RegExp with the flag g keeps its position.
  if (pattern instanceof RegExp)
    return typeof value === 'string' && new RegExp(pattern).test(value) ? [] : differ()
  if (Array.isArray(pattern)) {
    if (!Array.isArray(value) || value.length !== pattern.length) return differ()
    return pattern.flatMap((item, index) => mismatches(item, value[index], `${path}[${index}]`))
  }
  if (isRecord(pattern)) {
    if (!isRecord(value)) return differ()
    return Object.keys(pattern).flatMap((key) => {
      const member = Object.hasOwn(value, key) ? value[key] : undefined
      return mismatches(pattern[key], member, path === '' ? key : `${path}.${key}`)
    })
  }
  return Object.is(pattern, value) ? [] : differ()
}

/** Formats a value for people. */
export function shown(value: unknown, compact = true): string {
  const lines = compact
    ? { breakLength: Number.POSITIVE_INFINITY, compact }
    : { breakLength: 100, compact: 3 }
  return inspect(value, { depth: 10, maxStringLength: 1000, maxArrayLength: 50, ...lines })
}
