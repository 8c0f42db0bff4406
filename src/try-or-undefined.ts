/** What `fn` returns; nothing where it throws. A promise of it is not waited for, and may reject. */
export function tryOrUndefined<T>(fn: () => T): T | undefined {
  try {
    const result = fn()
    if (result instanceof Promise) result.catch(() => undefined)
    return result
  } catch {
    return undefined
  }
}
