import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { evidencePage } from './support/evidence/page.ts'
import { STATUSES } from './support/evidence/requirement.ts'
import { SOURCES } from './support/evidence/sources.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const rows = SOURCES.flatMap((source) => source.rows)
const proofs = rows.flatMap(({ test }) => (test === undefined ? [] : [test]))

/** Returns the titles of the tests in some files, which mocha lists without running them. */
function titlesIn(files: readonly string[]): ReadonlySet<string> {
  const built = files.map((file) => `build/${file.replace(/\.ts$/, '.js')}`)
  const setup = './build/test/support/unhandled-rejections.js'
  const options = ['--no-config', '--dry-run', '--exit', '--reporter', 'json', '--require', setup]
  const output = execFileSync(process.execPath, ['node_modules/mocha/bin/mocha.js', ...options, ...built], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  // Tests can print lines when they are loaded.
  const { tests } = JSON.parse(output.slice(output.indexOf('{\n  "stats"'))) as {
    readonly tests: readonly { readonly file: string; readonly title: string }[]
  }
  return new Set(tests.map(({ file, title }) => `${file.slice(root.length + 'build/'.length)}: ${title}`))
}

describe('docs/guides/evidence.md', () => {
  it('the page is the one that npm run evidence generates', () => {
    expect(readFileSync(`${root}docs/guides/evidence.md`, 'utf8')).to.equal(evidencePage())
  })

  it('each requirement has an ID of its own, a section, and a sentence on how it is met', () => {
    const ids = rows.map(({ id }) => id)
    expect(new Set(ids).size).to.equal(ids.length)
    for (const { id, section, requirement, status, how } of rows) {
      expect(section, id).not.to.equal('')
      expect(requirement, id).to.match(/\S$/)
      expect(STATUSES, id).to.include(status)
      expect(how, id).to.match(/\.$/)
    }
  })

  it('each requirement that is met has a test, and names the option if it needs one', () => {
    for (const { id, status, how, test } of rows) {
      if (status === 'implemented' || status === 'by option') expect(test, id).not.to.equal(undefined)
      if (status === 'by option') expect(how, id).to.match(/`[^`]+`/)
      if (status === 'delegated')
        expect(how, id).to.match(
          /\b(?:client|clients|operator|application|host|proxy|authorization server|intermediar\w+)\b/i,
        )
    }
  })

  it('each named test is in a file that npm run test:only runs, and has this title', function () {
    this.timeout(60_000)
    const files = [...new Set(proofs.map(([file]) => file))]
    for (const file of files) {
      expect(existsSync(root + file), file).to.equal(true)
      expect(file).to.match(/^test\/(?!full\/)/)
    }
    const titles = titlesIn(files)
    const missing = proofs.map(([file, title]) => `${file.replace(/\.ts$/, '.js')}: ${title}`)
    expect(missing.filter((proof) => !titles.has(proof))).to.deep.equal([])
  })
})
