import { Session } from 'node:inspector'
import { expect } from 'chai'

interface Coverage {
  readonly result: readonly {
    readonly url: string
    readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[]
  }[]
}

/** Below this CPU time, only the steps count. Above it, the CPU time counts too, including that of native functions. */
export const NOTICEABLE_MS = 50

/** The largest allowed factor for an input of four times the size. Linear work has a factor of 4, quadratic work of 16. */
const MAX_RATIO = 9

/**
 * The sizes at which the CPU time must grow too fast, as multiples of the first one. The first input that is too large for the young
 * generation takes much longer, because the garbage collector copies it. That looks like quadratic work, but only at one size.
 */
const MEASURED_AT = [1, 2, 4] as const

/** A CPU time that such a garbage collection does not take. Larger inputs are not measured. */
const CERTAIN_MS = 10_000

/** Starts when this module loads, because V8 counts only in functions that it compiles after that. */
const session = process.env.NODE_V8_COVERAGE === undefined ? startCounting() : undefined

function startCounting(): Session {
  const started = new Session()
  started.connect()
  started.post('Profiler.enable')
  started.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  return started
}

function takeCounts(): Coverage {
  // The process has only one set of counters, so counting would reset those of c8.
  if (session === undefined) throw new Error('stepsOf() is for *.growth.ts, which run without c8')
  let coverage: Coverage | undefined
  session.post('Profiler.takePreciseCoverage', (error, result) => {
    if (error) throw error
    coverage = result
  })
  return coverage as Coverage
}

/** The cost of work that ran once. */
interface Cost {
  /**
   * How often V8 entered each block of the compiled sources. The count depends only on the input, not on the speed of the
   * machine. Native functions and regular expressions count as one step each.
   */
  readonly steps: number
  readonly cpuMs: number
}

/** Runs `work` and returns its cost. The last call of `takeCounts` must have reset the counters. */
function costOf(work: () => unknown): Cost {
  const cpuMs = cpuMsOf(work)
  const steps = takeCounts()
    .result.filter(({ url }) => /\/build\/(?:src|cli)\//.test(url))
    .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
    .reduce((sum, { count }) => sum + count, 0)
  return { steps, cpuMs }
}

/** Returns the CPU time of one run, in milliseconds. */
function cpuMsOf(work: () => unknown): number {
  const before = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000
}

/** Returns the shortest CPU time of three runs, in milliseconds. Stops as soon as a run is below `unnoticedMs`. */
export function shortestCpuMsOf(work: () => unknown, unnoticedMs = 0): number {
  let leastMs = Number.POSITIVE_INFINITY
  for (let run = 0; run < 3 && leastMs >= unnoticedMs; run++) leastMs = Math.min(leastMs, cpuMsOf(work))
  return leastMs
}

/**
 * Expects that the cost of `work` does not grow faster than its input. Compares `size` with `4 × size`: always the steps,
 * and also the CPU time if it is long enough, because steps do not measure native functions.
 * @param work Creates and processes an input of the given size, synchronously.
 * @param size The size at which quadratic work on `4 × size` would be noticed, usually 10 000 or more.
 */
export function expectLinearGrowth(work: (size: number) => unknown, size: number): void {
  // The first call does the work that is done only once.
  work(size)
  takeCounts()
  const { steps } = costOf(() => work(size))
  const { steps: moreSteps, cpuMs } = costOf(() => work(4 * size))
  expect(moreSteps, `${steps} steps for ${size}, ${moreSteps} for ${4 * size}`).to.be.at.most(
    MAX_RATIO * steps + 1_000,
  )
  if (cpuMs < NOTICEABLE_MS) return
  let measured = ''
  let largestMs = 0
  for (const from of MEASURED_AT.map((factor) => factor * size)) {
    const longMs = shortestCpuMsOf(() => work(4 * from), NOTICEABLE_MS)
    // A larger input that takes far less time was rejected early. It does not refute the smaller ones.
    if (from > size && longMs < largestMs / 2) break
    if (longMs < NOTICEABLE_MS) return
    const shortMs = shortestCpuMsOf(() => work(from))
    if (longMs <= MAX_RATIO * shortMs) return
    measured += ` ${shortMs} ms for ${from}, ${longMs} ms for ${4 * from};`
    largestMs = Math.max(largestMs, longMs)
    if (longMs > CERTAIN_MS) break
  }
  expect.fail(`more than linear growth:${measured}`)
}
