// Runs what takes too long for `npm test`: the tests of the package, the slow tests, the tests of test/full, then the tests of
// `npm test` on Node 22 and 24, with the full number of random inputs and with coverage. The Node binaries come from the npm
// packages node@22 and node@24. They are not in package.json, because they would put themselves on PATH. The tests of test/full
// run several at a time, since many of them wait. The soak, which mostly waits, runs beside everything.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { availableParallelism, constants, setPriority } from 'node:os'
import { stripVTControlCharacters } from 'node:util'

const MOCHA = 'node_modules/mocha/bin/mocha.js'
const FULL = 'build/test/full/'
const SOAK = `${FULL}soak.test.js`
/** The tests that take longest. They begin first, so that none of them runs alone at the end. */
const LONGEST = [
  'week',
  'other-runtimes',
  'consumers',
  'every-message',
  'silent-stores',
  'unread-responses',
  'conformance',
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

/** Runs a command, and notes its failure. Prints its output at once, or at its end if other commands run beside it. */
async function run(title, command, args, { besideOthers = false } = {}) {
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, FULL_RUNS: '1' },
  })
  const startedMs = performance.now()
  console.log(`\n${title} begins after ${Math.round(startedMs / 1000)} s.`)
  if (title === SOAK) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL)
  process.once('exit', () => child.kill())
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
    if (!besideOthers) process.stdout.write(text)
  })
  const [status, signal] = await once(child, 'close')
  if (besideOthers) console.log(`\n${title}\n${output}`)
  durations.push(`${String(Math.round((performance.now() - startedMs) / 1000)).padStart(5)} s ${title}`)
  if (status === 0) return
  const text = stripVTControlCharacters(output)
  const failure = FAILING.test(text) ? text.slice(text.search(FAILING)) : text.slice(-2_000)
  failures.push(`${title} failed: ${signal ?? `exit code ${status}`}\n${failure.trimEnd()}`)
}

/** Runs a file of test/full beside others. */
function runFile(file) {
  return run(file, 'node', [...LONG, file], { besideOthers: true })
}

/** Returns the position of a file in the order of their beginning. */
function positionOf(file) {
  const position = LONGEST.findIndex((name) => file === `${FULL}${name}.test.js`)
  return position === -1 ? LONGEST.length : position
}

const files = readdirSync(FULL)
  .filter((name) => name.endsWith('.test.js'))
  .map((name) => FULL + name)
  .filter((file) => file !== SOAK)
  .sort((one, other) => positionOf(one) - positionOf(other))

async function work() {
  for (let file = files.shift(); file !== undefined; file = files.shift()) await runFile(file)
}

const soak = runFile(SOAK)
for (const groups of [['package'], ['more', 'slow']]) {
  const options = groups.flatMap((group) => ['--group', group])
  await run(`The tests ${groups.join(' and ')}`, 'node', ['scripts/test.mjs', ...options])
}
await Promise.all(Array.from({ length: availableParallelism() + 1 }, work))
for (const [line, coverage] of [
  ['22', []],
  ['24', ['node', 'node_modules/c8/bin/c8.js']],
]) {
  const suite = ['node', 'scripts/test.mjs', '--group', 'code', '--group', 'more']
  await run(`The tests on Node ${line}`, 'npx', [
    '--yes',
    '--package',
    `node@${line}`,
    '--',
    ...coverage,
    ...suite,
  ])
}
await soak
console.log(`\nDurations:\n${durations.sort().reverse().join('\n')}`)
for (const failure of failures) console.error(`\n${failure}`)
if (failures.length > 0) process.exitCode = 1
