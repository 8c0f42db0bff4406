// Compiles the package and its bundles into dist, and everything with its tests into build. The two do not need each other.
// With KEEP_BUILD=true, as .ci/run sets it, what has not changed since the last build is not built again, because several of its
// commands begin with a build. Nothing else may write into build in between.
// usage: node scripts/build.mjs
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const TSC = 'node_modules/typescript/bin/tsc'
const INPUTS = ['src', 'cli', 'test', 'examples', 'bench', 'template', 'scripts']
const CONFIGURATION = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json']
/** The hash of what the last build was made of. */
const STAMP = 'build/.inputs'

function hashOfInputs() {
  const hash = createHash('sha256')
  const files = INPUTS.flatMap((folder) =>
    readdirSync(folder, { recursive: true }).map((name) => join(folder, name)),
  )
  for (const file of [...files, ...CONFIGURATION].sort())
    if (statSync(file).isFile()) hash.update(`${file}\n`).update(readFileSync(file))
  return hash.digest('hex')
}

/** Runs the commands one after the other. Ends the process if one fails. */
async function run(...commands) {
  for (const args of commands) {
    const [status] = await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'close')
    if (status !== 0) process.exit(1)
  }
}

const inputs = hashOfInputs()
const isBuilt = existsSync('dist') && existsSync(STAMP) && readFileSync(STAMP, 'utf8') === inputs
if (process.env.KEEP_BUILD === 'true' && isBuilt) process.exit()
await run(['scripts/clean.mjs'])
await Promise.all([
  // The other command checks the types of the same files.
  run([TSC, '-p', 'tsconfig.build.json', '--noCheck'], ['scripts/bundle.mjs']),
  run([TSC, '-p', 'tsconfig.json', '--checkers', '2']),
])
writeFileSync(STAMP, inputs)
