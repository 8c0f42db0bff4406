import { setLongTimeout } from '../../timers.ts'

/**
 * Runs `work` with a deadline, which aborts after `ms` milliseconds. `work` must then end. Never rejects. The promise keeps the
 * process alive only while it is awaited. An application that ends with `await telemetry.shutdown()` continues after it, and an
 * application that does not await it can exit.
 */
export function withDeadline(ms: number, work: (deadline: AbortSignal) => Promise<unknown>): Promise<void> {
  const deadline = new AbortController()
  const timer = setLongTimeout(() => deadline.abort(), ms)
  const clear = () => timer.clear()
  const promise = work(deadline.signal).then(clear, clear)
  const then = (...handlers: Parameters<typeof promise.then>) => {
    timer.ref()
    return Promise.prototype.then.apply(promise, handlers)
  }
  // `await` calls `then` only if the constructor of the promise is not `Promise`.
  // biome-ignore lint/suspicious/noThenProperty: the promise needs it
  return Object.defineProperties(promise, { constructor: { value: undefined }, then: { value: then } })
}
