import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

const FOLDER = new URL('growth/', import.meta.url)
const MOCHA = fileURLToPath(new URL('../../../node_modules/mocha/bin/mocha.js', import.meta.url))

/** The options of Node.js for the measurements. The young generation is so large that it takes the garbage of most inputs. */
const MEASURING = ['--min-semi-space-size=64', '--max-semi-space-size=64']

/** The part of the report of mocha in JSON that the tests read. */
interface Report {
  readonly tests: readonly {
    readonly file: string
    readonly fullTitle: string
    readonly err: { readonly stack?: string }
  }[]
}

describe('growth of work', () => {
  const names = readdirSync(FOLDER).filter((file) => file.endsWith('.growth.js'))
  let report: Report

  // The files run in a process of their own, because counting steps resets the counters of c8.
  before(async function () {
    this.timeout(600_000)
    const files = names.map((name) => fileURLToPath(new URL(name, FOLDER)))
    const options = ['--no-config', '--timeout', '120000', '--reporter', 'json']
    const child = spawn(process.execPath, [...MEASURING, MOCHA, ...options, ...files], {
      env: { ...process.env, NODE_V8_COVERAGE: undefined },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    process.once('exit', () => child.kill())
    const [output] = await Promise.all([text(child.stdout), once(child, 'close')])
    report = JSON.parse(output)
  })

  for (const name of names) {
    it(`the work in ${name.replace('.growth.js', '')} grows linearly with the input`, () => {
      const tests = report.tests.filter(({ file }) => file.endsWith(`/${name}`))
      expect(tests).not.to.deep.equal([])
      for (const { fullTitle, err } of tests) expect(err.stack, fullTitle).to.equal(undefined)
    })
  }
})
