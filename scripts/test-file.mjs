// Compiles what has changed, and runs test files.
// usage: npm run test:file -- test/oauth/gate.test.ts [... other options of mocha, such as -g 'part of a title']
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

const { timeout } = JSON.parse(readFileSync('.mocharc.json', 'utf8'))
const args = process.argv.slice(2)
if (!args.some((arg) => existsSync(arg) && arg.endsWith('.test.ts'))) {
  console.error('Name a test file: npm run test:file -- test/oauth/gate.test.ts')
  process.exit(1)
}

/** Runs a command, and ends the process if it fails. */
function run(...command) {
  const { status } = spawnSync(process.execPath, command, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

run('node_modules/typescript/bin/tsc', '-p', 'tsconfig.json', '--checkers', '2')
run(
  'node_modules/mocha/bin/mocha.js',
  '--no-config',
  '--require',
  './build/test/support/unhandled-rejections.js',
  '--exit',
  '--timeout',
  String(timeout),
  ...args.map((arg) =>
    arg.endsWith('.test.ts') ? `build/${arg.replace(/^\.\//, '').replace(/ts$/, 'js')}` : arg,
  ),
)
