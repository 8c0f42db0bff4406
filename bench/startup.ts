import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { printRatios } from './report.ts'

const run = promisify(execFile)
const program = fileURLToPath(new URL('startup-once.js', import.meta.url))
const ROUNDS = 25

/** The time from the start of a process to the end of its first response, and its CPU time, in microseconds. */
export type FirstResponse = readonly [time: number, cpu: number]

/** (l) Measures the time from the start of a server's process to its first response. The contestants take turns. */
export async function benchStartup(): Promise<void> {
  await benchFirst('401', ['SDK requireBearerAuth', 'mcp-gatekit/gate'])
  await benchFirst('401', ['SDK', 'mcp-gatekit'])
  await benchFirst('tools/call', ['SDK', 'mcp-gatekit'])
}

async function benchFirst(wanted: string, names: readonly [string, ...string[]]): Promise<void> {
  const series = (): Record<string, number[]> => Object.fromEntries(names.map((name) => [name, []]))
  const [times, cpu] = [series(), series()]
  // The first round warms the file cache.
  for (let round = -1; round < ROUNDS; round++) {
    for (const name of names) {
      const { stdout } = await run(process.execPath, [program, name, wanted])
      const [time, used]: FirstResponse = JSON.parse(stdout)
      if (round < 0) continue
      times[name]?.push(time)
      cpu[name]?.push(used)
    }
  }
  printRatios(`(l) process start to the first ${wanted}, ${names[0]}`, times, names[0], 'µs', cpu)
}
