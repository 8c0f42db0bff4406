const { then } = Promise.prototype

/** Returns the result of `fn`, or `undefined` if it throws. A returned promise is not awaited, and may reject. */
export function tryOrUndefined<T>(fn: () => T): T | undefined {
  try {
    const result = fn()
    // `result.catch()` would await it: promises of telemetry keep the process alive while they are awaited.
    if (result instanceof Promise) then.call(result, undefined, () => undefined)
    return result
  } catch {
    return undefined
  }
}
