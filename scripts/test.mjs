// Runs the tests of `npm test` in several mocha processes at a time, since most of them wait for sockets and processes.
// usage: node scripts/test.mjs [--reporter <name>] [--ignore <path within test> ...]
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs, stripVTControlCharacters } from 'node:util'

const MOCHA = 'node_modules/mocha/bin/mocha.js'

/** Files that take several seconds. Each has a process of its own, and they start first, the slowest at the top. */
const SLOW = [
  'attacks/growth',
  'attacks/sessions',
  'attacks/regular-expressions',
  'attacks/bodies',
  'api-reference',
  'browser/console',
  'package',
  'docs',
  'attacks/otlp',
  'attacks/observation',
  'attacks/resources/telemetry',
  'attacks/resources/doctor',
  'attacks/chats',
  'attacks/dpop',
  'attacks/cli',
  'attacks/gate',
  'attacks/slow-readers',
  'mcp/concurrency',
  'openapi/real-documents',
  'mcp/robustness',
  'mcp/operations/odd-handlers',
  'mcp/every-message',
  'cli/dev/dev-command',
  'cli/faults-of-protection',
  'server-shutdown/graceful-shutdown',
  'telemetry/transports/otlp/otlp-process',
].map((name) => `build/test/${name}.test.js`)

/** How many of the other files share a process. */
const FILES_PER_PROCESS = 8

const { values } = parseArgs({
  options: {
    reporter: { type: 'string', default: 'spec' },
    ignore: { type: 'string', multiple: true, default: [] },
  },
})
const { timeout } = JSON.parse(readFileSync('.mocharc.json', 'utf8'))
const ignored = ['full/', ...values.ignore]
const files = readdirSync('build/test', { recursive: true })
  .filter((file) => file.endsWith('.test.js') && !ignored.some((path) => file.startsWith(path)))
  .map((file) => `build/test/${file}`)
const slow = SLOW.filter((file) => files.includes(file))
const others = files.filter((file) => !slow.includes(file)).sort()
const batches = slow.map((file) => [file])
for (let at = 0; at < others.length; at += FILES_PER_PROCESS)
  batches.push(others.slice(at, at + FILES_PER_PROCESS))

const totals = { passing: 0, failing: 0, pending: 0 }
const failures = []

/** Runs mocha once, and prints its output when it has ended. */
function run(batch) {
  const options = [
    '--no-config',
    '--forbid-only',
    '--timeout',
    String(timeout),
    '--reporter',
    values.reporter,
  ]
  const child = spawn(process.execPath, [MOCHA, ...options, ...batch], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  return new Promise((resolve) => {
    child.once('close', (status, signal) => {
      process.stdout.write(output)
      const text = stripVTControlCharacters(output)
      const summary = text.slice(
        Math.max(text.search(/^ {2}\d+ passing \([^)]*\)\n(?: {2}\d+ (?:pending|failing)\n)*\n/m), 0),
      )
      for (const kind of Object.keys(totals)) {
        const counts = [...text.matchAll(new RegExp(`^ {2}(\\d+) ${kind}\\b`, 'gm'))]
        totals[kind] += Number(counts.at(-1)?.[1] ?? 0)
      }
      if (status !== 0)
        failures.push(`${batch.join(' ')} (${signal ?? `exit code ${status}`})\n${summary.slice(-8_000)}`)
      resolve()
    })
  })
}

async function work() {
  for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) await run(batch)
}

const started = performance.now()
await Promise.all(Array.from({ length: availableParallelism() + 1 }, work))
for (const failure of failures) console.error(`\n${failure}`)
console.log(`\nAll tests took ${Math.round((performance.now() - started) / 1000)} s.`)
console.log(`${totals.passing} passed, ${totals.failing} failed, ${totals.pending} skipped`)
if (failures.length > 0) process.exitCode = 1
