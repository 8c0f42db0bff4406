import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'

const mocha = createRequire(import.meta.url).resolve('mocha/bin/mocha.js')
const example = fileURLToPath(new URL('../../examples/testing/greeter.test.js', import.meta.url))

describe('the example testing/greeter.test.ts', () => {
  it('testing/greeter.test.ts passes with mocha', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      mocha,
      '--no-config',
      ...['--reporter', 'json', '--timeout', '10000'],
      example,
    ])
    const { stats } = JSON.parse(stdout)
    expect(stats).to.include({ suites: 1, passes: 7, failures: 0, pending: 0 })
  })
})
