/** Returns `true` for an object, including an array, but not for `null` and functions. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** Returns `true` for an object that is not an array. `null` and functions are not objects here. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !Array.isArray(value)
}

/** Returns `true` for a promise, and for an object or a function with a method `then`. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  if (!isObject(value) && typeof value !== 'function') return false
  return value instanceof Promise || typeof (value as { then?: unknown }).then === 'function'
}
