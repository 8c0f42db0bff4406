import { Writable } from 'node:stream'

/** The output of a process that is reserved for the protocol. */
export interface ClaimedStdout {
  /** Writes to the real output. */
  readonly output: Writable
  /** Ends the reservation. */
  release(): void
}

/**
 * Reserves `process.stdout` for the protocol. Everything else that the program writes to it, such as with `console.log`, goes to
 * `process.stderr`.
 */
export function claimStdout(): ClaimedStdout {
  const { stdout, stderr } = process
  const { write } = stdout
  const redirected: typeof write = stderr.write.bind(stderr)
  stdout.write = redirected
  // The client may close its end of the pipe. `output` reports that.
  const ignore = (): void => undefined
  stdout.on('error', ignore)
  const output = new Writable({
    decodeStrings: false,
    write: (chunk: string, _encoding, done) => {
      write.call(stdout, chunk, 'utf8', done)
    },
  })
  return {
    output,
    release() {
      // Something else may have replaced the function since.
      if (stdout.write === redirected) stdout.write = write
    },
  }
}
