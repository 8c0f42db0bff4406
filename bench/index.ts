import { readFile, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { benchAccessLine } from './access-line.ts'
import { benchBytes } from './bytes.ts'
import { benchCluster } from './cluster.ts'
import { benchEmit } from './emit.ts'
import { confirmedFalls, type Figures, fallsOf, newFiguresOf, type Tables, tableOfFalls } from './figures.ts'
import { benchGate } from './gate.ts'
import { benchImports } from './import.ts'
import { benchOpenApi } from './openapi.ts'
import { benchOtlp } from './otlp.ts'
import { benchProfile } from './profile.ts'
import { takeRatios } from './report.ts'
import { benchSessions } from './sessions.ts'
import { benchStartup } from './startup.ts'
import { benchTmDevLab } from './tmdevlab/index.ts'
import { benchToolsCall } from './tools-call.ts'
import { benchUnderLoad } from './under-load.ts'
import { benchVerifiers } from './verifiers.ts'

/** The sections by name. `npm run bench` runs all of them, `npm run bench -- gate emit` only the named ones. */
const SECTIONS: Readonly<Record<string, () => Promise<void>>> = {
  gate: benchGate,
  verifiers: benchVerifiers,
  'tools-call': benchToolsCall,
  sessions: benchSessions,
  bytes: benchBytes,
  emit: benchEmit,
  'access-line': benchAccessLine,
  openapi: benchOpenApi,
  otlp: benchOtlp,
  imports: benchImports,
  startup: benchStartup,
  cluster: benchCluster,
  tmdevlab: benchTmDevLab,
  'under-load': benchUnderLoad,
  profile: benchProfile,
}

/** The section that is neither compared nor saved, because its ratios depend on the number of cores. */
const NOT_COMPARED = 'cluster'

/** The section that is saved, but not compared: a 99th percentile changes by more than the tolerance from run to run. */
const NOT_CHECKED = 'under-load'

const FIGURES = new URL('../../bench/figures.json', import.meta.url)

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { check: { type: 'boolean', default: false }, save: { type: 'boolean', default: false } },
})
const unknown = positionals.filter((name) => !(name in SECTIONS))
if (unknown.length > 0) {
  throw new Error(
    `Sections must be ${Object.keys(SECTIONS).join(', ')}; received ${unknown.join(', ')}. Correct the name.`,
  )
}
const compares = values.check || values.save
const named = positionals.length === 0 ? Object.keys(SECTIONS) : positionals
const names = named.filter(
  (name) => !(compares && name === NOT_COMPARED) && !(values.check && name === NOT_CHECKED),
)
console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}`)
const measured = await run(names)
if (values.check) await check(measured)
if (values.save) await save(measured)

async function run(names: readonly string[]): Promise<Figures> {
  const figures: Record<string, Tables> = {}
  for (const [name, section] of Object.entries(SECTIONS)) {
    if (!names.includes(name)) continue
    await section()
    figures[name] = takeRatios()
  }
  return figures
}

/** Compares the ratios with the committed ones. Sections with a ratio that fell are measured a second time. */
async function check(measured: Figures): Promise<void> {
  const committed = await readFigures()
  const first = fallsOf(committed, measured)
  const again = [...new Set(first.map(({ section }) => section))]
  if (again.length > 0) console.log(`\nRatios fell in ${again.join(', ')}. They are measured a second time.`)
  const falls = confirmedFalls(first, fallsOf(committed, await run(again)))
  for (const name of newFiguresOf(committed, measured)) console.log(`\nNot committed yet: ${name}`)
  if (falls.length === 0) {
    console.log('\nNo ratio fell by more than 10 % in two runs.')
    return
  }
  console.log(`\nRatios that fell by more than 10 % in two runs:\n\n${tableOfFalls(falls)}`)
  process.exitCode = 1
}

/** Writes the ratios of the measured sections, and keeps those of the others. */
async function save(measured: Figures): Promise<void> {
  const committed = await readFigures()
  const sections = Object.keys(SECTIONS).flatMap((name) => {
    const tables = measured[name] ?? committed[name]
    return tables === undefined ? [] : [[name, tables] as const]
  })
  await writeFile(FIGURES, `${JSON.stringify(Object.fromEntries(sections), null, 2)}\n`)
}

async function readFigures(): Promise<Figures> {
  return JSON.parse(await readFile(FIGURES, 'utf8'))
}
