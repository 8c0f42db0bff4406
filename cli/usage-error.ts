/** An invalid command line. The message is one line and contains no value that can be a secret. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError'
  /** The exit code of the program. */
  readonly exitCode: number = 2
}

/** A valid command line whose command has failed, such as a file that cannot be written. */
export class CommandFailure extends UsageError {
  override readonly name = 'CommandFailure'
  override readonly exitCode = 1
}
