import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { printRatios } from './report.ts'

const run = promisify(execFile)
const program = fileURLToPath(new URL('import-once.js', import.meta.url))
const ROUNDS = 25

/** The imported specifiers by the name in the table. This package is imported from `dist`, as published. */
const SPECIFIERS: Readonly<Record<string, string>> = {
  pino: 'pino',
  'mcp-gatekit/telemetry': 'mcp-gatekit/telemetry',
  winston: 'winston',
  '@modelcontextprotocol/server': '@modelcontextprotocol/server',
  'mcp-gatekit/gate': 'mcp-gatekit/gate',
  'mcp-gatekit': 'mcp-gatekit',
}

/** Returns the time and the CPU time of an import in a separate process, in microseconds. */
async function measureImport(specifier: string): Promise<[time: number, cpu: number]> {
  const { stdout } = await run(process.execPath, [program, specifier])
  return JSON.parse(stdout)
}

/** (h) Measures the duration of imports. The contestants take turns. */
export async function benchImports(): Promise<void> {
  const series = (): Record<string, number[]> =>
    Object.fromEntries(Object.keys(SPECIFIERS).map((name) => [name, []]))
  const [times, cpu] = [series(), series()]
  // The first round warms the file cache.
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, specifier] of Object.entries(SPECIFIERS)) {
      const [time, used] = await measureImport(specifier)
      if (round < 0) continue
      times[name]?.push(time)
      cpu[name]?.push(used)
    }
  }
  printRatios('(h) import, in a fresh process', times, 'pino', 'µs', cpu)
}
