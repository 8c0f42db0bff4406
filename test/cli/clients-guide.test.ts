import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { CLIENT_IDS, type EndpointRequest, PROFILES } from '../../cli/clients/profiles.ts'
import { quirkOf } from '../../cli/clients/quirks.ts'
import { CHECKS } from '../../cli/doctor/checks.ts'
import { CLIENT_NAMES } from '../../src/base/client-names.ts'

const page = readFileSync(new URL('../../../docs/guides/clients.md', import.meta.url), 'utf8')
const checks = CHECKS.map(({ id }) => id)
const names = CLIENT_IDS.map((id) => PROFILES[id].name)

/** Returns the cells of each row of the table below a heading. */
function rowsOf(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const lines = section.split('\n').filter((line) => line.startsWith('| '))
  return lines.slice(1).map((line) => line.slice(2, -2).split(' | '))
}

const requestText = ({ method, message, userAgent }: EndpointRequest): string =>
  `${method}${message === undefined ? '' : ` \`${message}\``} as \`${userAgent}\``

describe('docs/guides/clients.md', () => {
  for (const id of CLIENT_IDS) {
    const client = PROFILES[id]
    const { name, requests, requestAfterSignIn: later } = client

    it(`the page has a section for ${id} with the command for doctor`, () => {
      expect(page.split(`\n## ${name}\n`)[1]?.split('\n## ')[0]).to.contain(`\`doctor --as ${id}\``)
    })

    it(`the page says which names ${id} has, and which requests doctor replays`, () => {
      const overview = rowsOf('Overview').find(([cell]) => cell?.startsWith(`[${name}]`))
      expect(overview?.[2]).to.equal(CLIENT_NAMES[id].map((one) => `\`${one}\``).join(', '))
      const row = rowsOf('Discovery').find(([cell]) => cell === name)
      const isFinal = client.places.includes('challenge') && !client.searchesOn
      expect(row?.slice(1, -1)).to.deep.equal([
        requests.map(requestText).join(', ') || 'nothing',
        later === undefined ? '' : requestText(later),
        `${client.places.join(', ')}${isFinal ? ' (with a challenge, only its URL)' : ''}`,
        client.resource,
        client.issuerForms.join(', '),
        client.scopes.join(', '),
      ])
      expect(row?.at(-1))
        .to.match(/> as of 202[56]-\d\d-\d\d\./)
        .and.to.contain(`<${client.source}>`)
    })
  }
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
