// Runs the tests that take too long for `npm test`: those of test/full, then the whole suite on the other supported
// versions of Node. Their binaries come from the npm packages node@22 and node@24, which are not in package.json because
// npm would add them to PATH. The soak test, which mostly waits, runs at the same time.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'

const MOCHA = 'node_modules/mocha/bin/mocha.js'
const FULL = 'build/test/full/'
const SOAK = 'soak.test.js'
/** Tests whose result does not depend on the version of Node: the browser, the documentation, the sources, and the package. */
const OF_ONE_LINE = ['browser/', 'docs', 'api-reference', 'package', 'attacks/regular-expressions']
/** The line before mocha's list of failures. */
const FAILING = /^ *\d+ failing$/m
const LONG = [MOCHA, '--no-config', '--forbid-only', '--timeout', '1800000']

/** The failures, and the tests that failed once, for the end of the output. */
const reports = []

/**
 * Runs mocha. These tests use real servers, processes, and clocks, while the soak test uses a part of the machine.
 * Therefore a run that fails is repeated once. The end of the output contains the failure in either case.
 */
async function run(title, command, args) {
  const first = await mocha(command, args)
  if (first.failure === undefined) return
  const second = await mocha(command, args)
  if (second.failure === undefined)
    reports.push(`${title} failed once and passed when it ran again: ${first.failure}`)
  else fail(title, second.failure)
}

async function mocha(command, args, { isAside = false } = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  process.once('exit', () => child.kill())
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
    if (!isAside) process.stdout.write(text)
  })
  const [status, signal] = await once(child, 'close')
  if (status === 0) return { output }
  const text = stripVTControlCharacters(output)
  const failure = FAILING.test(text) ? text.slice(text.search(FAILING)) : text.slice(-2_000)
  return { output, failure: `${signal ?? `exit code ${status}`}\n${failure.trimEnd()}` }
}

function fail(title, failure) {
  reports.push(`${title} failed: ${failure}`)
  process.exitCode = 1
}

const tests = readdirSync(FULL).filter((name) => name.endsWith('.test.js'))
const soaking = tests.includes(SOAK) ? mocha('node', [...LONG, FULL + SOAK], { isAside: true }) : undefined
for (const name of tests) if (name !== SOAK) await run(FULL + name, 'node', [...LONG, FULL + name])
for (const line of ['22', '24']) {
  console.log(`\nNode ${line}`)
  const ignored = OF_ONE_LINE.flatMap((path) => ['--ignore', path])
  const suite = ['node', 'scripts/test.mjs', '--reporter', 'dot', ...ignored]
  await run(`The suite on Node ${line}`, 'npx', ['--yes', '--package', `node@${line}`, '--', ...suite])
}
if (soaking !== undefined) {
  const { output, failure } = await soaking
  console.log(`\nThe soak\n${output}`)
  if (failure !== undefined) fail('The soak', failure)
}
for (const text of reports) console.error(`\n${text}`)
