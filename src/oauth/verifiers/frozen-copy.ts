import { tryOrUndefined } from '../../base/try-or-undefined.ts'

/** The maximum number of objects, members, and characters of one copy. */
const MAX_SIZE = 65_536

/** A copy, and its number of objects, members, and characters. */
export interface FrozenCopy<T> {
  readonly copy: T
  readonly size: number
}

/**
 * Returns a deep, frozen copy of the plain data that `read` returns, so that requests can share it. Instances of classes,
 * functions, and everything else that is not a plain object or array are not copied. Returns `undefined` if the data is too
 * large, is circular, or throws when it is read.
 */
export function frozenCopy<T>(read: () => T): FrozenCopy<T> | undefined {
  let left = MAX_SIZE

  const copyOf = (value: unknown): unknown => {
    left -= typeof value === 'string' ? value.length : 1
    if (left < 0) throw new RangeError('too large')
    if (Array.isArray(value)) return Object.freeze(elementsOf(value))
    if (!isPlainObject(value)) return value
    const copy: Record<string, unknown> = Object.getPrototypeOf(value) === null ? Object.create(null) : {}
    for (const key of Object.keys(value)) {
      left -= key.length
      const member = copyOf(value[key])
      if (key === '__proto__') Object.defineProperty(copy, key, { value: member, enumerable: true })
      else copy[key] = member
    }
    return Object.freeze(copy)
  }

  const elementsOf = (value: readonly unknown[]): unknown[] => {
    left -= value.length
    if (left < 0) throw new RangeError('too large')
    return Array.from(value, (element) => copyOf(element))
  }

  return tryOrUndefined(() => {
    const copy = copyOf(read()) as T
    return { copy, size: MAX_SIZE - left }
  })
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
