import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { expect } from 'chai'

const SCRIPT = new URL('../../scripts/run-commands.mjs', import.meta.url).href

/** A shell program that prints the id of a process that it leaves behind, which keeps its output open. */
const leaving = (rest: string) => `sleep 120 & echo $!; ${rest}`

/** Starts a process that runs a shell program by `runCommand`, and prints the output of the program and its status. */
function start(program: string, options = '') {
  const code = `import { runCommand } from ${JSON.stringify(SCRIPT)}
const onText = (text) => process.stdout.write(text)
const options = { env: process.env, onText, ${options} }
console.log(JSON.stringify(await runCommand('sh', ['-c', ${JSON.stringify(program)}], options)))`
  return spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
}

/** Returns whether a process runs. One that was killed is a zombie until its parent asks for its status. */
function isAlive(pid: number): boolean {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' })
  return stdout !== '' && !stdout.startsWith('Z')
}

describe('runCommand()', () => {
  const ENDS: readonly (readonly [what: string, rest: string, options: string, status: object])[] = [
    ['a command that leaves a process behind', 'exit 3', '', { status: 3, signal: null }],
    ['a command that exceeds its limit', 'wait', 'limitMs: 1_000', { status: null, signal: 'SIGKILL' }],
  ]
  for (const [what, rest, options, status] of ENDS) {
    it(`${what} ends, and its process is killed`, async () => {
      const lines = (await text(start(leaving(rest), options).stdout)).trim().split('\n')
      expect(JSON.parse(lines[1] as string)).to.deep.equal(status)
      expect(isAlive(Number(lines[0]))).to.equal(false)
    })
  }

  it('a signal to the process that runs a command ends the command and its processes', async () => {
    const runner = start(leaving('wait'))
    const [printed] = await once(runner.stdout, 'data')
    const exited = once(runner, 'exit')
    runner.kill('SIGINT')
    expect(await exited).to.deep.equal([1, null])
    while (isAlive(Number(printed))) await new Promise((resolve) => setTimeout(resolve, 10))
  })
})
