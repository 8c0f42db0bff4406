import { expect } from 'chai'
import { decodeJwt } from 'jose'
import { github, memoryStore, type SignInProvider } from '../../src/authorization/index.ts'
import { Browser, type Page } from '../support/authorization/browser.ts'
import { codeGrant, startFacade, type TestFacade, toClient } from '../support/authorization/facade.ts'
import { type Github, startGithub } from '../support/authorization/github.ts'

const KNOWN = 'https://desk.example.com/cb'

describe('attacks on the sign-in of the authorization facade', () => {
  /** The parameters that reach the provider, and the ID token. */
  async function signInAs(
    facade: TestFacade,
    changes: Record<string, string | undefined>,
  ): Promise<{ readonly query: URLSearchParams; readonly end: URLSearchParams; readonly idToken: any }> {
    const client = await facade.register()
    const browser = new Browser()
    const url = facade.authorizeUrl(client, { scope: 'openid mcp:read', ...changes })
    const end = await facade.signIn(url, browser).catch((error: Error) => error)
    const visited = browser.history.find((one) => one.startsWith(`${facade.provider?.issuer}/auth?`))
    const query = new URLSearchParams(visited?.slice(visited.indexOf('?')))
    const parameters = end instanceof Error ? new URLSearchParams() : end
    if (!parameters.has('code')) return { query, end: parameters, idToken: undefined }
    const { body } = await facade.token(codeGrant(client, parameters.get('code')))
    return { query, end: parameters, idToken: decodeJwt(body.id_token) }
  }

  const now = (): number => Math.floor(Date.now() / 1000)

  for (const [changes, expected] of [
    [{ prompt: 'login' }, { prompt: 'login' }],
    [{ prompt: 'login consent' }, { prompt: 'login' }],
    [{ max_age: '0' }, { max_age: '0' }],
    [{ max_age: '3600' }, { max_age: '3600' }],
    [{}, {}],
    [{ prompt: 'consent' }, {}],
  ] as const)
    it(`sign-in: the time at which the user signed in: a client requests ${new URLSearchParams(changes).toString() || 'nothing about it'}: the provider gets ${new URLSearchParams(expected).toString() || 'nothing about it'}`, async () => {
      const facade = await startFacade()
      const { query, idToken } = await signInAs(facade, changes)
      const passed = [...query].filter(([name]) => name === 'prompt' || name === 'max_age')
      expect(Object.fromEntries(passed)).to.deep.equal(expected)
      expect(idToken.sub).to.equal('oidc|ada')
    })

  it('sign-in: the time at which the user signed in: a user who signed in at the provider a minute ago is signed in at once: auth_time is the time of the provider, also after a refresh', async () => {
    const facade = await startFacade()
    const time = now() - 60
    facade.provider?.signInAt(time)
    const client = await facade.register()
    const url = facade.authorizeUrl(client, { scope: 'openid mcp:read', max_age: '3600' })
    const { body } = await facade.token(codeGrant(client, (await facade.signIn(url)).get('code')))
    expect(decodeJwt(body.id_token).auth_time).to.equal(time)
    const refresh = { grant_type: 'refresh_token', client_id: client.client_id }
    const again = await facade.token({ ...refresh, refresh_token: body.refresh_token })
    expect(decodeJwt(again.body.id_token).auth_time).to.equal(time)
  })

  it('sign-in: the time at which the user signed in: the provider ignores max_age: auth_time shows it to the client', async () => {
    const facade = await startFacade()
    const time = now() - 7_200
    facade.provider?.signInAt(time)
    expect((await signInAs(facade, { max_age: '3600' })).idToken.auth_time).to.equal(time)
  })

  it('sign-in: the time at which the user signed in: the provider does not state when the user signed in: the ID token does not state it either', async () => {
    let hub: Github | undefined
    const upstream = async (callback: string): Promise<SignInProvider> => {
      hub = await startGithub(callback)
      const { baseUrl, clientId, clientSecret } = hub
      return github({ baseUrl, clientId, clientSecret })
    }
    const facade = await startFacade({}, { upstream })
    for (const changes of [{ max_age: '0' }, { max_age: '60' }, { prompt: 'login' }]) {
      const { idToken } = await signInAs(facade, changes)
      expect(idToken.sub).to.equal('github|583231')
      expect(idToken).not.to.have.property('auth_time')
    }
    await hub?.close()
  })

  it('sign-in: visits, consents, and names: three concurrent requests for the response to one consent: one code, and an HTML page with 400 for the others', async () => {
    const store = memoryStore()
    const { get } = store
    const facade = await startFacade({ store })
    const client = await facade.register()
    const browser = new Browser()
    const page = await browser.open(facade.authorizeUrl(client).href, toClient)
    const isResponse = (url: string): boolean => url.startsWith(`${facade.issuer}/authorize/`)
    const { url } = await browser.submit(page, 'allow', isResponse)
    // All of them look before one of them has an answer.
    let reading = 0
    let release: (() => void) | undefined
    const allRead = new Promise<void>((resolve) => {
      release = resolve
    })
    store.get = async (key) => {
      const value = await get(key)
      if (!key.startsWith('Interaction:')) return value
      if (++reading === 3) release?.()
      await allRead
      return value
    }
    const ends = await Promise.all([1, 2, 3].map(() => browser.open(url, toClient)))
    expect(ends.filter((end) => toClient(end.url))).to.have.length(1)
    for (const end of ends.filter((one) => !toClient(one.url))) {
      expect([end.status, end.headers.get('location')]).to.deep.equal([400, null])
      expect(end.headers.get('content-type')).to.contain('text/html')
    }
  })

  it('sign-in: visits, consents, and names: four concurrent submissions of one consent form, two of which deny: one redirect, and its decision counts', async () => {
    const facade = await startFacade()
    const client = await facade.register()
    const browser = new Browser()
    const page = await browser.open(facade.authorizeUrl(client).href, toClient)
    const isResponse = (url: string): boolean => url.startsWith(`${facade.issuer}/authorize/`)
    const decisions = ['allow', 'deny', 'allow', 'deny']
    const ends = await Promise.all(decisions.map((one) => browser.submit(page, one, isResponse)))
    expect(ends.filter(({ status }) => status === 303)).to.have.length(1)
    expect(ends.filter(({ status }) => status === 400)).to.have.length(3)
    const winner = ends.findIndex(({ status }) => status === 303)
    const end = new URL((await browser.open(String(ends[winner]?.url), toClient)).url).searchParams
    expect(end.has(decisions[winner] === 'allow' ? 'code' : 'error'), String(end)).to.equal(true)
  })

  it('sign-in: visits, consents, and names: a user denies a client of clients.static after consents to it were remembered: the next requests show the consent page, for all sets of scopes', async () => {
    const facade = await startFacade({
      clients: { static: [{ clientId: 'desk', redirectUris: [KNOWN] }] },
    })
    const browser = new Browser()
    const isDone = (url: string): boolean => url.startsWith(KNOWN)
    const ask = (scope: string, prompt?: string): Promise<Page> =>
      browser.open(
        facade.authorizeUrl({ client_id: 'desk' }, { redirect_uri: KNOWN, scope, prompt }).href,
        isDone,
      )
    for (const scope of ['mcp:read', 'mcp:write']) {
      await browser.submit(await ask(scope), 'allow', isDone)
      expect((await ask(scope)).url).to.contain(`${KNOWN}?code=`)
    }
    await browser.submit(await ask('mcp:read', 'consent'), 'deny', isDone)
    for (const scope of ['mcp:read', 'mcp:write']) expect((await ask(scope)).status).to.equal(200)
  })

  for (const [what, name] of [
    ['a Hangul filler', '\u3164'],
    ['halfwidth and jamo fillers', '\uffa0\u115f\u1160'],
    ['an empty Braille pattern', '\u2800\u2800'],
    ['a note without a head', '\u{1d159}'],
    ['variation selectors and joiners', '\ufe0f\u200d\u034f'],
    ['combining marks only', '\u0301\u0302'],
    ['spaces and line breaks', ' \n\u2003\u2028'],
  ] as const)
    it(`sign-in: visits, consents, and names: a client whose name is ${what}: the page calls it a client without a name`, async () => {
      const facade = await startFacade()
      const client = await facade.register({ client_name: name })
      const { body } = await new Browser().open(facade.authorizeUrl(client).href, toClient)
      expect(body).to.contain('<bdi>A client without a name</bdi>')
    })

  it('sign-in: visits, consents, and names: a client name with line breaks that hide a second line: the breaks become a space', async () => {
    const facade = await startFacade()
    const client = await facade.register({ client_name: 'x\n\n\u2800Verified' })
    const { body } = await new Browser().open(facade.authorizeUrl(client).href, toClient)
    expect(body).to.contain('<bdi>x Verified</bdi>')
  })

  it('sign-in: visits, consents, and names: the consent form is sent as JSON whose members are not strings, behind a body parser: 400, and the form can still be sent', async () => {
    const facade = await startFacade({}, { parsesBodies: true })
    const client = await facade.register()
    const browser = new Browser()
    const page = await browser.open(facade.authorizeUrl(client).href, toClient)
    for (const body of ['{"csrf":{"toString":1}}', '{"csrf":["a"]}', '{"csrf":null,"decision":5}', '[]']) {
      const { status } = await fetch(page.url, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json', cookie: browser.cookiesFor(page.url) },
      })
      expect(status, body).to.equal(400)
    }
    expect(toClient((await browser.submit(page, 'allow', toClient)).url)).to.equal(true)
  })

  it('sign-in: visits, consents, and names: a sign-in whose code is never used, and the revocation of one whose code was used: the token of the provider is kept for minutes, or removed', async () => {
    const store = memoryStore()
    const kept = new Map<string, number>()
    const { set, delete: remove } = store
    store.set = async (key, value, ttlMs) => {
      if (key.startsWith('Upstream:')) kept.set(key, ttlMs / 60_000)
      await set(key, value, ttlMs)
    }
    store.delete = async (key) => {
      kept.delete(key)
      await remove(key)
    }
    const facade = await startFacade({ store })
    const client = await facade.register()
    const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
    expect([...kept.values()]).to.deep.equal([11])
    const { body } = await facade.token(codeGrant(client, code))
    expect([...kept.values()]).to.deep.equal([365 * 24 * 60])
    await fetch(`${facade.issuer}/revoke`, {
      method: 'POST',
      body: new URLSearchParams({ token: body.refresh_token, client_id: client.client_id }),
    })
    expect(kept.size).to.equal(0)
  })
})
