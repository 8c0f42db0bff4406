import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { CLIENT_IDS } from '../../cli/clients/client-id.ts'
import { profileOf } from '../../cli/clients/profiles.ts'
import { QUIRKS, type Quirk } from '../../cli/clients/quirks.ts'
import { CHECKS } from '../../cli/doctor/checks.ts'

const script = new URL('../../../scripts/clients-guide.mjs', import.meta.url)
const page = readFileSync(new URL('../../../docs/guides/clients.md', import.meta.url), 'utf8')
const checks = CHECKS.map(({ id }) => id)

describe('docs/guides/clients.md', () => {
  it('the page is the one that npm run clients generates', async () => {
    const { guidePage }: { guidePage: () => string } = await import(script.href)
    expect(page).to.equal(guidePage())
  })

  for (const id of CLIENT_IDS) {
    it(`the page has a section for ${id} with the command for doctor`, () => {
      expect(page).to.contain(`\n## ${profileOf(id).name}\n`)
      expect(page).to.contain(`\`doctor --as ${id}\``)
    })

    it(`the page says for ${id} which version was run, or that none was`, () => {
      const { name, run } = profileOf(id)
      const section = page.split(`\n## ${name}\n`)[1]?.split('\n## ')[0]
      expect(section).to.contain(
        run === undefined ? ' No version was run.' : ` ${run.version} was run on ${run.date}.`,
      )
    })
  }
})

describe('the table of quirks', () => {
  for (const [id, quirk] of Object.entries<Quirk>(QUIRKS)) {
    it(`the quirk ${id} has clients, https sources, a date, and an existing check`, () => {
      const { clients, formerClients = [], others = [], sources, seen, check } = quirk
      expect([...clients, ...formerClients, ...others]).to.not.deep.equal([])
      expect(CLIENT_IDS).to.include.members([...clients, ...formerClients])
      for (const client of clients) expect(formerClients).not.to.include(client)
      expect(sources).to.not.deep.equal([])
      for (const source of sources) expect(new URL(source)).to.include({ protocol: 'https:', href: source })
      expect(seen).to.match(/^202[56]-\d\d-\d\d$/)
      expect(new Date(seen).toISOString()).to.match(new RegExp(`^${seen}T`))
      if (check !== undefined) expect(checks).to.include(check)
    })
  }

  it('every client has at least one quirk', () => {
    const named = new Set(Object.values<Quirk>(QUIRKS).flatMap(({ clients }) => clients))
    expect([...named]).to.have.members([...CLIENT_IDS])
  })
})
