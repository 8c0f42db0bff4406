import { createServer } from 'node:http'
import { expect } from 'chai'
import { createConnectedAccountServer } from '../../examples/connected-account.ts'
import { listen, stop } from '../../examples/listen.ts'
import { bearer, modern, send } from '../support/mcp/wire.ts'
import { startOpenIdProvider, type TestProvider } from '../support/upstream/openid-provider.ts'

describe('the example of a connected account', () => {
  const closing: (() => Promise<unknown>)[] = []
  let origin: string
  let signIn: TestProvider
  let thirdParty: TestProvider
  beforeEach(async () => {
    const http = createServer()
    origin = `http://127.0.0.1:${await listen(http, 0)}`
    closing.push(() => stop(http))
    signIn = await startOpenIdProvider('ada', [`${origin}/connect/signed-in`])
    closing.push(signIn.close)
    thirdParty = await startOpenIdProvider('ada.l', [`${origin}/connect/done`])
    closing.push(thirdParty.close)
    http.on(
      'request',
      await createConnectedAccountServer({
        resource: `${origin}/mcp`,
        signIn,
        thirdParty: { ...thirdParty, scope: 'openid', api: `${thirdParty.issuer}/me` },
      }),
    )
  })
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })

  async function callAs(user: string, params: object = {}) {
    const token = await signIn.issue(user, `${origin}/mcp`)
    const _meta = { 'io.modelcontextprotocol/clientCapabilities': { elicitation: { url: {} } } }
    const request = modern('tools/call', { name: 'list_events', _meta, ...params }, bearer(token))
    const response = await send(Number(new URL(origin).port), request)
    return response.message.result
  }

  /** Follows redirects with the cookies of one browser. */
  async function browse(url: string, cookies = new Map<string, string>(), stopAt?: string) {
    for (let hop = 0; hop < 20; hop++) {
      const at = new URL(url)
      const jar = [...cookies].filter(([key]) => key.startsWith(at.host))
      const cookie = jar.map(([key, value]) => `${key.slice(at.host.length + 1)}=${value}`).join('; ')
      const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) as RegExpExecArray
        cookies.set(`${at.host} ${name}`, value as string)
      }
      const location = response.headers.get('location')
      if (location === null) return { status: response.status, text: await response.text(), url }
      url = new URL(location, url).href
      if (stopAt !== undefined && url.startsWith(stopAt)) return { status: 0, text: '', url }
    }
    throw new Error('too many redirects')
  }

  it('a call without an account asks to open the page, and works after the account was connected there', async () => {
    const asked = await callAs('ada')
    expect(asked.resultType).to.equal('input_required')
    expect(asked.inputRequests.connect.params).to.include({ mode: 'url', url: `${origin}/connect` })
    expect(await browse(`${origin}/connect`)).to.include({ status: 200 })
    const { content } = await callAs('ada', {
      requestState: asked.requestState,
      inputResponses: { connect: { action: 'accept' } },
    })
    expect(content[0].text).to.equal('{"sub":"ada.l"}')
  })

  it('the account belongs to the user who signed in on the page, and not to the one who sent the link', async () => {
    await browse(`${origin}/connect`)
    expect((await callAs('mallory')).resultType).to.equal('input_required')
  })

  it('a call after an answer without a connected account is an error', async () => {
    const asked = await callAs('ada')
    const { isError, content } = await callAs('ada', {
      requestState: asked.requestState,
      inputResponses: { connect: { action: 'decline' } },
    })
    expect(isError).to.equal(true)
    expect(content[0].text).to.equal('No calendar is connected yet.')
  })

  it('a token that has expired is renewed', async () => {
    thirdParty.expireTokens()
    await browse(`${origin}/connect`)
    expect((await callAs('ada')).content[0].text).to.equal('{"sub":"ada.l"}')
  })

  for (const [what, change] of [
    [
      'of another browser',
      (url: string, cookies: Map<string, string>) => {
        cookies.clear()
        return url
      },
    ],
    ['with another state', (url: string) => url.replace(/state=[^&]*/, 'state=x')],
    ['with another code', (url: string) => url.replace(/code=[^&]*/, 'code=x')],
    ['of another issuer', (url: string) => url.replace(/iss=[^&]*/, 'iss=http%3A%2F%2F127.0.0.1%3A1')],
    ['at the other step', (url: string) => url.replace('/connect/signed-in', '/connect/done')],
  ] as const) {
    it(`a callback ${what} is rejected`, async () => {
      const cookies = new Map<string, string>()
      const { url } = await browse(`${origin}/connect`, cookies, `${origin}/connect/signed-in`)
      const { status, text } = await browse(change(url, cookies), cookies)
      expect({ status, text }).to.deep.equal({
        status: 400,
        text: 'The calendar could not be connected. Try again from your client.',
      })
      expect((await callAs('ada')).resultType).to.equal('input_required')
    })
  }

  it('a callback works once', async () => {
    const cookies = new Map<string, string>()
    const { url } = await browse(`${origin}/connect`, cookies, `${origin}/connect/signed-in`)
    const before = new Map(cookies)
    expect(await browse(url, cookies)).to.include({ status: 200 })
    expect(await browse(url, before)).to.include({ status: 400 })
  })
})
