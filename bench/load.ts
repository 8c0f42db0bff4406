import { setTimeout } from 'node:timers/promises'
import autocannon from 'autocannon'
import { startHost } from './started-host.ts'

export interface LoadOptions {
  /** The module that exports the `contestants`. */
  readonly module: URL
  readonly names: readonly string[]
  /** The request, the same for all contestants. */
  readonly request: Pick<autocannon.Options, 'method' | 'headers' | 'body'>
  readonly path: string
  /** Prepares the server of a contestant, and returns options that only its load needs. */
  readonly setup?: (name: string, port: number) => Promise<Pick<autocannon.Options, 'setupClient'>>
  readonly expectStatus: number
  readonly rounds?: number
  readonly secondsPerRound?: number
  readonly connections?: number
  /** Reads the figure of a round from its result. Defaults to requests per second. */
  readonly figure?: (result: autocannon.Result) => number
}

/** The measurements of each contestant, one figure per round. */
export interface LoadFigures {
  /** Requests per second, or the result of `figure`. */
  readonly rounds: Record<string, number[]>
  /** Microseconds of CPU time of the server per request. Other load on the machine changes this figure least. */
  readonly cpu: Record<string, number[]>
}

/** The warm-up takes long enough for the engine to compile the code of a request, as in a server that runs for days. */
const WARM_UP_SECONDS = 5

/**
 * Measures requests per second of each contestant, or another figure. Each contestant runs in a separate process. They
 * take turns within each round, so that changes in the speed of the machine affect all of them.
 */
export async function measureLoad(options: LoadOptions): Promise<LoadFigures> {
  const { names, rounds = 9, secondsPerRound = 1, connections = 50 } = options
  const { figure = ({ requests }: autocannon.Result) => requests.average } = options
  const hosts = await Promise.all(
    names.map(async (name) => {
      const host = await startHost(options.module, name)
      return [name, host, await options.setup?.(name, host.port)] as const
    }),
  )
  const figures: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]))
  const cpu: Record<string, number[]> = Object.fromEntries(names.map((name) => [name, []]))
  try {
    for (let round = 0; round <= rounds; round++) {
      for (const [name, host, own] of hosts) {
        // The previous contestant may still be busy with its last requests.
        await setTimeout(500)
        const usedBefore = await host.ask('cpu')
        const result = await autocannon({
          url: `http://127.0.0.1:${host.port}${options.path}`,
          connections,
          duration: round === 0 ? WARM_UP_SECONDS : secondsPerRound,
          ...options.request,
          ...own,
        })
        const wrong = result.statusCodeStats?.[`${options.expectStatus}`]?.count !== result.requests.total
        if (wrong || result.errors > 0) throw new Error(`${name}: ${JSON.stringify(result.statusCodeStats)}`)
        // The first round warms up.
        if (round === 0) continue
        figures[name]?.push(figure(result))
        cpu[name]?.push(((await host.ask('cpu')) - usedBefore) / result.requests.total)
      }
    }
  } finally {
    for (const [, host] of hosts) host.stop()
  }
  return { rounds: figures, cpu }
}
