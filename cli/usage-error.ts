/** An invalid command line. The message is one line and contains no value that can be a secret. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
