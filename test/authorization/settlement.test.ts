import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import {
  type AuthorizationFacadeOptions,
  type AuthorizationStore,
  memoryStore,
  redisStore,
} from '../../src/authorization/index.ts'
import { createKeys } from '../../src/authorization/keys.ts'
import { Browser } from '../support/authorization/browser.ts'
import {
  CALLBACK,
  codeGrant,
  type RegisteredClient,
  startFacade,
  type TestFacade,
  toClient,
} from '../support/authorization/facade.ts'
import { startIdentityProvider } from '../support/authorization/identity-provider.ts'
import {
  INTERRUPTIONS,
  type InterruptedStore,
  interruptedStore,
} from '../support/authorization/interrupted-store.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'

type Grant = Record<string, string>

describe('authorizationFacade whose store fails once', function () {
  this.timeout(60_000)
  let facade: TestFacade
  let client: RegisteredClient
  let store: InterruptedStore

  before(async () => {
    store = interruptedStore(memoryStore())
    facade = await startFacade({ store }, {}, { keepOpen: true })
    client = await facade.register()
  })
  beforeEach(async () => {
    store.interrupt()
    // A sign-in of a user with many grants takes more commands.
    await facade.facade.grants.revokeUser('oidc|ada')
  })
  after(() => facade.end())

  const refreshOf = (token: string): Grant => ({
    grant_type: 'refresh_token',
    client_id: client.client_id,
    refresh_token: token,
  })
  const newCode = async (): Promise<Grant> =>
    codeGrant(client, (await facade.signIn(facade.authorizeUrl(client))).get('code'))
  const newRefresh = async (): Promise<Grant> =>
    refreshOf((await facade.token(await newCode())).body.refresh_token)

  for (const way of INTERRUPTIONS)
    for (const [what, prepare] of [
      ['code', newCode],
      ['refresh token', newRefresh],
    ] as const)
      it(`a ${what} is not used up by a request during which any command of the store fails ${way}`, async () => {
        const first = await prepare()
        store.interrupt()
        expect((await facade.token(first)).status).to.equal(200)
        const commands = [...store.commands]
        expect(commands.some((command) => command.startsWith('add Used'))).to.equal(true)
        for (const [index, command] of commands.entries()) {
          const grant = await prepare()
          store.interrupt(index, way)
          const failed = await facade.token(grant)
          store.interrupt()
          if (failed.status === 200) {
            // The reply was lost, and the request succeeded all the same. Or the command comes after the response.
            expect((await facade.token(refreshOf(failed.body.refresh_token))).status, command).to.equal(200)
            continue
          }
          expect([failed.status, failed.body.error], command).to.deep.equal([503, 'temporarily_unavailable'])
          const retried = await facade.token(grant)
          expect(retried.status, `${command}: ${JSON.stringify(retried.body)}`).to.equal(200)
          // The answer that replaced it works, and it works only once.
          expect((await facade.token(refreshOf(retried.body.refresh_token))).status, command).to.equal(200)
          expect((await facade.token(grant)).body.error, command).to.equal('invalid_grant')
        }
      })

  it('a request with an invalid resource stores nothing and uses up neither a code nor a refresh token', async () => {
    for (const prepare of [newCode, newRefresh]) {
      const grant = await prepare()
      for (const resource of [`${facade.resource}/`, 'https://other.example.com/mcp']) {
        store.interrupt()
        const wrong = await facade.token({ ...grant, resource })
        expect([wrong.status, wrong.body.error]).to.deep.equal([400, 'invalid_target'])
        // The client of the previous request is kept after its response.
        expect(store.commands.filter((command) => !/^get |Client$/.test(command))).to.deep.equal([])
      }
      expect((await facade.token({ ...grant, resource: facade.resource })).status).to.equal(200)
    }
  })

  const isDecided = (url: string): boolean => url.startsWith(`${facade.issuer}/authorize/`)

  const revoke = async (token: string): Promise<number> => {
    const body = new URLSearchParams({ token, client_id: client.client_id })
    return (await fetch(`${facade.issuer}/revoke`, { method: 'POST', body })).status
  }

  for (const way of INTERRUPTIONS)
    it(`a revocation during which any command of the store fails ${way} can be repeated, and removes the token of the provider`, async () => {
      let failures = 0
      const { refresh_token: first = '' } = await newRefresh()
      store.interrupt()
      expect(await revoke(first)).to.equal(200)
      for (const [index, command] of [...store.commands].entries()) {
        const grant = await newRefresh()
        store.interrupt(index, way)
        const failed = await revoke(String(grant.refresh_token))
        store.interrupt()
        // The client of a previous request is kept in the background.
        if (failed === 200) continue
        expect(failed, command).to.equal(503)
        failures++
        expect(await revoke(String(grant.refresh_token)), command).to.equal(200)
        expect(store.commands, command).to.include('delete Upstream')
        expect((await facade.token(grant)).body.error, command).to.equal('invalid_grant')
      }
      expect(failures).to.be.at.least(4)
    })

  for (const way of INTERRUPTIONS)
    it(`a consent is not used up by a form during which any command of the store fails ${way}`, async () => {
      const open = async (browser: Browser) => await browser.open(facade.authorizeUrl(client).href, toClient)
      const count = new Browser()
      const page = await open(count)
      store.interrupt()
      await count.submit(page, 'allow', isDecided)
      for (const [index, command] of [...store.commands].entries()) {
        const browser = new Browser()
        const consent = await open(browser)
        store.interrupt(index, way)
        const failed = await browser.submit(consent, 'allow', isDecided)
        store.interrupt()
        // What is not needed for the answer, or was applied, does not stop the sign-in.
        const sent = isDecided(failed.url) ? failed : await browser.submit(consent, 'allow', isDecided)
        if (sent !== failed) expect(failed.status, command).to.equal(503)
        expect(isDecided(sent.url), `${command}: ${sent.status}`).to.equal(true)
        const end = await browser.open(sent.url, toClient)
        expect(new URL(end.url).searchParams.get('code'), command).to.be.a('string')
      }
    })

  it('a response to the client is repeated if any command of the store fails before it is applied', async () => {
    const atResponse = async (browser: Browser): Promise<string> => {
      const page = await browser.open(facade.authorizeUrl(client).href, toClient)
      return (await browser.submit(page, 'allow', isDecided)).url
    }
    const count = new Browser()
    const url = await atResponse(count)
    store.interrupt()
    await count.open(url, toClient)
    for (const [index, command] of [...store.commands].entries()) {
      const browser = new Browser()
      const address = await atResponse(browser)
      store.interrupt(index)
      const failed = await browser.open(address, toClient)
      store.interrupt()
      const isAnswered = toClient(failed.url)
      if (isAnswered)
        expect(new URL(failed.url).searchParams.get('error'), command).to.equal('temporarily_unavailable')
      else {
        expect([failed.status, failed.headers.get('retry-after')], command).to.deep.equal([503, '5'])
        const end = await browser.open(address, toClient)
        expect(new URL(end.url).searchParams.get('code'), `${command}: ${end.body}`).to.be.a('string')
      }
    }
  })

  for (const way of INTERRUPTIONS)
    it(`an identity assertion is not used up by a request during which any command of the store fails ${way}`, async () => {
      const company = await startIdentityProvider()
      const secret = randomBytes(24).toString('base64url')
      const inner = interruptedStore(memoryStore())
      const options: Partial<AuthorizationFacadeOptions> = {
        store: inner,
        clients: { static: [{ clientId: 'desk', clientSecret: secret, redirectUris: [CALLBACK] }] },
        identityAssertions: { issuers: [{ issuer: company.issuer }] },
      }
      const own = await startFacade(options)
      const authorization = `Basic ${Buffer.from(`desk:${secret}`).toString('base64')}`
      const newGrant = async (): Promise<Grant> => ({
        grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
        assertion: await company.assertion({ aud: own.issuer, client_id: 'desk', resource: own.resource }),
      })
      inner.interrupt()
      expect((await own.token(await newGrant(), { authorization })).status).to.equal(200)
      const commands = [...inner.commands]
      expect(commands).to.include('add IdentityAssertion')
      for (const [index, command] of commands.entries()) {
        const grant = await newGrant()
        inner.interrupt(index, way)
        const failed = await own.token(grant, { authorization })
        inner.interrupt()
        if (failed.status !== 200) {
          expect(failed.status, command).to.equal(503)
          expect((await own.token(grant, { authorization })).status, command).to.equal(200)
        }
        expect((await own.token(grant, { authorization })).status, command).to.equal(400)
      }
      await own.close()
      await company.close()
    })

  describe('with Redis', () => {
    let redis: RedisServer
    before(async function () {
      skipIf(this, redisMissing())
      redis = await startRedis()
    })
    after(() => redis?.stop())

    for (const kind of REDIS_CLIENTS)
      it(`a code and a refresh token whose use fails at one node with ${kind.name} work at another one, and once`, async () => {
        const connections = await Promise.all([kind.connect(redis.port), kind.connect(redis.port)])
        const resource = 'https://mcp.example.com/mcp'
        const { signing, encryption } = createKeys()
        const [unsafe, safe] = connections.map((connection) =>
          interruptedStore(redisStore(connection as never)),
        )
        if (unsafe === undefined || safe === undefined) throw new Error('no store')
        const options = { resource, keys: { signing, encryption }, tokens: { refreshGraceSeconds: 0 } }
        const one = await startFacade({ ...options, store: unsafe })
        const two = await startFacade({ ...options, store: safe })
        const desk = await one.register()
        const url = one.authorizeUrl(desk, { resource })
        let grant = codeGrant(desk, (await one.signIn(url)).get('code'))
        for (const used of ['AuthorizationCode', 'RefreshToken']) {
          const add = unsafe.add
          const failing: AuthorizationStore['add'] = async (key, ...rest) => {
            if (key.startsWith(`Used${used}:`)) throw new Error('the connection was closed')
            return await add(key, ...rest)
          }
          unsafe.add = failing
          expect((await one.token(grant)).status, used).to.equal(503)
          unsafe.add = add
          const { status, body } = await two.token(grant)
          expect(status, used).to.equal(200)
          grant = { ...refreshOf(body.refresh_token), client_id: desk.client_id }
        }
        expect((await one.token(grant)).status).to.equal(200)
        expect((await two.token(grant)).body.error).to.equal('invalid_grant')
        for (const connection of connections) connection.end()
        await one.close()
        await two.close()
      })
  })
})
