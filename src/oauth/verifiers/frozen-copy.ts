/** Objects, members and characters that one copy may hold. */
const MAX_SIZE = 65_536

/** A copy, and how many objects, members, and characters it holds. */
export interface FrozenCopy<T> {
  readonly copy: T
  readonly size: number
}

/**
 * A deep copy of the plain data that `read` gives, frozen: what one request gets of it, another cannot change. Objects
 * of a class, functions and what else is no plain object or array are taken over as they are. Undefined where the data
 * is too large to be kept, goes round in a circle, or throws when it is read.
 */
export function frozenCopy<T>(read: () => T): FrozenCopy<T> | undefined {
  let left = MAX_SIZE

  const copyOf = (given: unknown): unknown => {
    left -= typeof given === 'string' ? given.length : 1
    if (left < 0) throw new RangeError('too large')
    if (Array.isArray(given)) return Object.freeze(elementsOf(given))
    if (!isPlainObject(given)) return given
    const copy: Record<string, unknown> = Object.getPrototypeOf(given) === null ? Object.create(null) : {}
    for (const key of Object.keys(given)) {
      left -= key.length
      const member = copyOf(given[key])
      if (key === '__proto__') Object.defineProperty(copy, key, { value: member, enumerable: true })
      else copy[key] = member
    }
    return Object.freeze(copy)
  }

  const elementsOf = (given: readonly unknown[]): unknown[] => {
    left -= given.length
    if (left < 0) throw new RangeError('too large')
    return Array.from(given, (element) => copyOf(element))
  }

  try {
    const copy = copyOf(read()) as T
    return { copy, size: MAX_SIZE - left }
  } catch {
    return undefined
  }
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null) return false
  const prototype = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}
