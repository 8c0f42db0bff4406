/** Returns the outcome of `work`. Rejects with the reason of `signal` if that aborts first, even if `work` never settles. */
export function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
    if (signal.aborted) abort()
  })
}

/**
 * Returns a signal that aborts like `signal`, or with a `TimeoutError` after `ms`. In Node 20, a garbage collection removes the
 * time limit of `AbortSignal.any([signal, AbortSignal.timeout(ms)])`.
 */
export function abortedWithin(ms: number, signal: AbortSignal): AbortSignal {
  const either = new AbortController()
  for (const source of [AbortSignal.timeout(ms), signal]) {
    if (source.aborted) either.abort(source.reason)
    source.addEventListener('abort', () => either.abort(source.reason), { once: true, signal: either.signal })
  }
  return either.signal
}
