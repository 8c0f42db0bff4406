/**
 * Settles like `promise`, or rejects with the error of `late` if it does not settle in time. The timer keeps the process
 * alive until then.
 * @param promise may be any thenable, also one that throws
 */
export function within<T>(promise: PromiseLike<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    const settled = Promise.resolve(promise)
    const clear = (): void => clearTimeout(timer)
    // Cleared before the caller continues, so that a next call finds no timer.
    settled.then(clear, clear)
    settled.then(resolve, reject)
  })
}
