/**
 * Settles like `promise`, or rejects with the error of `late` if it does not settle in time. The timer keeps the process
 * alive until then.
 * @param promise may be any thenable, also one that throws
 */
export function within<T>(promise: PromiseLike<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), ms)
    Promise.resolve(promise)
      .then(resolve, reject)
      .finally(() => clearTimeout(timer))
  })
}
