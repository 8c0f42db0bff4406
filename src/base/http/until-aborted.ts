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
 * Returns a controller that aborts like `signal`, or with a `TimeoutError` after `ms`. Abort it at the end of the work, so that it
 * frees its listeners. In Node 20, a garbage collection removes the time limit of `AbortSignal.any([signal, AbortSignal.timeout(ms)])`.
 */
export function abortedWithin(ms: number, ...signals: readonly AbortSignal[]): AbortController {
  const either = new AbortController()
  for (const source of [AbortSignal.timeout(ms), ...signals]) {
    if (source.aborted) either.abort(source.reason)
    source.addEventListener('abort', () => either.abort(source.reason), { once: true, signal: either.signal })
  }
  return either
}
