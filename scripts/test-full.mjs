// Runs what takes too long for `npm test`, with the full number of random inputs: the groups package and slow, and test/full; and
// the tests on Node 22 and 24. Those on Node 24 include the group more, and measure the coverage. The Node binaries come from the npm packages node@22 and node@24.
// They are not in package.json, because they would put themselves on PATH. The tests of test/full run several at a time, since
// many of them wait. What fails beside others runs again alone, and fails only if it fails again.
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { stripVTControlCharacters } from 'node:util'
import { runCommand, runSeveral } from './run-commands.mjs'

const MOCHA = 'node_modules/mocha/bin/mocha.js'
const FULL = 'build/test/full/'
/** The tests that take longest. They begin first, so that none of them runs alone at the end. */
const LONGEST = [
  'week',
  'other-runtimes',
  'consumers',
  'every-message',
  'silent-stores',
  'unread-responses',
  'conformance',
].map((name) => `${FULL}${name}.test.js`)
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

/**
 * Runs a command, notes its failure, and returns whether it has passed. Prints its output at once, or at its end if other
 * commands run beside it.
 */
async function run(title, command, args, { besideOthers = false } = {}) {
  const startedMs = performance.now()
  console.log(`\n${title} begins after ${Math.round(startedMs / 1000)} s.`)
  let output = ''
  const { status, signal } = await runCommand(command, args, {
    env: { ...process.env, FULL_RUNS: '1' },
    limitMs: LIMIT_MS,
    onText(text) {
      output += text
      if (!besideOthers) process.stdout.write(text)
    },
  })
  if (besideOthers) console.log(`\n${title}\n${output}`)
  durations.push(`${String(Math.round((performance.now() - startedMs) / 1000)).padStart(5)} s ${title}`)
  if (status === 0) return true
  const text = stripVTControlCharacters(output)
  const failure = FAILING.test(text) ? text.slice(text.search(FAILING)) : text.slice(-2_000)
  failures.push(`${title} failed: ${signal ?? `exit code ${status}`}\n${failure.trimEnd()}`)
  return false
}

/** Runs files of test/full several at a time, and those that fail again alone. */
async function runFiles(files) {
  const before = failures.length
  const failed = []
  await runSeveral(files, availableParallelism() + 1, async (file) => {
    if (!(await run(file, 'node', [...LONG, file], { besideOthers: true }))) failed.push(file)
  })
  for (const failure of failures.splice(before))
    console.log(`\nThis failed beside other tests, and runs again alone:\n${failure}`)
  for (const file of failed) await run(file, 'node', [...LONG, file])
}

const all = readdirSync(FULL)
  .filter((name) => name.endsWith('.test.js'))
  .map((name) => FULL + name)
const files = new Set([...LONGEST, ...all])

await run('The tests package and slow', 'node', [
  'scripts/test.mjs',
  '--again',
  '--group',
  'package',
  '--group',
  'slow',
])
await runFiles(files)
for (const [line, groups, coverage] of [
  ['22', ['code'], []],
  ['24', ['code', 'more'], ['node', 'node_modules/c8/bin/c8.js']],
]) {
  const suite = ['node', 'scripts/test.mjs', '--again', ...groups.flatMap((group) => ['--group', group])]
  const node = ['--yes', '--package', `node@${line}`, '--']
  await run(`The tests ${groups.join(' and ')} on Node ${line}`, 'npx', [...node, ...coverage, ...suite])
}
console.log(`\nDurations:\n${durations.sort().reverse().join('\n')}`)
for (const failure of failures) console.error(`\n${failure}`)
if (failures.length > 0) process.exitCode = 1
