import { readFile } from 'node:fs/promises'
import { expect } from 'chai'
import { type AuthorizationStore, memoryStore } from '../../src/authorization/index.ts'
import { Browser } from '../support/authorization/browser.ts'
import { startFacade, toClient } from '../support/authorization/facade.ts'

const PAGE = new URL('../../../docs/reference/stored-data.md', import.meta.url)

/** The kinds that these sign-ins do not leave: of providers with refresh tokens, of many grants, and of client assertions and DPoP. */
const OF_OTHER_TESTS = ['IdentityAssertion', 'ReplayDetection', 'UpstreamLock']

/** The rows of the table of the facade: the kinds of records, and their longest lifetime in seconds. */
async function documented(): Promise<ReadonlyMap<string, number>> {
  const text = await readFile(PAGE, 'utf8')
  const [, section = ''] = text.split('## The authorization facade\n')
  const rows = section.split('\n## ')[0]?.matchAll(/^\| (`[^|]*`) \|.*\| (\d[\d ]*) s[^|]*\|$/gm) ?? []
  return new Map(
    [...rows].flatMap(([, kinds = '', seconds = '']) =>
      [...kinds.matchAll(/`(\w+)`/g)].map(([, kind = '']) => [kind, Number(seconds.replaceAll(' ', ''))]),
    ),
  )
}

/** A store that keeps every key, value, and lifetime that was written. */
function recordingStore() {
  const store: AuthorizationStore = memoryStore()
  const written: { readonly key: string; readonly value: string; readonly ttlMs: number }[] = []
  for (const name of ['set', 'add'] as const) {
    const original = store[name] as (...args: [string, string, number]) => Promise<any>
    store[name] = async (...args: [string, string, number]) => {
      written.push({ key: args[0], value: args[1], ttlMs: args[2] })
      return await original(...args)
    }
  }
  return { store, written }
}

describe('docs/reference/stored-data.md', () => {
  it('names the key, the encryption, and the longest lifetime of each record that sign-ins leave in a store', async () => {
    const { store, written } = recordingStore()
    const https = 'https://desk.example.com/cb'
    const facade = await startFacade(
      { store, clients: { static: [{ clientId: 'desk', redirectUris: [https] }] } },
      { mountsAccount: true },
    )
    const { client: registered, body } = await facade.connect()
    const client = { client_id: registered.client_id }
    const refresh = { grant_type: 'refresh_token', ...client, refresh_token: body.refresh_token }
    const refreshed = await facade.token(refresh)
    await fetch(`${facade.issuer}/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ ...client, token: refreshed.body.refresh_token }),
    })
    // A consent to a client that is registered in advance is remembered.
    const browser = new Browser()
    const toDesk = (url: string) => toClient(url) || url.startsWith(https)
    const page = await browser.open(
      facade.authorizeUrl({ client_id: 'desk' }, { redirect_uri: https }).href,
      toDesk,
    )
    await browser.submit(page, 'allow', toDesk)
    await new Browser().open(`${facade.issuer}/account`)
    await facade.facade.grants.revokeUser('oidc|ada')
    await facade.facade.grants.revokeClient(registered.client_id)
    await facade.close()

    const rows = await documented()
    const kinds = new Set(written.map(({ key }) => key.slice(0, key.indexOf(':'))))
    expect([...rows.keys()].sort()).to.deep.equal([...kinds, ...OF_OTHER_TESTS].sort())
    for (const { key, value, ttlMs } of written) {
      expect(key).to.match(/^[A-Za-z]+:[\w-]{43}$/)
      expect(JSON.parse(Buffer.from(value.split('.')[0] ?? '', 'base64url').toString()), key).to.include({
        alg: 'dir',
        enc: 'A256GCM',
      })
      const kind = key.slice(0, key.indexOf(':'))
      expect(ttlMs / 1000, kind).to.be.at.most(Number(rows.get(kind)))
      // A revocation lives as long as what it revokes.
      if (kind.startsWith('Revoked')) expect(ttlMs / 1000, kind).to.equal(rows.get(kind))
    }
  })
})
