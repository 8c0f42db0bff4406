// Runs what takes too long for `npm test`, with the full number of random inputs. Two lanes run side by side, because many tests
// wait: test/full, and the groups of scripts/test.mjs: package and slow; then those of npm test on Node 22; then those on Node 24,
// with the group more, which measures the coverage. When test/full has ended, the groups run with as many processes as in npm test. The Node binaries come from the npm packages node@22 and node@24. They are not
// in package.json, because they would put themselves on PATH. What fails runs again with fewer others, and fails only if it fails again.
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { stripVTControlCharacters } from 'node:util'
import { runCommand, runSeveral } from './run-commands.mjs'

const MOCHA = 'node_modules/mocha/bin/mocha.js'
const FULL = 'build/test/full/'
/** The tests that take longest or mostly wait. They begin first, so that none of them runs alone at the end. */
const LONGEST = [
  'week',
  'events-cluster',
  'other-runtimes telemetry-runtimes workers',
  'consumers',
  'bundlers',
  'conformance',
  'clients',
]
/** The line of mocha's output from which on it reports failures. */
const FAILING = /^ *\d+ failing$/m
const REQUIRED = ['--require', './build/test/support/unhandled-rejections.js']
const LONG = [
  MOCHA,
  '--no-config',
  ...REQUIRED,
  '--forbid-only',
  '--exit',
  '--timeout',
  '900000',
  '--reporter',
  'dot',
]

/** The failures, which are printed again at the end. */
const failures = []

/** The durations of the parts, which are printed at the end. */
const durations = []

/** No part takes half as long. One that hangs is killed, so that it is reported. */
const LIMIT_MS = 1_500_000

/** Runs a command, and prints its output at its end. Returns the failure, if it fails. */
async function run(title, command, args, isFull = true) {
  const startedMs = performance.now()
  console.log(`${title} begins after ${Math.round(startedMs / 1000)} s.`)
  let output = ''
  const { status, signal } = await runCommand(command, args, {
    env: { ...process.env, FULL_RUNS: isFull ? '1' : '0' },
    limitMs: LIMIT_MS,
    onText(text) {
      output += text
    },
  })
  console.log(`\n${title}\n${output}`)
  durations.push(`${String(Math.round((performance.now() - startedMs) / 1000)).padStart(5)} s ${title}`)
  if (status === 0) return undefined
  const text = stripVTControlCharacters(output)
  const failure = FAILING.test(text) ? text.slice(text.search(FAILING)) : text.slice(-2_000)
  return `${title} failed: ${signal ?? `exit code ${status}`}\n${failure.trimEnd()}`
}

/** Runs files of test/full, which share a process. */
const runPart = (part) =>
  run(part, 'node', [...LONG, ...part.split(' ').map((name) => `${FULL}${name}.test.js`)])

const listed = new Set(LONGEST.flatMap((part) => part.split(' ')))
const others = readdirSync(FULL)
  .filter((name) => name.endsWith('.test.js'))
  .map((name) => name.replace('.test.js', ''))
  .filter((name) => !listed.has(name))
const failedParts = []

async function runFiles() {
  await runSeveral([...LONGEST, ...others], availableParallelism(), async (part) => {
    const failure = await runPart(part)
    if (failure === undefined) return
    console.log(`\nThis failed beside other tests, and runs again:\n${failure}`)
    failedParts.push(part)
  })
}

let isFullRunning = true

async function runGroup(title, before, groups, isFull) {
  const jobs = availableParallelism() + (isFullRunning ? 1 : 2)
  const options = ['--again', '--jobs', String(jobs)]
  const suite = ['scripts/test.mjs', ...options, ...groups.flatMap((group) => ['--group', group])]
  const [command, ...args] = [...before, 'node', ...suite]
  const failure = await run(title, command, args, isFull)
  if (failure !== undefined) failures.push(failure)
}

async function runGroups() {
  const onNode = (line) => ['npx', '--yes', '--package', `node@${line}`, '--']
  await runGroup('The tests package and slow', [], ['package', 'slow'], true)
  // The properties of these tests get all random inputs on Node 24.
  await runGroup('The tests code on Node 22', onNode(22), ['code'], false)
  const coverage = [...onNode(24), 'node', 'node_modules/c8/bin/c8.js']
  await runGroup('The tests code and more on Node 24', coverage, ['code', 'more'], true)
}

await Promise.all([
  runGroups(),
  runFiles().then(() => {
    isFullRunning = false
  }),
])
for (const part of failedParts) {
  const failure = await runPart(part)
  if (failure !== undefined) failures.push(failure)
}
console.log(`\nDurations:\n${durations.sort().reverse().join('\n')}`)
for (const failure of failures) console.error(`\n${failure}`)
if (failures.length > 0) process.exitCode = 1
