import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const FOLDER = new URL('growth/', import.meta.url)
const MOCHA = fileURLToPath(new URL('../../../node_modules/mocha/bin/mocha.js', import.meta.url))

describe('growth of work', () => {
  // Each file runs in a separate process, because counting steps resets the counters of c8.
  for (const name of readdirSync(FOLDER).filter((file) => file.endsWith('.growth.js'))) {
    it(`the work in ${name.replace('.growth.js', '')} grows linearly with the input`, async function () {
      this.timeout(120_000)
      const env = { ...process.env, NODE_V8_COVERAGE: undefined }
      const file = fileURLToPath(new URL(name, FOLDER))
      const options = [MOCHA, '--no-config', '--timeout', '30000', file]
      const run = promisify(execFile)(process.execPath, options, { env })
      const { stdout } = await run.catch((error) => {
        throw new Error(error.stdout)
      })
      console.log(stdout)
    })
  }
})
