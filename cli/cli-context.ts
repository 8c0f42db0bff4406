/** The part of a writable stream that the commands use. */
export interface Output {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

/** The streams and the environment of a command. */
export interface CliContext {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Returns `true` if a stream is a terminal that shows colors and the user has not disabled them (no-color.org). */
export function showsColors({ isTTY }: Output, { NO_COLOR, TERM }: CliContext['env']): boolean {
  return isTTY === true && (NO_COLOR === undefined || NO_COLOR === '') && TERM !== 'dumb'
}
