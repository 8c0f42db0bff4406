import { expect } from 'chai'
import { memoryStore, oidc } from '../../src/authorization/index.ts'
import { createKeys } from '../../src/authorization/keys.ts'
import { Browser } from '../support/authorization/browser.ts'
import { startFacade, type TestFacade } from '../support/authorization/facade.ts'
import { type Nginx, startNginx } from '../support/cluster.ts'
import { freePorts } from '../support/free-port.ts'
import { nginxMissing } from '../support/nginx.ts'
import { skipIf } from '../support/skip.ts'
import { startOpenIdProvider, type TestProvider } from '../support/upstream/openid-provider.ts'
import { SignedIn, V1, V2_LEGACY, V2_MODERN } from './sign-in-clients.ts'

describe('two nodes with the authorization facade behind examples/cluster/nginx.conf', function () {
  this.timeout(240_000)
  const nodes: TestFacade[] = []
  let origin: string
  let nginx: Nginx
  let provider: TestProvider

  before(async function () {
    skipIf(this, nginxMissing())
    const [port = 0] = await freePorts(1)
    origin = `http://127.0.0.1:${port}`
    provider = await startOpenIdProvider('ada', [`${origin}/signin/callback`])
    const { issuer, clientId, clientSecret } = provider
    const shared = { url: origin, resource: `${origin}/mcp`, keys: createKeys(), store: memoryStore() }
    const upstream = async () => oidc({ issuer, clientId, clientSecret, scopes: ['openid'] })
    for (let count = 0; count < 2; count++)
      nodes.push(await startFacade(shared, { upstream, mountsAccount: true }, { keepOpen: true }))
    const [one = 0, other = 0] = nodes.map((node) => Number(new URL(node.origin).port))
    nginx = await startNginx(port, [one, other])
  })
  after(async () => {
    await nginx?.stop()
    for (const node of nodes) await node.end()
    await provider?.close()
  })

  const user = async (url: URL, redirectUri: string): Promise<URL> => {
    const browser = new Browser()
    const isDone = (target: string): boolean => target.startsWith(redirectUri)
    return new URL((await browser.submit(await browser.open(url.href, isDone), 'allow', isDone)).url)
  }

  for (const kind of [V1, V2_LEGACY, V2_MODERN])
    it(`a ${kind.name} registers, signs in, and calls a tool`, async () => {
      const client = new SignedIn(kind, `${origin}/mcp`, { user })
      await client.connect()
      const { content } = await client.client.callTool({ name: 'who', arguments: {} })
      expect(content[0].text).to.contain('oidc|ada')
      await client.close()
      expect(nginx.complaints).to.deep.equal([])
    })

  it('the page of connected applications signs in and lists them', async () => {
    const page = await new Browser().open(`${origin}/account`)
    expect([page.status, page.url]).to.deep.equal([200, `${origin}/account`])
    expect(page.body).to.contain('Connected applications')
  })

  it('the keys and the revocation endpoint are passed on, and other paths are not', async () => {
    expect((await fetch(`${origin}/jwks`)).status).to.equal(200)
    expect((await fetch(`${origin}/revoke`, { method: 'POST' })).status).to.equal(400)
    expect((await fetch(`${origin}/authorized`)).status).to.equal(404)
    expect((await fetch(`${origin}/accounts`)).status).to.equal(404)
  })

  for (const [path, method, limit] of [
    ['/register', 'POST', 60],
    ['/authorize', 'GET', 60],
    ['/token', 'POST', 250],
  ] as const)
    it(`more than ${limit} requests to ${path} at once get a 429`, async () => {
      const send = async (): Promise<number> => (await fetch(origin + path, { method })).status
      const statuses = await Promise.all(Array.from({ length: limit }, send))
      expect(statuses).to.include(429)
      expect(statuses).to.include(400)
    })

  it('requests to paths below /authorize have the limit of /authorize', async () => {
    const send = async (path: string): Promise<number> => (await fetch(origin + path)).status
    await Promise.all(Array.from({ length: 60 }, () => send('/authorize')))
    const statuses = await Promise.all(Array.from({ length: 10 }, () => send('/authorize/unknown')))
    expect(statuses).to.include(429)
  })
})
