import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { decodeJwt, decodeProtectedHeader, type JWK } from 'jose'
import {
  type AllowInput,
  type AuthorizationStore,
  authorizationFacade,
  github,
  google,
  memoryStore,
  redisStore,
} from '../../src/authorization/index.ts'
import { KitTelemetry } from '../../src/index.ts'
import { createTelemetryRecorder } from '../../src/testing/index.ts'
import { SIGN_IN_CLIENTS, SignedIn } from '../full/sign-in-clients.ts'
import { Browser } from '../support/authorization/browser.ts'
import {
  CALLBACK,
  codeGrant,
  refreshGrant,
  startFacade,
  type TestFacade,
  type TokenReply,
  toClient,
} from '../support/authorization/facade.ts'
import { startGithub } from '../support/authorization/github.ts'
import { startIdentityProvider } from '../support/authorization/identity-provider.ts'
import { interruptedStore } from '../support/authorization/interrupted-store.ts'
import { UPSTREAMS } from '../support/authorization/upstreams.ts'
import { type RedisServer, redisMissing, startRedis } from '../support/redis.ts'
import { REDIS_CLIENTS } from '../support/redis-clients.ts'
import { skipIf } from '../support/skip.ts'

/** A user in a browser who allows every request. */
function user(browser: Browser = new Browser()) {
  return async (url: URL, redirectUri: string): Promise<URL> => {
    const isDone = (target: string): boolean => target.startsWith(redirectUri)
    const page = await browser.open(url.href, isDone)
    return new URL((await browser.submit(page, 'allow', isDone)).url)
  }
}

function textOf(result: any): string {
  return result.content[0].text
}

function newKey(kid: string): JWK {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { ...(privateKey.export({ format: 'jwk' }) as JWK), kid }
}

/** Refresh tokens that can be used once. */
const ONE_USE = { refreshGraceSeconds: 0 } as const

const newSecret = (): string => randomBytes(32).toString('base64url')

describe('authorizationFacade', () => {
  it('a registered client whose user signs in and consents gets a JWT for the resource', async () => {
    const facade = await startFacade()
    const client = await facade.register()
    const parameters = await facade.signIn(facade.authorizeUrl(client))
    expect(parameters.get('state')).to.equal('state-of-the-client')
    expect(parameters.get('iss')).to.equal(facade.issuer)
    const { status, body } = await facade.token(codeGrant(client, parameters.get('code')))
    expect(status, JSON.stringify(body)).to.equal(200)
    expect(decodeProtectedHeader(body.access_token)).to.include({ typ: 'at+jwt', alg: 'ES256' })
    const claims = decodeJwt(body.access_token)
    expect(claims).to.include({
      iss: facade.issuer,
      aud: facade.resource,
      sub: 'oidc|ada',
      client_id: client.client_id,
      scope: 'mcp:read',
    })
    expect(Number(claims.exp) - Number(claims.iat)).to.equal(600)
    expect(body.refresh_token).to.be.a('string')
  })

  for (const { name, sub, create } of UPSTREAMS)
    for (const kind of SIGN_IN_CLIENTS)
      it(`the official SDK (${kind.name}) registers, its user signs in at ${name}, and it calls a tool`, async () => {
        const upstream = create()
        const facade = await startFacade({}, upstream.settings)
        const signedIn = new SignedIn(kind, facade.resource, { user: user() })
        expect(await signedIn.connect()).to.equal(kind.revision)
        const result = await signedIn.client.callTool({ name: 'who', arguments: {} })
        expect(JSON.parse(textOf(result))).to.include({ id: sub })
        // Each of them asks for the metadata of the authorization server, and registers.
        expect(signedIn.recorder.at('/register').map(({ status }) => status)).to.deep.equal([201])
        await signedIn.close()
        await upstream.close()
      })

  it('a tool gets the token of the provider, which the client never sees', async () => {
    const facade = await startFacade()
    const [, , modern] = SIGN_IN_CLIENTS
    if (modern === undefined) throw new Error('no client')
    const signedIn = new SignedIn(modern, facade.resource, { user: user() })
    await signedIn.connect()
    const result = await signedIn.client.callTool({ name: 'upstream', arguments: {} })
    expect(Number(textOf(result))).to.be.greaterThan(20)
    await signedIn.close()
  })

  for (const path of ['', '/auth', '/a/b'])
    it(`the metadata of the issuer with the path '${path}' is served at both forms of both names`, async () => {
      const facade = await startFacade({}, { path })
      for (const name of ['oauth-authorization-server', 'openid-configuration'])
        for (const url of [
          `${facade.origin}/.well-known/${name}${path}`,
          `${facade.issuer}/.well-known/${name}`,
        ]) {
          const response = await fetch(url)
          expect(response.status, url).to.equal(200)
          expect(await response.json()).to.deep.include({
            issuer: facade.issuer,
            authorization_endpoint: `${facade.issuer}/authorize`,
            token_endpoint: `${facade.issuer}/token`,
            registration_endpoint: `${facade.issuer}/register`,
            revocation_endpoint: `${facade.issuer}/revoke`,
            code_challenge_methods_supported: ['S256'],
            response_types_supported: ['code'],
            response_modes_supported: ['query'],
            grant_types_supported: ['authorization_code', 'refresh_token'],
            authorization_response_iss_parameter_supported: true,
            client_id_metadata_document_supported: true,
            scopes_supported: ['openid', 'offline_access', 'mcp:read', 'mcp:write'],
          })
        }
      const { status } = await facade.connect()
      expect(status).to.equal(200)
    })

  for (const path of ['', '/auth'])
    it(`a request without resource and scope to an issuer with the path '${path}' gets the only resource and all scopes`, async () => {
      const facade = await startFacade({}, { path })
      const client = await facade.register()
      const url = facade.authorizeUrl(client, { resource: undefined, scope: undefined })
      const { body } = await facade.token(codeGrant(client, (await facade.signIn(url)).get('code')))
      expect(decodeJwt(body.access_token)).to.include({ aud: facade.resource, scope: 'mcp:read mcp:write' })
    })

  it('a request without resource is invalid_target if there are several resources', async () => {
    const facade = await startFacade({ resource: ['https://a.example.com/mcp', 'https://b.example.com/mcp'] })
    const client = await facade.register()
    const { url } = await new Browser().open(
      facade.authorizeUrl(client, { resource: undefined }).href,
      toClient,
    )
    expect(new URL(url).searchParams.get('error')).to.equal('invalid_target')
    const parameters = await facade.signIn(
      facade.authorizeUrl(client, { resource: 'https://b.example.com/mcp' }),
    )
    const { body } = await facade.token(codeGrant(client, parameters.get('code')))
    expect(decodeJwt(body.access_token).aud).to.equal('https://b.example.com/mcp')
  })

  it('a user of GitHub signs in with the id of the account and the verified address', async () => {
    let hub: Awaited<ReturnType<typeof startGithub>> | undefined
    const seen: AllowInput[] = []
    const allow = (input: AllowInput): boolean => seen.push(input) > 0
    const upstream = async (callback: string) => {
      hub = await startGithub(callback)
      const { baseUrl, clientId, clientSecret } = hub
      return github({ baseUrl, clientId, clientSecret })
    }
    const facade = await startFacade({ allow }, { upstream })
    const { body } = await facade.connect()
    expect(decodeJwt(body.access_token).sub).to.equal('github|583231')
    expect(seen).to.deep.equal([
      {
        provider: 'github',
        claims: { sub: '583231', login: 'ada', name: 'Ada', email: 'ada@example.com', email_verified: true },
      },
    ])
    await hub?.close()
  })

  for (const [what, allow, description] of [
    ['false', () => false, 'This account may not sign in'],
    ['a reason', () => ({ deny: 'Ask "Grace"' }), 'Ask  Grace '],
    ['a value that is not true', () => 'yes' as unknown as boolean, 'This account may not sign in'],
  ] as const)
    it(`a user for whom allow returns ${what} gets no consent page, and the client gets access_denied`, async () => {
      const facade = await startFacade({ allow })
      const client = await facade.register()
      const { url } = await new Browser().open(facade.authorizeUrl(client).href, toClient)
      const parameters = new URL(url).searchParams
      expect(parameters.get('error')).to.equal('access_denied')
      expect(parameters.get('error_description')).to.equal(description)
    })

  it('a user whom allow denies later loses the access with the next refresh', async () => {
    let allowed = true
    const facade = await startFacade({ allow: () => allowed })
    const client = await facade.register()
    const first = await facade.connect(client)
    const second = await facade.token(refreshGrant(client, first.body.refresh_token))
    expect(second.status).to.equal(200)
    allowed = false
    const third = await facade.token(refreshGrant(client, second.body.refresh_token))
    expect([third.status, third.body.error]).to.deep.equal([400, 'invalid_grant'])
  })

  it('a provider that is down makes the sign-in temporarily_unavailable, with an event', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().addTransport(recorder).build()
    const facade = await startFacade({ telemetry })
    await facade.provider?.close()
    const { url } = await new Browser().open(facade.authorizeUrl(await facade.register()).href, toClient)
    expect(new URL(url).searchParams.get('error')).to.equal('temporarily_unavailable')
    await telemetry.shutdown()
    const refused = recorder.events().filter(({ level }) => level === 'warn')
    expect(refused.map(({ name, attributes }) => [name, attributes])).to.deep.equal([
      ['kit.authorization.signin.refused', { provider: 'oidc', reason: 'provider_failed' }],
    ])
  })

  for (const kind of ['AuthorizationCode', 'RefreshToken'])
    it(`concurrent requests with the same ${kind} revoke the grant if a refresh token has no grace`, async () => {
      const recorder = createTelemetryRecorder()
      const telemetry = KitTelemetry.create().addTransport(recorder).build()
      const store = memoryStore()
      const get = store.get
      // As if both requests had looked before one of them has used it.
      store.get = async (key) => (key.startsWith(`Used${kind}:`) ? undefined : await get(key))
      const facade = await startFacade({ store, telemetry, tokens: ONE_USE })
      const client = await facade.register()
      const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
      const first = await facade.token(codeGrant(client, code))
      const grant =
        kind === 'RefreshToken' ? refreshGrant(client, first.body.refresh_token) : codeGrant(client, code)
      const latest = kind === 'RefreshToken' ? await facade.token(grant) : first
      expect(latest.status).to.equal(200)
      expect((await facade.token(grant)).body.error).to.equal('invalid_grant')
      const after = await facade.token(refreshGrant(client, latest.body.refresh_token))
      expect([after.status, after.body.error]).to.deep.equal([400, 'invalid_grant'])
      await telemetry.shutdown()
      const reused = recorder.events().filter(({ name }) => name === 'kit.authorization.refresh.reused')
      expect(reused).to.have.length(kind === 'RefreshToken' ? 1 : 0)
    })

  it('a client that registers dpop_bound_access_tokens gets no token without a DPoP proof', async () => {
    const facade = await startFacade()
    const client = await facade.register({ dpop_bound_access_tokens: true })
    expect(client.dpop_bound_access_tokens).to.equal(true)
    const { status, body } = await facade.connect(client)
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant'])
  })

  it('clients that registered are unknown after unusedTtlDays if they never finished a sign-in', async () => {
    const ttls = new Map<string, number>()
    const store: AuthorizationStore = memoryStore()
    const set = store.set
    store.set = async (key, value, ttlMs) => {
      ttls.set(key.slice(0, key.indexOf(':')), ttlMs / 86_400_000)
      await set(key, value, ttlMs)
    }
    const facade = await startFacade({ store, clients: { unusedTtlDays: 7 } })
    const client = await facade.register()
    expect(ttls.get('NewClient')).to.equal(7)
    expect(ttls.has('Client')).to.equal(false)
    await facade.signIn(facade.authorizeUrl(client))
    expect(ttls.get('Client')).to.equal(365)
  })

  it('the store sees neither tokens nor users nor clients', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await startFacade({ store })
    const { client, code, body } = await facade.connect()
    const text = store.written.join('\n')
    expect(store.written.length).to.be.greaterThan(10)
    // Short names can occur in encrypted values by chance, but not with these characters next to them.
    for (const secret of [client.client_id, String(code), body.refresh_token, '|ada', '"ada', '"Desk'])
      expect(text.includes(secret), secret).to.equal(false)
  })

  it('a rotated key signs new tokens, and sign-ins with the old keys go on', async () => {
    const store = memoryStore()
    const resource = 'https://mcp.example.com/mcp'
    const [oldKey, oldSecret] = [newKey('old'), newSecret()]
    const before = await startFacade({
      store,
      resource,
      keys: { signing: [oldKey], encryption: [oldSecret] },
    })
    const client = await before.register()
    const first = await before.connect(client, { resource })
    const keys = { signing: [newKey('new'), oldKey], encryption: [newSecret(), oldSecret] }
    const after = await startFacade({ store, resource, keys })
    const second = await after.token(refreshGrant(client, first.body.refresh_token))
    expect(second.status, JSON.stringify(second.body)).to.equal(200)
    expect(decodeProtectedHeader(second.body.access_token).kid).to.equal('new')
    const { keys: published } = (await (await fetch(`${after.issuer}/jwks`)).json()) as { keys: JWK[] }
    expect(published.map(({ kid, d }) => [kid, d])).to.deep.equal([
      ['new', undefined],
      ['old', undefined],
    ])
  })

  for (const [alg, type, options] of [
    ['ES384', 'ec', { namedCurve: 'P-384' }],
    ['EdDSA', 'ed25519', {}],
    ['RS256', 'rsa', { modulusLength: 2048 }],
  ] as const)
    it(`a key for ${alg} without kid signs tokens that the MCP server accepts`, async () => {
      const { privateKey } = generateKeyPairSync(type as 'rsa', options as { modulusLength: 2048 })
      const signing = [privateKey.export({ format: 'jwk' }) as JWK]
      const facade = await startFacade({ keys: { signing, encryption: [newSecret()] } })
      const [, , modern] = SIGN_IN_CLIENTS
      if (modern === undefined) throw new Error('no client')
      const signedIn = new SignedIn(modern, facade.resource, { user: user() })
      expect(await signedIn.connect()).to.equal(modern.revision)
      await signedIn.close()
    })

  it('one event is emitted for each step of a sign-in, without secrets', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(recorder).build()
    const facade = await startFacade({ telemetry, tokens: ONE_USE })
    const { client, code, body } = await facade.connect()
    await facade.token(refreshGrant(client, body.refresh_token))
    await facade.token(refreshGrant(client, body.refresh_token))
    await telemetry.shutdown()
    const events = recorder.events().filter(({ name }) => name.startsWith('kit.authorization.'))
    expect(events.map(({ name }) => name.slice('kit.authorization.'.length))).to.deep.equal([
      'client.registered',
      'consent.given',
      'token.issued',
      'token.issued',
      'revoked',
      'refresh.reused',
      'token.refused',
    ])
    const text = JSON.stringify(events)
    for (const secret of [String(code), body.refresh_token, body.access_token])
      expect(text).not.to.contain(secret)
  })

  it('a confidential client that is registered in advance authenticates with its secret', async () => {
    const desk = { clientId: 'desk', clientSecret: newSecret(), redirectUris: [CALLBACK] }
    const facade = await startFacade({
      clients: { registration: false, metadataDocuments: false, static: [desk] },
    })
    const client = { client_id: desk.clientId }
    const grant = codeGrant(client, (await facade.signIn(facade.authorizeUrl(client))).get('code'))
    expect((await facade.token(grant)).status).to.equal(401)
    const basic = Buffer.from(`${desk.clientId}:${desk.clientSecret}`).toString('base64')
    const reply = await facade.token(grant, { authorization: `Basic ${basic}` })
    expect(reply.status, JSON.stringify(reply.body)).to.equal(200)
    expect((await fetch(`${facade.issuer}/register`, { method: 'POST' })).status).to.equal(404)
    const metadata = await fetch(`${facade.issuer}/.well-known/oauth-authorization-server`)
    expect(await metadata.json()).not.to.have.any.keys(
      'registration_endpoint',
      'client_id_metadata_document_supported',
    )
  })

  it('a script of another origin may register and ask for tokens, but gets no cookies', async () => {
    const facade = await startFacade()
    const headers = { origin: 'https://inspector.example.com', 'access-control-request-method': 'POST' }
    for (const path of ['/register', '/token']) {
      const response = await fetch(facade.issuer + path, { method: 'OPTIONS', headers })
      expect(response.status).to.equal(204)
      expect(response.headers.get('access-control-allow-origin')).to.be.oneOf(['*', headers.origin])
      expect(response.headers.get('access-control-allow-credentials')).to.equal(null)
    }
  })

  it('a script of another origin cannot read the authorization endpoint', async () => {
    const facade = await startFacade()
    const url = facade.authorizeUrl(await facade.register())
    const headers = { origin: 'https://inspector.example.com', 'access-control-request-method': 'GET' }
    for (const method of ['GET', 'OPTIONS']) {
      const response = await fetch(url, { method, headers, redirect: 'manual' })
      expect(response.headers.get('access-control-allow-origin'), method).to.equal(null)
    }
  })

  it('a facade behind the body parsers of Express registers clients, takes consent, and issues tokens', async () => {
    const facade = await startFacade({}, { parsesBodies: true })
    const client = await facade.register()
    const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
    expect((await facade.token(codeGrant(client, code))).status).to.equal(200)
  })

  it('requests for other paths are passed on', async () => {
    const facade = await startFacade({}, { path: '/auth' })
    for (const path of [
      '/token',
      '/authorize',
      '/auth',
      '/auth/other',
      '/author/token',
      '/.well-known/openid-configuration',
    ])
      expect((await fetch(facade.origin + path)).status, path).to.equal(404)
  })

  it('a facade whose url is not loopback warns about memory and keys', async () => {
    const warned: string[] = []
    const listener = (warning: Error): void => void warned.push(warning.message)
    process.on('warning', listener)
    const { upstream, ...options } = {
      url: 'https://mcp.example.com',
      resource: 'https://mcp.example.com/mcp',
      upstream: google({ clientId: 'a', clientSecret: 'b' }),
      scopes: { 'mcp:read': 'Read' },
      allow: 'everyone',
    } as const
    authorizationFacade({ ...options, upstream })
    await new Promise(setImmediate)
    process.off('warning', listener)
    const own = warned.filter((message) => message.startsWith('authorizationFacade'))
    expect(own).to.have.length(2)
    expect(own.join())
      .to.match(/option store/)
      .and.to.match(/option keys/)
  })

  it('a token of the provider that is about to expire is refreshed, once for concurrent calls', async () => {
    const facade = await startFacade({}, { scopes: ['openid', 'offline_access'] })
    facade.provider?.expireTokens()
    const { body } = await facade.connect()
    const call = async (): Promise<string> => await (await facade.call(body.access_token, 'upstream')).text()
    const texts = await Promise.all([call(), call(), call()])
    expect(texts[0]).to.match(/"text":"\d+"/)
    expect(new Set(texts).size).to.equal(1)
  })

  describe('with Redis', () => {
    let redis: RedisServer
    before(async function () {
      skipIf(this, redisMissing())
      redis = await startRedis()
    })
    after(() => redis?.stop())

    for (const kind of REDIS_CLIENTS)
      it(`two nodes with ${kind.name} share clients, codes, and refresh tokens, also after Redis was killed`, async () => {
        const connections = await Promise.all([kind.connect(redis.port), kind.connect(redis.port)])
        const resource = 'https://mcp.example.com/mcp'
        const keys = { signing: [newKey('one')], encryption: [newSecret()] }
        const [one, two] = await Promise.all(
          connections.map((client) =>
            startFacade({ resource, keys, store: redisStore(client as never), tokens: ONE_USE }),
          ),
        )
        if (one === undefined || two === undefined) throw new Error('no node')
        const client = await one.register()
        const url = two.authorizeUrl(client, { resource })
        const code = (await two.signIn(url)).get('code')
        const first = await one.token(codeGrant(client, code))
        await redis.kill()
        await redis.start()
        const token = String(first.body.refresh_token)
        expect((await two.token(refreshGrant(client, token))).status).to.equal(200)
        expect((await one.token(refreshGrant(client, token))).status).to.equal(400)
        for (const connection of connections) connection.end()
      })

    it('a token request while Redis is down is 503, and the same request works when Redis is back', async () => {
      const connection = await (REDIS_CLIENTS[0] as (typeof REDIS_CLIENTS)[0]).connect(redis.port)
      const facade = await startFacade({ store: redisStore(connection as never) })
      const client = await facade.register()
      const grant = codeGrant(client, (await facade.signIn(facade.authorizeUrl(client))).get('code'))
      await redis.kill()
      const { status, body } = await facade.token(grant)
      expect([status, body.error]).to.deep.equal([503, 'temporarily_unavailable'])
      await redis.start()
      // The code was stored in a file, and nothing has used it.
      expect((await facade.token(grant)).status).to.equal(200)
      connection.end()
    })

    for (const kind of REDIS_CLIENTS)
      it(`of two nodes with ${kind.name} that get a code, a refresh token, or an assertion at the same time, one issues a token`, async () => {
        const connections = await Promise.all([kind.connect(redis.port), kind.connect(redis.port)])
        const company = await startIdentityProvider()
        const url = 'https://mcp.example.com'
        const [resource, secret] = [`${url}/mcp`, newSecret()]
        const options = {
          resource,
          keys: { signing: [newKey('one')], encryption: [newSecret()] },
          tokens: ONE_USE,
          clients: { static: [{ clientId: 'desk', clientSecret: secret, redirectUris: [CALLBACK] }] },
          identityAssertions: { issuers: [{ issuer: company.issuer }] },
        }
        const nodes = await Promise.all(
          connections.map((client) => startFacade({ ...options, store: redisStore(client as never) })),
        )
        const [one] = nodes
        if (one === undefined) throw new Error('no node')
        const client = await one.register()
        const successes = async (
          grants: (node: TestFacade) => Promise<TokenReply>[],
        ): Promise<TokenReply[]> =>
          (await Promise.all(nodes.flatMap(grants))).filter(({ status }) => status === 200)
        const code = (await one.signIn(one.authorizeUrl(client, { resource }))).get('code')
        const times = <T>(action: () => T): T[] => Array.from({ length: 4 }, action)
        const [tokens, ...others] = await successes((node) =>
          times(() => node.token(codeGrant(client, code))),
        )
        expect(others).to.deep.equal([])
        const refresh = refreshGrant(client, tokens?.body.refresh_token)
        expect((await successes((node) => times(() => node.token(refresh)))).length).to.be.at.most(1)
        // An assertion names one issuer, and both nodes have an address of their own in this test.
        const assertion = await company.assertion({ aud: one.issuer, client_id: 'desk', resource })
        const same = await startFacade({
          ...options,
          url: one.issuer,
          store: redisStore(connections[1] as never),
        })
        const grant = { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion }
        const authorization = `Basic ${Buffer.from(`desk:${secret}`).toString('base64')}`
        const replies = await Promise.all(
          [one, same].flatMap(({ origin }) =>
            times(() =>
              fetch(`${origin}/token`, {
                method: 'POST',
                body: new URLSearchParams(grant),
                headers: { authorization },
              }),
            ),
          ),
        )
        expect(replies.filter(({ status }) => status === 200)).to.have.length(1)
        expect(replies.filter(({ status }) => status === 400)).to.have.length(7)
        await company.close()
        for (const connection of connections) connection.end()
      })
  })

  it('a closed facade responds with 503, and with a page to browsers', async () => {
    const facade = await startFacade()
    await facade.facade.close()
    expect((await fetch(`${facade.issuer}/jwks`)).status).to.equal(503)
    const page = await fetch(`${facade.issuer}/authorize`, { headers: { accept: 'text/html,*/*' } })
    expect([page.status, page.headers.get('retry-after')]).to.deep.equal([503, '5'])
    expect(await page.text()).to.include('This service is temporarily unavailable')
  })
})
