import { attributes, type Contestant, gatekit } from './emit-event.ts'

const WARM_UP = 20_000
const MEASURED = 40_000

/** The configurations whose memory is measured, by name. */
const SHAPES: Readonly<Record<string, () => Contestant>> = {
  caller: () => ({ emit: () => void attributes() }),
  object: () => gatekit(),
  json: () => gatekit({ json: true }),
  sampledOut: () => gatekit({ infoRate: 0 }),
}

/** The bytes that one event allocates, and those that remain after a garbage collection. */
export interface MemoryFigures {
  readonly allocated: number
  readonly kept: number
}

/**
 * A program that prints the figures of one configuration. It requires `--expose-gc`, and a young generation that is large
 * enough for everything that is allocated, so that no garbage collection runs during the measurement.
 */
if (process.argv[2] === 'measure') {
  const contestant = SHAPES[process.argv[3] as string]?.() as Contestant
  const collect = globalThis.gc as () => void
  for (let index = 0; index < WARM_UP; index++) contestant.emit()
  collect()
  const before = process.memoryUsage().heapUsed
  for (let index = 0; index < MEASURED; index++) contestant.emit()
  const after = process.memoryUsage().heapUsed
  collect()
  const figures: MemoryFigures = {
    allocated: (after - before) / MEASURED,
    kept: (process.memoryUsage().heapUsed - before) / MEASURED,
  }
  console.log(JSON.stringify(figures))
}
