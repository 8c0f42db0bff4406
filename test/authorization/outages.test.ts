import { expect } from 'chai'
import { decodeJwt } from 'jose'
import { type AuthorizationStore, memoryStore } from '../../src/authorization/index.ts'
import { type AuthInfo, KitTelemetry } from '../../src/index.ts'
import { createTelemetryRecorder } from '../../src/testing/index.ts'
import { Browser } from '../support/authorization/browser.ts'
import { codeGrant, startFacade, type TestFacade, toClient } from '../support/authorization/facade.ts'

const SECRET = 'password-of-redis'

/** A store that fails while `fails` returns an error. */
function storeThatMayFail(): AuthorizationStore & { failure: (() => Promise<never>) | undefined } {
  const store = memoryStore()
  const failing = { ...store, failure: undefined as (() => Promise<never>) | undefined }
  for (const name of ['get', 'set', 'add', 'take', 'delete'] as const)
    failing[name] = ((...args: [string, string, number]) =>
      failing.failure === undefined
        ? (store[name] as (...all: unknown[]) => Promise<unknown>)(...args)
        : failing.failure()) as never
  return failing
}

/** The ways in which a store can fail. */
const FAILURES: Readonly<Record<string, () => Promise<never>>> = {
  rejects: () => Promise.reject(new Error(SECRET)),
  throws: () => {
    throw new Error(SECRET)
  },
}

describe('authorizationFacade whose store is unavailable', () => {
  const unhandled: unknown[] = []
  const listener = (reason: unknown): void => void unhandled.push(reason)
  let facade: TestFacade
  let store: ReturnType<typeof storeThatMayFail>
  before(() => process.on('unhandledRejection', listener))
  after(() => process.off('unhandledRejection', listener))
  beforeEach(async () => {
    store = storeThatMayFail()
    facade = await startFacade({ store })
  })
  afterEach(async () => {
    await facade.close()
    expect(unhandled).to.deep.equal([])
  })

  for (const [way, failure] of Object.entries(FAILURES)) {
    it(`endpoints respond with 503 and without details while the store ${way}, and work afterwards`, async () => {
      const { client, body: first } = await facade.connect()
      const browser = new Browser()
      const consent = await browser.open(facade.authorizeUrl(client).href, toClient)
      const callback = await browser.open(facade.authorizeUrl(client).href, (url) =>
        url.includes('/signin/callback'),
      )
      const form = (fields: Record<string, string>): RequestInit => ({
        method: 'POST',
        body: new URLSearchParams({ client_id: client.client_id, ...fields }),
      })
      const refresh = form({ grant_type: 'refresh_token', refresh_token: first.refresh_token })
      store.failure = failure
      for (const [path, init] of [
        ['/token', form(codeGrant(client, 'x'))],
        ['/token', refresh],
        ['/revoke', form({ token: first.refresh_token })],
        [
          '/register',
          {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ redirect_uris: ['https://app.example.com/cb'] }),
          },
        ],
      ] as const) {
        const response = await fetch(facade.issuer + path, init)
        const body = (await response.json()) as { error: string }
        expect([response.status, body.error], path).to.deep.equal([503, 'temporarily_unavailable'])
        expect(response.headers.get('retry-after'), path).to.equal('5')
        expect(JSON.stringify(body)).not.to.contain(SECRET)
      }
      for (const page of [
        await browser.open(facade.authorizeUrl(client).href, toClient),
        await browser.open(callback.url, toClient),
        await browser.open(consent.url, toClient),
        await browser.submit(consent, 'allow', toClient),
      ]) {
        expect(page.status, page.url).to.equal(503)
        expect(page.headers.get('content-type')).to.contain('text/html')
        expect(page.body).not.to.contain(SECRET)
      }
      // Keys and metadata do not need the store, and neither do tokens that were issued.
      expect((await fetch(`${facade.issuer}/jwks`)).status).to.equal(200)
      expect((await fetch(`${facade.issuer}/.well-known/oauth-authorization-server`)).status).to.equal(200)
      const headers = { authorization: `Bearer ${first.access_token}` }
      expect((await fetch(facade.resource, { method: 'POST', headers })).status).not.to.equal(401)
      store.failure = undefined
      expect((await fetch(`${facade.issuer}/token`, refresh)).status).to.equal(200)
    })
  }

  it('a token request while the store is unavailable emits an event with the reason', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().addTransport(recorder).build()
    const observed = await startFacade({ store, telemetry })
    store.failure = FAILURES.rejects
    await observed.token(codeGrant({ client_id: 'x' }, 'x'))
    await telemetry.shutdown()
    const [event, ...others] = recorder.events()
    expect(others).to.deep.equal([])
    expect(event?.name).to.equal('kit.authorization.token.refused')
    expect(event?.attributes?.reason).to.equal('temporarily_unavailable')
    expect(JSON.stringify(event)).not.to.contain(SECRET)
    await observed.close()
  })

  it('a page of the sign-in while the store is unavailable emits an event with the reason', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().addTransport(recorder).build()
    const observed = await startFacade({ store, telemetry })
    store.failure = FAILURES.rejects
    const page = await new Browser().open(`${observed.issuer}/signin/${'a'.repeat(43)}`)
    expect(page.status).to.equal(503)
    await telemetry.shutdown()
    expect(recorder.events().map(({ name, attributes }) => [name, attributes])).to.deep.equal([
      ['kit.authorization.signin.refused', { provider: 'oidc', reason: 'unavailable' }],
    ])
    await observed.close()
  })

  it('a refresh for which allow throws is 503, and the refresh token stays usable', async () => {
    let isDown = false
    const checked = await startFacade({
      allow: () => {
        if (isDown) throw new Error(SECRET)
        return true
      },
    })
    const { client, body: first } = await checked.connect()
    const refresh = {
      grant_type: 'refresh_token',
      client_id: client.client_id,
      refresh_token: String(first.refresh_token),
    }
    isDown = true
    const { status, body } = await checked.token(refresh)
    expect([status, body.error]).to.deep.equal([503, 'temporarily_unavailable'])
    expect(JSON.stringify(body)).not.to.contain(SECRET)
    isDown = false
    expect((await checked.token(refresh)).status).to.equal(200)
    await checked.close()
  })

  it('a new token of the provider is stored although the first write fails', async () => {
    const own = await startFacade({ store }, { scopes: ['openid', 'offline_access'] })
    own.provider?.expireTokens()
    const { body } = await own.connect()
    let failures = 0
    const set = store.set
    store.set = async (key, value, ttlMs) => {
      if (key.startsWith('Upstream:') && failures++ === 0) throw new Error(SECRET)
      await set(key, value, ttlMs)
    }
    const auth = {
      token: body.access_token,
      user: { claims: decodeJwt(body.access_token) },
    } as unknown as AuthInfo
    expect((await own.facade.upstreamToken.for(auth)).token).to.be.a('string')
    // The provider accepts each refresh token once.
    expect((await own.facade.upstreamToken.for(auth)).token).to.be.a('string')
    expect(failures).to.equal(3)
    await own.close()
  })

  it('a node reserves the refresh token of the provider before it uses it', async () => {
    const own = await startFacade({ store }, { scopes: ['openid', 'offline_access'] })
    own.provider?.expireTokens()
    const { body } = await own.connect()
    const auth = {
      token: body.access_token,
      user: { claims: decodeJwt(body.access_token) },
    } as unknown as AuthInfo
    let locks = 0
    const { add } = store
    store.add = async (key, value, ttlMs) => {
      if (key.startsWith('UpstreamLock:')) locks++
      return await add(key, value, ttlMs)
    }
    expect((await own.facade.upstreamToken.for(auth)).token).to.be.a('string')
    expect(locks, 'each refresh reserves the token first').to.equal(1)
    await own.close()
  })

  it('a token of the provider that is refreshed while its grant is revoked is not stored again', async () => {
    const upstreams: string[] = []
    let revoke: (() => Promise<unknown>) | undefined
    const set = store.set
    store.set = async (key, value, ttlMs) => {
      if (key.startsWith('Upstream:')) {
        upstreams.push(key)
        const revoking = revoke
        revoke = undefined
        await revoking?.()
      }
      await set(key, value, ttlMs)
    }
    const revoked = await startFacade({ store }, { scopes: ['openid', 'offline_access'] })
    revoked.provider?.expireTokens()
    const { client, body } = await revoked.connect()
    revoke = () =>
      fetch(`${revoked.issuer}/revoke`, {
        method: 'POST',
        body: new URLSearchParams({ token: body.refresh_token, client_id: client.client_id }),
      })
    await (await revoked.call(body.access_token, 'upstream')).text()
    const [stored = '', again] = upstreams
    expect(again).to.equal(stored)
    expect(await store.get(stored)).to.equal(undefined)
    await revoked.close()
  })
})
