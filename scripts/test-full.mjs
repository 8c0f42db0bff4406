// What takes too long for `npm test`: the whole suite on the other Node lines that are supported.
// Their binaries come from the npm packages node@22 and node@24, which stay out of package.json
// because they would put themselves on PATH.
import { spawnSync } from 'node:child_process'

for (const line of ['22', '24']) {
  console.log(`\nNode ${line}`)
  const run = spawnSync(
    'npx',
    [
      '--yes',
      '--package',
      `node@${line}`,
      '--',
      'node',
      'node_modules/mocha/bin/mocha.js',
      '--reporter',
      'dot',
    ],
    { stdio: 'inherit' },
  )
  if (run.status !== 0) process.exit(run.status ?? 1)
}
