/** Returns the result of `fn`, or `undefined` if it throws. A returned promise is not awaited, and may reject. */
export function tryOrUndefined<T>(fn: () => T): T | undefined {
  try {
    const result = fn()
    if (result instanceof Promise) result.catch(() => undefined)
    return result
  } catch {
    return undefined
  }
}
