import type { EventOutcome } from '../../delivery/transport.ts'

/** Returns the outcome that `take` receives, as a promise. */
export function promisedOutcome(take: (outcome: EventOutcome) => void): Promise<void> {
  const promise = new Promise<void>((delivered, failed) => take({ delivered, failed }))
  // A caller may ignore the outcome. An ignored rejection must not be an error of the process.
  promise.catch(() => {})
  return promise
}
