/** The command line cannot be followed. Its message is one line, and never quotes a value that could be a secret. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}
