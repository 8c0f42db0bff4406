// What takes too long for `npm test`: the tests of test/full, then the whole suite on the other Node lines
// that are supported. Their binaries come from the npm packages node@22 and node@24, which stay out of
// package.json because they would put themselves on PATH.
import { spawnSync } from 'node:child_process'

const MOCHA = 'node_modules/mocha/bin/mocha.js'

function run(command, args) {
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

run('node', [MOCHA, '--no-config', '--forbid-only', '--timeout', '600000', 'build/test/full/**/*.test.js'])

for (const line of ['22', '24']) {
  console.log(`\nNode ${line}`)
  run('npx', ['--yes', '--package', `node@${line}`, '--', 'node', MOCHA, '--reporter', 'dot'])
}
