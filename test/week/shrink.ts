/** Finds the few faults of a failing run that it needs. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url))
const LAST_LINE = /\{"seed":.*\}\s*$/

/** A run that hangs ends after ten minutes, or after the time of the test that waits for it. */
const OPTIONS = { maxBuffer: 64 * 2 ** 20, timeout: 600_000 }

/** The result of a run in a process of its own. */
export interface RunResult {
  /** The first invariant that failed, or `undefined`. */
  readonly invariant: string | undefined
  /** The number of faults that were drawn from the seed. */
  readonly drawn: number
  readonly digest: string
  readonly output: string
}

/** Runs the world in a process of its own. */
export function runWeek(args: readonly string[]): Promise<RunResult> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...args], OPTIONS, (error, output, errors) => {
      const { drawn = 0, digest = '' } = JSON.parse(LAST_LINE.exec(output)?.[0] ?? '{}')
      const found = /VIOLATION: ([^:]+)/.exec(output)?.[1]
      const invariant = error === null ? undefined : (found ?? 'the program ends')
      resolve({ invariant, drawn, digest, output: output + errors })
    })
  })
}

/** Leaves out as many faults as possible while the same invariant fails. Resolves with the numbers of those that are needed. */
export async function shrink(args: readonly string[], { invariant, drawn }: RunResult): Promise<number[]> {
  let needed = Array.from({ length: drawn }, (_, number) => number)
  for (
    let size = Math.ceil(needed.length / 2);
    size >= 1 && needed.length > 0;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  )
    for (let at = 0; at < needed.length; ) {
      const fewer = needed.toSpliced(at, size)
      const result = await runWeek([...args, '--only', fewer.length === 0 ? ',' : fewer.join(',')])
      if (result.invariant === invariant) needed = fewer
      else at += size
    }
  return needed
}
