/** The time after which it is looked again whether all lines were written, in milliseconds. */
const AGAIN_MS = 100

let watched: readonly NodeJS.WriteStream[] = []
let errors = 0

/**
 * Keeps a closed stdout or stderr from ending the process because of the lines that are written now. Must be called before
 * they are written. The listeners are removed when the lines are written.
 */
export function watchStandardStreams(): void {
  if (watched.length > 0) return
  const { process } = globalThis as { process?: Partial<NodeJS.Process> }
  try {
    watched = [process?.stdout, process?.stderr].filter(
      (stream) => typeof stream?.on === 'function',
    ) as typeof watched
    for (const stream of watched) stream.on('error', countError)
    if (watched.length > 0) setImmediate(release)
  } catch {
    // A runtime without these streams.
  }
}

/** The number of errors of the streams while they were watched. */
export function standardStreamErrors(): number {
  return errors
}

/** Resolves to `true` if a line that was just written has arrived, and to `false` if a stream had an error. */
export function wasWritten(): Promise<boolean> {
  const before = errors
  return new Promise((resolve) => setImmediate(() => resolve(errors === before)))
}

function countError(): void {
  errors++
}

function release(): void {
  if (watched.some(({ writableLength }) => writableLength > 0)) {
    setTimeout(release, AGAIN_MS).unref()
    return
  }
  for (const stream of watched) stream.off('error', countError)
  watched = []
}
