import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** The output and the exit code of a process. */
export interface Outcome {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunningExample {
  readonly process: ChildProcess
  /** Resolves with the output when it matches `pattern`. Rejects if the process exits before. */
  said(pattern: RegExp): Promise<string>
  readonly ended: Promise<Outcome>
}

/** Starts a compiled example as a process. */
export function startExample(
  name: string,
  env: Readonly<Record<string, string>> = {},
  args: readonly string[] = [],
): RunningExample {
  const file = fileURLToPath(new URL(`../../../examples/${name}.js`, import.meta.url))
  const child = spawn(process.execPath, [file, ...args], {
    // Examples import the package from `dist`, which has no coverage.
    env: { ...process.env, NODE_V8_COVERAGE: undefined, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.stderr += text
  })
  const ended = once(child, 'close').then(([exitCode]): Outcome => ({ exitCode, ...output }))

  return {
    process: child,
    ended,
    async said(pattern) {
      while (!pattern.test(output.stdout)) {
        const over = await Promise.race([
          once(child.stdout, 'data').then(() => false),
          ended.then(() => true),
        ])
        if (over && !pattern.test(output.stdout)) {
          throw new Error(`${name} ended without saying ${pattern}:\n${output.stdout}${output.stderr}`)
        }
      }
      return output.stdout
    },
  }
}
