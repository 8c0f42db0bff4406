// Runs what takes too long for `npm test`: the tests of the package, the slow tests, the tests of test/full, then the whole suite on Node 24 and its
// faster part on Node 22, with the full number of random inputs. The Node binaries come from the npm packages node@22 and node@24. They
// are not in package.json, because they would put themselves on PATH. The soak, which mostly waits, runs alongside.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { stripVTControlCharacters } from 'node:util'

const MOCHA = 'node_modules/mocha/bin/mocha.js'
const FULL = 'build/test/full/'
const SOAK = 'soak.test.js'
/** Tests that run on one line of Node only: of the browser, the documentation, the frameworks, and the package. */
const OF_ONE_LINE = [
  'browser/',
  'docs',
  'evidence',
  'frameworks/',
  'api-reference',
  'package',
  'attacks/regular-expression-list',
  'attacks/regular-expressions',
]
/** The line of mocha's output from which on it reports failures. */
const FAILING = /^ *\d+ failing$/m
const REQUIRED = ['--require', './build/test/support/unhandled-rejections.js']
const LONG = [MOCHA, '--no-config', ...REQUIRED, '--forbid-only', '--exit', '--timeout', '1800000']

/** The failures, which are printed again at the end. */
const failures = []

/** The durations of the parts, which are printed at the end. */
const durations = []

/** Runs mocha, and notes its failure. Prints its output at once, or at the end if it runs in the background. */
async function run(title, command, args, { inBackground = false } = {}) {
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, FULL_RUNS: '1' },
  })
  const startedMs = performance.now()
  if (inBackground) setPriority(child.pid, constants.priority.PRIORITY_BELOW_NORMAL)
  process.once('exit', () => child.kill())
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
    if (!inBackground) process.stdout.write(text)
  })
  const [status, signal] = await once(child, 'close')
  if (inBackground) console.log(`\n${title}\n${output}`)
  durations.push(`${String(Math.round((performance.now() - startedMs) / 1000)).padStart(5)} s ${title}`)
  if (status === 0) return
  const text = stripVTControlCharacters(output)
  const failure = FAILING.test(text) ? text.slice(text.search(FAILING)) : text.slice(-2_000)
  failures.push(`${title} failed: ${signal ?? `exit code ${status}`}\n${failure.trimEnd()}`)
}

const groups = [
  ['The tests of the package', 'package'],
  ['The slow tests', 'slow'],
]
const tests = readdirSync(FULL).filter((name) => name.endsWith('.test.js'))
const soak = run('The soak', 'node', [...LONG, FULL + SOAK], { inBackground: true })
for (const [title, group] of groups) await run(title, 'node', ['scripts/test.mjs', '--group', group])
for (const name of tests) if (name !== SOAK) await run(FULL + name, 'node', [...LONG, FULL + name])
for (const [line, group] of [
  ['22', ['--group', 'code']],
  ['24', []],
]) {
  console.log(`\nNode ${line}`)
  const ignored = OF_ONE_LINE.flatMap((path) => ['--ignore', path])
  const suite = ['node', 'scripts/test.mjs', ...group, '--reporter', 'dot', ...ignored]
  await run(`The suite on Node ${line}`, 'npx', ['--yes', '--package', `node@${line}`, '--', ...suite])
}
await soak
console.log(`\nDurations:\n${durations.sort().reverse().join('\n')}`)
for (const failure of failures) console.error(`\n${failure}`)
if (failures.length > 0) process.exitCode = 1
