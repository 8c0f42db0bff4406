// What takes too long for `npm test`: the tests of test/full, then the whole suite on the other Node lines
// that are supported. Their binaries come from the npm packages node@22 and node@24, which stay out of
// package.json because they would put themselves on PATH. The soak, which mostly waits, runs beside all that.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'

const MOCHA = 'node_modules/mocha/bin/mocha.js'
const FULL = 'build/test/full/'
const SOAK = 'soak.test.js'
/** What is the same on all lines: the browser, the documentation, and what is packed. */
const OF_ONE_LINE = ['browser/**', 'docs*.test.js', 'api-reference.test.js', 'package.test.js']
const LONG = [MOCHA, '--no-config', '--forbid-only', '--timeout', '1800000']

/** Runs a command. One that fails does not keep the others from being seen. */
async function run(command, args) {
  const [status] = await once(spawn(command, args, { stdio: 'inherit' }), 'close')
  if (status !== 0) process.exitCode = status ?? 1
}

/** Runs a command whose output is shown when it has ended. */
async function runAside(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  process.once('exit', () => child.kill())
  const [status] = await once(child, 'close')
  return { status, output }
}

const tests = readdirSync(FULL).filter((name) => name.endsWith('.test.js'))
const soaking = tests.includes(SOAK) ? runAside('node', [...LONG, FULL + SOAK]) : undefined
await run('node', [...LONG, ...tests.filter((name) => name !== SOAK).map((name) => FULL + name)])
for (const line of ['22', '24']) {
  console.log(`\nNode ${line}`)
  const ignored = OF_ONE_LINE.flatMap((tests) => ['--ignore', `build/test/${tests}`])
  const mocha = ['node', MOCHA, '--reporter', 'dot', ...ignored]
  await run('npx', ['--yes', '--package', `node@${line}`, '--', ...mocha])
}
if (soaking !== undefined) {
  console.log('\nThe soak')
  const { status, output } = await soaking
  console.log(output)
  if (status !== 0) process.exitCode = status ?? 1
}
