import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** The process groups that run. */
const groups = new Set()

function killGroup(pid, signal) {
  try {
    process.kill(-pid, signal)
  } catch {
    // All its processes have ended.
  }
}

// The commands of this process end with it. They get a signal that they can handle, to end their own commands.
process.once('exit', () => {
  for (const pid of groups) killGroup(pid, 'SIGTERM')
})
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

/**
 * Runs a command, and resolves with its status when it has ended. Kills the processes that it leaves behind, such as the
 * servers of a test that took too long, which would keep the output open.
 * @param command - the program, such as `node`.
 * @param args - its arguments.
 * @param options - `env`; `limitMs`, after which it is killed (default: never); and `onText`, which gets its standard
 * output and error.
 */
export async function runCommand(command, args, { env, limitMs, onText }) {
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
    detached: true,
    timeout: limitMs,
    killSignal: 'SIGKILL',
  })
  const { pid } = child
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', onText)
  const closed = once(child, 'close')
  const exited = once(child, 'exit')
  groups.add(pid)
  const [status, signal] = await exited
  groups.delete(pid)
  killGroup(pid, 'SIGKILL')
  await closed
  return { status, signal }
}

/** Calls `run` with each item, in their order, for `count` items at a time. */
export async function runSeveral(items, count, run) {
  const waiting = [...items]
  const work = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await run(item)
  }
  await Promise.all(Array.from({ length: count }, work))
}
