import { requiredModule } from './runtime.ts'

/**
 * Makes signals end the process. The first signal calls `end` and then ends the process. The second one ends it at once, with
 * the usual exit code.
 * @param end must not reject
 * @param lingerMs the time that the process may take to end by itself after `end`, before it is ended
 * @returns a function that stops handling the signals
 */
export function endOnSignals(
  signals: readonly NodeJS.Signals[],
  end: () => Promise<unknown>,
  lingerMs: number,
): () => void {
  let asked = false
  const onSignal = (signal: NodeJS.Signals): void => {
    // The second signal does not wait for the end that the first one has begun.
    if (asked) process.exit(128 + requiredModule('node:os').constants.signals[signal])
    asked = true
    void end().then(() => {
      process.exitCode ??= 0
      // Other open handles of the application do not keep the process alive.
      setTimeout(() => process.exit(), lingerMs).unref()
    })
  }
  for (const signal of signals) process.on(signal, onSignal)
  return () => {
    for (const signal of signals) process.off(signal, onSignal)
  }
}
