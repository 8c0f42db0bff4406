// What takes too long for `npm test`: the tests of test/full, then the whole suite on the other Node lines
// that are supported. Their binaries come from the npm packages node@22 and node@24, which stay out of
// package.json because they would put themselves on PATH. The soak, which mostly waits, runs beside all that.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'

const MOCHA = 'node_modules/mocha/bin/mocha.js'
const FULL = 'build/test/full/'
const SOAK = 'soak.test.js'
/** What is the same on all lines: the browser, the documentation, and what is packed. */
const OF_ONE_LINE = ['browser/**', 'docs*.test.js', 'api-reference.test.js', 'package.test.js']
/** What mocha says before it says what failed, and how. */
const FAILING = /^ *\d+ failing$/m
const LONG = [MOCHA, '--no-config', '--forbid-only', '--timeout', '1800000']

/** What failed, by what was run. */
const failures = []

/** Runs mocha. A run that fails does not keep the others from being seen; what failed is told again in the end. */
async function run(title, command, args, { isAside = false } = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  process.once('exit', () => child.kill())
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text
    if (!isAside) process.stdout.write(text)
  })
  const [status, signal] = await once(child, 'close')
  if (status !== 0) {
    const text = stripVTControlCharacters(output)
    const told = FAILING.test(text) ? text.slice(text.search(FAILING)) : text.slice(-2_000)
    failures.push(`${title} (${signal ?? `exit code ${status}`})\n${told.trimEnd()}`)
  }
  return output
}

const tests = readdirSync(FULL).filter((name) => name.endsWith('.test.js'))
const soaking = tests.includes(SOAK)
  ? run('The soak', 'node', [...LONG, FULL + SOAK], { isAside: true })
  : undefined
await run('test/full', 'node', [...LONG, ...tests.filter((name) => name !== SOAK).map((name) => FULL + name)])
for (const line of ['22', '24']) {
  console.log(`\nNode ${line}`)
  const ignored = OF_ONE_LINE.flatMap((tests) => ['--ignore', `build/test/${tests}`])
  const mocha = ['node', MOCHA, '--reporter', 'dot', ...ignored]
  await run(`Node ${line}`, 'npx', ['--yes', '--package', `node@${line}`, '--', ...mocha])
}
if (soaking !== undefined) console.log(`\nThe soak\n${await soaking}`)
for (const failure of failures) console.error(`\nFailed: ${failure}`)
if (failures.length > 0) process.exitCode = 1
