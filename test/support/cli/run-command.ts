import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { run } from '../../../cli/run.ts'
import { expectNoSecret } from '../expect-no-secret.ts'

/** Runs a command in this process. */
export async function runCommand(argv: readonly string[], { env = {}, isTTY = false } = {}) {
  const said = { stdout: '', stderr: '' }
  const stream = (name: 'stdout' | 'stderr') => ({
    isTTY,
    write: (text: string) => {
      said[name] += text
    },
  })
  const exitCode = await run(argv, { stdout: stream('stdout'), stderr: stream('stderr'), env })
  return { exitCode, ...said }
}

/** Runs the compiled program as a process that reads `input`. */
export async function runProgram(argv: readonly string[], env: NodeJS.ProcessEnv = {}, input = '') {
  const file = fileURLToPath(new URL('../../../cli/main.js', import.meta.url))
  const child = spawn(process.execPath, [file, ...argv], { env: { ...process.env, ...env } })
  child.stdin.end(input)
  const [stdout, stderr, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { exitCode: exitCode as number, stdout, stderr }
}

/** Tests that a command explains in one line, without a value that can be a secret, why its arguments after a prefix are invalid. */
export function itRejects(
  prefix: readonly string[],
  rows: readonly (readonly [argv: readonly string[], complaint: string])[],
  env: Readonly<Record<string, string>> = {},
): void {
  const secrets = ['hunter2', ...Object.values(env).filter((value) => value !== '')]
  for (const [argv, complaint] of rows)
    it(`exits with 2 and explains in one line why "${[...prefix, ...argv].join(' ')}" is invalid`, async () => {
      const { exitCode, stdout, stderr } = await runCommand([...prefix, ...argv], { env })
      expect({ exitCode, stdout }).to.deep.equal({ exitCode: 2, stdout: '' })
      expect(stderr)
        .to.match(/^mcp-gatekit: [^\n]+\n$/)
        .and.contain(complaint)
      expectNoSecret(stderr, secrets)
    })
}
