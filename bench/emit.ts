import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { type Contestant, caller, gatekit } from './emit-event.ts'
import type { MemoryFigures } from './emit-memory.ts'
import { PEERS } from './emit-peers.ts'
import { median, recordRatio } from './report.ts'

const ROUNDS = 9
const MS_PER_ROUND = 300
const BATCH = 500

/** The names of this package in the table of peers. */
const OBJECT = 'mcp-gatekit, an envelope to a no-op transport'
const LINE = 'mcp-gatekit, a line of JSON by LoggerTransportAdapter'

/** The end of the name of a peer that produces a line of JSON. The others produce an object. */
const FORM_OF_LINE = 'a line of JSON'

/** (c) Measures an event from `emit` to a transport, sink, or exporter that does nothing. */
export async function benchEmit(): Promise<void> {
  await benchPeers()
  await benchShapes(
    'emit, where it is called and whether it is sampled',
    'by the session itself',
    {
      'by the session itself': {},
      'by the manager, in a run': { runs: 1 },
      'by the manager, in nested runs': { runs: 2 },
      'without attributes': { attributes: 'none' },
      'sampled out, attributes built by the caller': { infoRate: 0 },
      'sampled out, attributes as a function': { infoRate: 0, attributes: 'lazy' },
    },
    { 'no emit: the attributes alone, built by the caller': caller },
  )
  await benchShapes('emit, as its configuration grows', '1 transport, 1 denied key', {
    '1 transport, 1 denied key': {},
    '100 denied keys': { denied: 100 },
    '1 glob': { globs: 1 },
    '100 globs': { globs: 100 },
    '4 transports': { transports: 4 },
    '10 registered events, all emitted': { registered: 10 },
    '1 000 registered events, all emitted': { registered: 1_000 },
    '10 000 registered events, all emitted': { registered: 10_000 },
  })
  await benchShapes('emit, with withAttributes and withTraceContext, to a line of JSON', 'without', {
    without: { json: true },
    'with both, in a span': { json: true, common: true },
  })
  await benchShapes('emit, patterns within strings', '12 attributes of a request', {
    '12 attributes of a request': { attributes: 'request' },
    '12 attributes of a request, with COMMON_SECRET_PATTERNS': { attributes: 'request', patterns: true },
  })
  printMemory()
}

async function benchPeers(): Promise<void> {
  const contestants: Record<string, Contestant> = {}
  const absent: string[] = []
  for (const [name, make] of Object.entries(PEERS)) {
    try {
      contestants[name] = await make()
    } catch {
      absent.push(name)
    }
  }
  contestants[LINE] = gatekit({ json: true })
  contestants[OBJECT] = gatekit()
  const figures = await alternate(contestants)
  const line = figures[LINE] as number[]
  const object = figures[OBJECT] as number[]
  console.log('\n### (c) emit, with redaction\n')
  console.log(
    '| contestant | events/s | µs each | × the time of the line of mcp-gatekit | × the time of the envelope of mcp-gatekit |',
  )
  console.log('|---|---|---|---|---|')
  for (const [name, each] of Object.entries(figures)) {
    const own = name.endsWith(FORM_OF_LINE) ? LINE : OBJECT
    if (name in PEERS)
      recordRatio(
        '(c) emit, with redaction',
        `${own}, relative to ${name}`,
        ratio(each, figures[own] as number[]),
      )
    console.log(
      `| ${name} | ${perSecond(each)} | ${micros(each)} | ${ratio(each, line).toFixed(2)} | ${ratio(each, object).toFixed(2)} |`,
    )
  }
  if (absent.length > 0) console.log(`\nNot installed and therefore skipped: ${absent.join('; ')}.`)
}

async function benchShapes(
  title: string,
  baseline: string,
  shapes: Record<string, Parameters<typeof gatekit>[0]>,
  others: Record<string, Contestant> = {},
): Promise<void> {
  const contestants: Record<string, Contestant> = { ...others }
  for (const [name, shape] of Object.entries(shapes)) contestants[name] = gatekit(shape)
  const figures = await alternate(contestants)
  console.log(`\n### (c) ${title}\n`)
  console.log(`| mcp-gatekit | µs each | × "${baseline}" |\n|---|---|---|`)
  for (const [name, each] of Object.entries(figures)) {
    if (name in shapes && name !== baseline)
      recordRatio(`(c) ${title}`, name, ratio(figures[baseline] as number[], each))
    console.log(`| ${name} | ${micros(each)} | ${ratio(each, figures[baseline] as number[]).toFixed(2)} |`)
  }
}

/** Returns the microseconds per event of each contestant, one figure per round. The first round only warms up. */
async function alternate(contestants: Record<string, Contestant>): Promise<Record<string, number[]>> {
  const figures: Record<string, number[]> = {}
  for (const name of Object.keys(contestants)) figures[name] = []
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, contestant] of Object.entries(contestants)) {
      const loop = () => microsEach(contestant)
      const each = await (contestant.around === undefined ? loop() : contestant.around(loop))
      if (round > 0) figures[name]?.push(each)
    }
  }
  return figures
}

async function microsEach({ emit, settle }: Contestant): Promise<number> {
  const start = performance.now()
  let done = 0
  while (performance.now() - start < MS_PER_ROUND) {
    for (let index = 0; index < BATCH; index++) emit()
    done += BATCH
    if (settle !== undefined) await settle()
  }
  const each = ((performance.now() - start) * 1000) / done
  // Other work that is pending runs now.
  await new Promise((resolve) => setImmediate(resolve))
  return each
}

function printMemory(): void {
  console.log('\n### (c) emit, memory per event\n')
  console.log('| | bytes allocated | bytes kept after a collection |\n|---|---|---|')
  let callers = 0
  for (const [shape, name] of [
    ['caller', 'the attributes alone, built by the caller'],
    ['object', OBJECT],
    ['json', LINE],
    ['sampledOut', 'mcp-gatekit, sampled out'],
  ] as const) {
    const { allocated, kept } = memoryOf(shape)
    if (shape === 'caller') callers = allocated
    else recordRatio('(c) emit, memory per event', name, callers / allocated)
    console.log(`| ${name} | ${Math.round(allocated).toLocaleString('en')} | ${kept.toFixed(1)} |`)
  }
}

function memoryOf(shape: string): MemoryFigures {
  const program = fileURLToPath(new URL('emit-memory.js', import.meta.url))
  const flags = ['--expose-gc', '--min-semi-space-size=256', '--max-semi-space-size=256']
  return JSON.parse(
    execFileSync(process.execPath, [...flags, program, 'measure', shape], { encoding: 'utf8' }),
  )
}

const perSecond = (each: readonly number[]): string => Math.round(1e6 / median(each)).toLocaleString('en')

const micros = (each: readonly number[]): string => {
  const value = median(each)
  return value.toFixed(value < 0.1 ? 3 : 2)
}

/** Returns the median of the ratios of `each` to `baseline`, round by round. */
const ratio = (each: readonly number[], baseline: readonly number[]): number =>
  median(each.map((value, round) => value / (baseline[round] as number)))
