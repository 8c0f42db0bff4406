/**
 * Returns a function for a value that is fetched when it is first needed, and again when it is old. The old one is used in the
 * meantime, and while it cannot be fetched; without one, the promise rejects. At most one fetch is in progress.
 * @param freshMs the time after which the value is fetched again
 * @param pauseMs the time between a failure and the next attempt
 * @param now returns a monotonic time in milliseconds
 */
export function refreshed<Value>(
  fetch: () => Promise<Value>,
  freshMs: number,
  pauseMs = 0,
  now: () => number = () => performance.now(),
): () => Promise<Value> {
  let known: { readonly value: Value } | undefined
  let latest: Promise<Value> | undefined
  let nextAtMs = Number.NEGATIVE_INFINITY

  async function attempt(): Promise<Value> {
    let waitMs = pauseMs
    nextAtMs = Number.POSITIVE_INFINITY
    try {
      const value = await fetch()
      known = { value }
      waitMs = freshMs
      return value
    } finally {
      nextAtMs = now() + waitMs
    }
  }

  return async () => {
    if (latest === undefined || now() >= nextAtMs) {
      latest = attempt()
      // An old value is returned without it.
      latest.catch(() => undefined)
    }
    return known === undefined ? await latest : known.value
  }
}
