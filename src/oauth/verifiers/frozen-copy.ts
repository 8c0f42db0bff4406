import { isOptionsObject } from '../../base/options/option-checks.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'

/** The maximum number of objects, members, and characters of one copy. */
const MAX_SIZE = 65_536

/**
 * Returns a deep, frozen copy of the plain data that `read` returns, so that requests can share it, and its number of objects, members,
 * and characters. Instances of classes,
 * functions, and everything else that is not a plain object or array are not copied. Returns `undefined` if the data is too
 * large, is circular, or throws when it is read.
 */
export function frozenCopy<T>(read: () => T): { readonly copy: T; readonly size: number } | undefined {
  let left = MAX_SIZE
  const spend = (size: number): void => {
    left -= size
    if (left < 0) throw new RangeError('too large')
  }

  const copyOf = (value: unknown): unknown => {
    spend(typeof value === 'string' ? value.length : 1)
    if (Array.isArray(value)) {
      spend(value.length)
      return Object.freeze(Array.from(value, copyOf))
    }
    if (!isOptionsObject(value)) return value
    const copy: object = Object.getPrototypeOf(value) === null ? Object.create(null) : {}
    for (const key of Object.keys(value)) {
      spend(key.length)
      // An assignment to `__proto__` would set the prototype.
      Object.defineProperty(copy, key, { value: copyOf(value[key as never]), enumerable: true })
    }
    return Object.freeze(copy)
  }

  return tryOrUndefined(() => {
    const copy = copyOf(read()) as T
    return { copy, size: MAX_SIZE - left }
  })
}
