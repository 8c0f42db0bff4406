import { Session } from 'node:inspector'
import { expect } from 'chai'

interface Coverage {
  readonly result: readonly {
    readonly url: string
    readonly functions: readonly { readonly ranges: readonly { readonly count: number }[] }[]
  }[]
}

/** From this CPU time on, the time of native functions counts too. */
const NOTICEABLE_MS = 50

/** How much longer four times the input may take. Linear work takes 4 times as long, quadratic work 16 times. */
const MAX_RATIO = 9

/** Counts from here on: V8 counts only in functions that it compiles after counting has begun. */
const session = process.env.NODE_V8_COVERAGE === undefined ? startCounting() : undefined

function startCounting(): Session {
  const started = new Session()
  started.connect()
  started.post('Profiler.enable')
  started.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  return started
}

function takeCounts(): Coverage {
  // The counters are shared by the whole process, so counting would empty those of c8.
  if (session === undefined) throw new Error('stepsOf() is for *.growth.ts, which run without c8')
  let coverage: Coverage | undefined
  session.post('Profiler.takePreciseCoverage', (error, result) => {
    if (error) throw error
    coverage = result
  })
  return coverage as Coverage
}

/**
 * Counts the steps of each of `works`: how often V8 enters each block of the compiled sources. The count depends on the
 * input alone, not on the speed of the machine. Native functions and regular expressions count as one step each.
 */
function stepsOf(...works: readonly (() => unknown)[]): number[] {
  takeCounts()
  return works.map((work) => {
    work()
    return takeCounts()
      .result.filter(({ url }) => /\/build\/(?:src|cli)\//.test(url))
      .flatMap(({ functions }) => functions.flatMap(({ ranges }) => ranges))
      .reduce((steps, { count }) => steps + count, 0)
  })
}

/** The least CPU time of three runs, in milliseconds. Fewer runs are enough once it is below `unnoticedMs`. */
function cpuMsOf(work: () => unknown, unnoticedMs = 0): number {
  let leastMs = Number.POSITIVE_INFINITY
  for (let run = 0; run < 3 && leastMs >= unnoticedMs; run++) {
    const before = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(before)
    leastMs = Math.min(leastMs, (user + system) / 1000)
  }
  return leastMs
}

/**
 * Expects that the cost of `work` grows no faster than its input. Compares `size` with `4 × size`: the steps always, and
 * the CPU time where it is long enough to be noticed, since the steps do not show what native functions cost.
 * @param work is given the size of the input that it makes and processes. Must be synchronous.
 * @param size choose it so that quadratic work on `4 × size` would be noticed: usually 10 000 and more.
 */
export function expectLinearGrowth(work: (size: number) => unknown, size: number): void {
  // The first call does what is done once.
  work(size)
  const [steps = 0, moreSteps = 0] = stepsOf(
    () => work(size),
    () => work(4 * size),
  )
  expect(moreSteps, `${steps} steps for ${size}, ${moreSteps} for ${4 * size}`).to.be.at.most(
    MAX_RATIO * steps + 1_000,
  )
  // A garbage collection can spoil a measurement, but not several of growing inputs.
  let measured = ''
  for (const from of [size, size, 2 * size]) {
    const longMs = cpuMsOf(() => work(4 * from), NOTICEABLE_MS)
    if (longMs < NOTICEABLE_MS) return
    const shortMs = cpuMsOf(() => work(from))
    if (longMs <= MAX_RATIO * shortMs) return
    measured += ` ${shortMs} ms for ${from}, ${longMs} ms for ${4 * from};`
  }
  expect.fail(`more than linear growth:${measured}`)
}
