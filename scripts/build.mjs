// Compiles the package and its bundles into dist, and everything with its tests into build. The two do not need each other.
// usage: node scripts/build.mjs
import { spawn } from 'node:child_process'
import { once } from 'node:events'

const TSC = 'node_modules/typescript/bin/tsc'

/** Runs the commands one after the other. Ends the process if one fails. */
async function run(...commands) {
  for (const args of commands) {
    const [status] = await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'close')
    if (status !== 0) process.exit(1)
  }
}

await run(['scripts/clean.mjs'])
await Promise.all([
  // The other command checks the types of the same files.
  run([TSC, '-p', 'tsconfig.build.json', '--noCheck'], ['scripts/bundle.mjs']),
  run([TSC, '-p', 'tsconfig.json', '--checkers', '2']),
])
