import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { CHECKS } from '../../cli/doctor/checks.ts'
import { CLIENT_IDS, profileOf, quirkOf } from '../../cli/doctor/clients.ts'
import { CLIENT_NAMES } from '../../src/base/client-names.ts'

const page = readFileSync(new URL('../../../docs/guides/clients.md', import.meta.url), 'utf8')
const checks = CHECKS.map(({ id }) => id)
const names = CLIENT_IDS.map((id) => profileOf(id).name)

/** The rules that the page explains. */
const RULES = [
  ...['hosted', 'compares', 'strict', 'final', 'guesses server', 'guesses issuer', 'dynamic only'],
  ...['needs metadata', 'needs PKCE', 'needs none', 'also at path', 'also at path or root'],
]

/** Returns the cells of each row of the table below a heading. */
function rowsOf(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const lines = section.split('\n').filter((line) => line.startsWith('| '))
  return lines.slice(1).map((line) => line.slice(2, -2).split(' | '))
}

describe('docs/guides/clients.md', () => {
  for (const id of CLIENT_IDS)
    it(`the page has a section for ${id}, and a profile that is based on a dated source`, () => {
      const { name, source, requests, requestAfterSignIn, metadataHeaders, ...profile } = profileOf(id)
      expect(page).to.contain(`\n## ${name}\n`)
      const overview = rowsOf('Overview').find(([cell]) => cell?.startsWith(`[${name}]`))
      expect(overview?.[2]).to.equal(CLIENT_NAMES[id].map((one) => `\`${one}\``).join(', '))
      const row = rowsOf('Discovery').find((cells) => cells.at(-1) === `\`${id}\``)
      expect(row?.at(-2)).to.match(/> as of 202[56]-\d\d-\d\d\./)
      expect(new URL(source).protocol).to.equal('https:')
      for (const { method, message, userAgent } of [...requests, requestAfterSignIn ?? []].flat())
        expect([method === 'POST', userAgent]).to.deep.equal([message !== undefined, userAgent || 'one'])
      expect(Object.values(metadataHeaders)).to.have.length.within(2, 3).and.not.to.include('')
      expect(profile.places).to.include('root')
      expect(profile.issuerForms[0]).to.equal('oauth-inserted')
      for (const rule of row?.at(-3)?.replaceAll('`', '').split(', ') ?? []) expect(RULES).to.include(rule)
    })
})

describe('the table of known problems of clients', () => {
  const rows = rowsOf('Known problems')

  for (const [clients = '', problem = '', remedy, , check = '', seen = '', id = ''] of rows) {
    it(`the problem ${id} has clients, https sources, a date, and an existing check`, () => {
      const { affected, source } = quirkOf(id.replaceAll('`', ''))
      expect(affected.join(', ')).to.equal(clients).and.not.to.equal('')
      const sources = [...problem.matchAll(/\[\d+\]\(([^)]*)\)/g)].map(([, url]) => url as string)
      expect(sources[0]).to.equal(source)
      for (const url of sources) expect(new URL(url)).to.include({ protocol: 'https:', href: url })
      expect(new Date(seen).toISOString()).to.match(new RegExp(`^${seen}T`))
      if (check !== '') expect(checks).to.include(/`(.*)`/.exec(check)?.[1])
      expect(remedy).to.match(/\.$/)
    })
  }

  it('every problem has another ID, and every client has a problem', () => {
    expect(new Set(rows.map((row) => row.at(-1))).size).to.equal(rows.length)
    expect(rows.flatMap(([clients]) => clients?.split(', '))).to.include.members(names)
  })
})
