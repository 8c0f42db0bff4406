import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import autocannon from 'autocannon'

export interface LoadOptions {
  /** Module whose `contestants` are measured. */
  readonly module: URL
  readonly names: readonly string[]
  /** The request, the same for all contestants. */
  readonly request: Pick<autocannon.Options, 'method' | 'headers' | 'body'>
  readonly path: string
  readonly expectStatus: number
  readonly rounds?: number
  readonly secondsPerRound?: number
  readonly connections?: number
  /** What is taken from a round. Default: requests per second. */
  readonly figure?: (result: autocannon.Result) => number
}

/** What was measured of each contestant, a figure per round. */
export interface LoadFigures {
  /** Requests per second, or what `figure` takes. */
  readonly rounds: Record<string, number[]>
  /** Microseconds of CPU time of the server per request: what a busy machine changes least. */
  readonly cpu: Record<string, number[]>
}

/** Long enough for what is called per request to have been compiled: servers run for days. */
const WARM_UP_SECONDS = 5

/**
 * Requests per second of each contestant, or another figure, one per round. The contestants run in processes of their
 * own and take turns within each round, so that a machine that changes its speed changes it for all.
 */
export async function measureLoad(options: LoadOptions): Promise<LoadFigures> {
  const { names, rounds = 9, secondsPerRound = 1, connections = 50 } = options
  const { figure = ({ requests }: autocannon.Result) => requests.average } = options
  const hosts = await Promise.all(
    names.map(async (name) => [name, ...(await start(options.module, name))] as const),
  )
  const figures: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]))
  const cpu: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]))
  try {
    for (let round = 0; round <= rounds; round++) {
      for (const [name, child, port] of hosts) {
        // The one before may still be busy with what it was asked last.
        await setTimeout(500)
        const usedBefore = await cpuMicros(child)
        const result = await autocannon({
          url: `http://127.0.0.1:${port}${options.path}`,
          connections,
          duration: round === 0 ? WARM_UP_SECONDS : secondsPerRound,
          ...options.request,
        })
        const wrong = result.statusCodeStats?.[`${options.expectStatus}`]?.count !== result.requests.total
        if (wrong || result.errors > 0) throw new Error(`${name}: ${JSON.stringify(result.statusCodeStats)}`)
        // The first round warms up.
        if (round === 0) continue
        figures[name]?.push(figure(result))
        cpu[name]?.push(((await cpuMicros(child)) - usedBefore) / result.requests.total)
      }
    }
  } finally {
    for (const [, child] of hosts) child.disconnect()
  }
  return { rounds: figures, cpu }
}

async function cpuMicros(child: ChildProcess): Promise<number> {
  child.send('cpu')
  const [micros] = (await once(child, 'message')) as [number]
  return micros
}

async function start(module: URL, name: string): Promise<[ChildProcess, number]> {
  const child = fork(new URL('host.js', import.meta.url), [module.href, name])
  const [port] = (await once(child, 'message')) as [number]
  return [child, port]
}
