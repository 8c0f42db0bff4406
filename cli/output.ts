/** As much of a stream as is written to. */
export interface Output {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

/** What a command has around it. */
export interface CliContext {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Whether colours may be written: a terminal that can show them, and nobody who does not want any (no-color.org). */
export function showsColours({ isTTY }: Output, { NO_COLOR, TERM }: CliContext['env']): boolean {
  return isTTY === true && (NO_COLOR === undefined || NO_COLOR === '') && TERM !== 'dumb'
}
