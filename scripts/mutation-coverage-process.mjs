// Runs test files in one process, and records what each of them executes. scripts/mutation-coverage.mjs starts it.
// usage: node scripts/mutation-coverage-process.mjs <folder of the reports> <test file> ...
// The folder then has a report of the time before the tests, in `load`, and a folder of reports for each file, named 0, 1, …
import { mkdirSync, writeFileSync } from 'node:fs'
import { Session } from 'node:inspector'
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import Mocha from 'mocha'

/** Tests may replace the clock. */
const now = performance.now.bind(performance)
const [folder, ...tests] = process.argv.slice(2)
const files = tests.map((test) => resolve(test))
const root = pathToFileURL(resolve('build')).href
const session = new Session()
let current = { name: 'load', startedMs: now(), passed: true }

function send(method, params) {
  let result
  // A session of the same thread calls back before it returns.
  session.post(method, params, (error, found) => {
    if (error !== null) throw new Error(error.message)
    result = found
  })
  return result
}

/** Writes what has been executed since the last call. */
function endPart() {
  const { name, startedMs, passed } = current
  const result = send('Profiler.takePreciseCoverage').result.filter(({ url }) => url.startsWith(`${root}/`))
  writeFileSync(join(folder, name, 'own.json'), JSON.stringify({ result }))
  writeFileSync(
    join(folder, name, 'summary.txt'),
    JSON.stringify({ passed, ms: Math.round(now() - startedMs) }),
  )
}

function beginPart(name) {
  mkdirSync(join(folder, name))
  // Child processes and workers write their reports there.
  process.env.NODE_V8_COVERAGE = join(folder, name)
  current = { name, startedMs: now(), passed: true }
}

session.connect()
send('Profiler.enable')
send('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
beginPart('load')
const mocha = new Mocha({ reporter: 'min', timeout: 20_000 })
for (const file of files) mocha.addFile(file)
await mocha.loadFilesAsync()
let latest
const runner = mocha.run(() => {
  endPart()
  process.exit(0)
})
runner.on('suite', ({ root: isRoot, parent, file }) => {
  if (isRoot || !parent.root || file === latest) return
  endPart()
  latest = file
  beginPart(String(files.indexOf(file)))
})
runner.on('fail', () => {
  current.passed = false
})
