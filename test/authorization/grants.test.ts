import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { expect } from 'chai'
import express from 'express'
import { decodeJwt, type JWK } from 'jose'
import { stop } from '../../examples/listen.ts'
import { createFacade } from '../../src/authorization/facade.ts'
import {
  type AuthorizationFacadeOptions,
  type AuthorizationStore,
  memoryStore,
  oidc,
} from '../../src/authorization/index.ts'
import { Records } from '../../src/authorization/records.ts'
import { type AuthInfo, createMcpAdapter, KitMcpRouter, KitTelemetry, mcpServer } from '../../src/index.ts'
import { createTelemetryRecorder } from '../../src/testing/index.ts'
import { Browser } from '../support/authorization/browser.ts'
import {
  CALLBACK,
  codeGrant,
  SCOPES,
  startFacade,
  type TestFacade,
  type TokenReply,
  toClient,
} from '../support/authorization/facade.ts'
import { startIdentityProvider } from '../support/authorization/identity-provider.ts'
import { interruptedStore } from '../support/authorization/interrupted-store.ts'

const SUB = 'oidc|ada'

interface Grant {
  readonly client: { readonly client_id: string }
  readonly id: string
  readonly accessToken: string
  readonly refreshToken: string
}

/** Another node of the same server: its gate is asked by its own MCP endpoint. */
interface Node {
  readonly facade: TestFacade['facade']
  readonly origin: string
}

const key = (): JWK => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return { ...(privateKey.export({ format: 'jwk' }) as JWK), kid: 'one' }
}

const KEYS = { signing: [key()], encryption: [randomBytes(32).toString('base64url')] }

async function callStatus(origin: string, token: string): Promise<number> {
  const response = await fetch(`${origin}/mcp`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-06-18',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'who', arguments: {} },
    }),
  })
  await response.text()
  return response.status
}

describe('facade.grants', () => {
  const open: { close(): Promise<unknown> }[] = []
  async function start(options: Partial<AuthorizationFacadeOptions> = {}): Promise<TestFacade> {
    return await startFacade({ keys: KEYS, grants: { accessSeconds: 1 }, ...options })
  }
  afterEach(async () => {
    await Promise.all(open.splice(0).map((one) => one.close()))
  })

  /** Starts a second node with the url of the first one. */
  async function startNode(
    first: TestFacade,
    store: AuthorizationStore,
    options: Partial<AuthorizationFacadeOptions> = {},
  ): Promise<Node> {
    const app = express()
    const server = createServer(app)
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve)
    })
    open.push({ close: () => stop(server) })
    const { port } = server.address() as { port: number }
    const { issuer = '', clientId = '', clientSecret = '' } = first.provider ?? {}
    const facade = createFacade(
      {
        url: first.issuer,
        resource: first.resource,
        upstream: oidc({ issuer, clientId, clientSecret }),
        scopes: SCOPES,
        allow: 'everyone',
        keys: KEYS,
        store,
        grants: { accessSeconds: 1 },
        ...options,
      },
      {},
    )
    const router = KitMcpRouter.create().tool('who', { description: 'Answers' }, async () => 'yes')
    app.use(facade.router)
    app.use(mcpServer(createMcpAdapter({ router, oauth: facade.oauth })))
    return { facade, origin: `http://127.0.0.1:${port}` }
  }

  async function connect(
    facade: TestFacade,
    metadata: object = {},
    changes: Record<string, string> = {},
  ): Promise<Grant> {
    const client = await facade.register(metadata)
    return await connectAgain(facade, client, changes)
  }

  async function connectAgain(
    facade: TestFacade,
    client: { readonly client_id: string },
    changes: Record<string, string> = {},
  ): Promise<Grant> {
    const parameters = await facade.signIn(facade.authorizeUrl(client, changes))
    const { status, body } = await facade.token(codeGrant(client, parameters.get('code')))
    expect(status, JSON.stringify(body)).to.equal(200)
    const { gid } = decodeJwt(body.access_token)
    return {
      client,
      id: String(gid),
      accessToken: body.access_token,
      refreshToken: body.refresh_token,
    }
  }

  function refresh(facade: TestFacade, { client, refreshToken }: Grant): Promise<TokenReply> {
    return facade.refresh(client, refreshToken)
  }

  async function expectDead(facade: TestFacade, grant: Grant, origins: readonly string[]): Promise<void> {
    const { status, body } = await refresh(facade, grant)
    expect([status, body.error]).to.deep.equal([400, 'invalid_grant'])
    await setTimeout(1_000)
    for (const origin of origins) expect(await callStatus(origin, grant.accessToken)).to.equal(401)
  }

  it('list returns the live grants of a user with their clients, scopes, and times', async () => {
    const facade = await start()
    expect(await facade.facade.grants.list(SUB)).to.deep.equal([])
    const before = Date.now()
    const one = await connect(facade, { client_name: 'Desk' })
    const two = await connect(facade, { client_name: 'Phone' }, { scope: 'mcp:read mcp:write' })
    await refresh(facade, one)
    const found = await facade.facade.grants.list(SUB)
    expect(
      found.map(({ id, client, scopes, resources }) => ({ id, client, scopes, resources })),
    ).to.deep.equal([
      {
        id: one.id,
        client: { id: one.client.client_id, name: 'Desk', host: '127.0.0.1:53682' },
        scopes: ['mcp:read'],
        resources: [facade.resource],
      },
      {
        id: two.id,
        client: { id: two.client.client_id, name: 'Phone', host: '127.0.0.1:53682' },
        scopes: ['mcp:read', 'mcp:write'],
        resources: [facade.resource],
      },
    ])
    for (const { createdAt, lastUsedAt } of found) {
      expect(createdAt).to.match(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
      expect(Date.parse(createdAt)).to.be.within(before, Date.now())
      expect(Date.parse(lastUsedAt)).to.be.within(Date.parse(createdAt), Date.now())
    }
    expect(await facade.facade.grants.list('oidc|grace')).to.deep.equal([])
  })

  it('revoke ends one grant of its user on both nodes, and no other one', async () => {
    const store = memoryStore()
    const facade = await start({ store })
    const node = await startNode(facade, store)
    const [one, two] = [await connect(facade), await connect(facade)]
    for (const origin of [facade.origin, node.origin])
      expect(await callStatus(origin, one.accessToken)).to.equal(200)
    expect(await node.facade.grants.revoke('oidc|grace', one.id), 'another user').to.equal(false)
    expect(await node.facade.grants.revoke(SUB, 'unknown')).to.equal(false)
    expect(await node.facade.grants.revoke(SUB, one.id)).to.equal(true)
    expect(await node.facade.grants.revoke(SUB, one.id), 'a second time').to.equal(false)
    await expectDead(facade, one, [facade.origin, node.origin])
    expect(await callStatus(node.origin, two.accessToken)).to.equal(200)
    expect((await node.facade.grants.list(SUB)).map(({ id }) => id)).to.deep.equal([two.id])
    expect((await refresh(facade, two)).status).to.equal(200)
  })

  const revokeAll: Record<string, (facade: TestFacade['facade'], client: string) => Promise<number>> = {
    revokeUser: (facade) => facade.grants.revokeUser(SUB),
    revokeClient: (facade, client) => facade.grants.revokeClient(client),
  }
  for (const [name, revoke] of Object.entries(revokeAll)) {
    it(`${name} ends grants and codes on both nodes, and the user can sign in again at once`, async () => {
      const store = memoryStore()
      const facade = await start({ store })
      const node = await startNode(facade, store)
      const one = await connect(facade)
      const two = await connectAgain(facade, one.client)
      const code = (await facade.signIn(facade.authorizeUrl(one.client))).get('code')
      expect(await revoke(node.facade, one.client.client_id)).to.be.within(2, 3)
      expect(await facade.facade.grants.list(SUB)).to.deep.equal([])
      expect((await facade.token(codeGrant(one.client, code))).status, 'the code').to.equal(400)
      const again = await connectAgain(facade, one.client)
      await expectDead(facade, one, [facade.origin, node.origin])
      await expectDead(facade, two, [facade.origin, node.origin])
      expect(await callStatus(node.origin, again.accessToken)).to.equal(200)
      expect((await refresh(facade, again)).status).to.equal(200)
      expect(await revoke(facade.facade, one.client.client_id)).to.equal(1)
    })

    it(`${name} on another node makes a consent page that is open worthless`, async () => {
      const store = memoryStore()
      const facade = await start({ store })
      const node = await startNode(facade, store)
      const { client } = await connect(facade)
      const browser = new Browser()
      const page = await browser.open(facade.authorizeUrl(client).href, toClient)
      expect(page.body).to.contain('decision')
      await revoke(node.facade, client.client_id)
      const { url } = await browser.submit(page, 'allow', toClient)
      expect(new URL(url).searchParams.get('error')).to.equal('access_denied')
      expect(await facade.facade.grants.list(SUB)).to.deep.equal([])
      await connectAgain(facade, client)
      expect(await facade.facade.grants.list(SUB)).to.have.length(1)
    })

    it(`${name} ends a grant of version 0.2`, async () => {
      const store = memoryStore()
      const facade = await start({ store })
      const one = await connect(facade)
      // Version 0.2 described no grants.
      const records = new Records(store, KEYS.encryption)
      await records.delete('GrantSummary', one.id)
      await records.delete('GrantUse', one.id)
      await revoke(facade.facade, one.client.client_id)
      await expectDead(facade, one, [facade.origin])
    })

    it(`${name} ends remembered consents`, async () => {
      const redirectUri = 'https://desk.example.com/cb'
      const facade = await start({
        clients: { static: [{ clientId: 'desk', redirectUris: [redirectUri] }] },
      })
      const browser = new Browser()
      const isDone = (url: string): boolean => url.startsWith(redirectUri)
      const open = () =>
        browser.open(facade.authorizeUrl({ client_id: 'desk' }, { redirect_uri: redirectUri }).href, isDone)
      await browser.submit(await open(), 'allow', isDone)
      expect(isDone((await open()).url), 'the consent is remembered').to.equal(true)
      await revoke(facade.facade, 'desk')
      const page = await open()
      expect(isDone(page.url), 'the consent is asked for').to.equal(false)
      await browser.submit(page, 'allow', isDone)
      expect(isDone((await open()).url), 'a new consent is remembered').to.equal(true)
    })

    it(`${name} ends the tokens of identity assertions, and not those that follow`, async () => {
      const company = await startIdentityProvider()
      open.push(company)
      const facade = await start({
        clients: { static: [{ clientId: 'desk', clientSecret: 's'.repeat(40), redirectUris: [CALLBACK] }] },
        identityAssertions: { issuers: [{ issuer: company.issuer }] },
      })
      const sub = `${company.issuer}|ada`
      const token = async (): Promise<string> => {
        const assertion = await company.assertion({
          aud: facade.issuer,
          client_id: 'desk',
          resource: facade.resource,
        })
        const { body } = await facade.token(
          { grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', assertion },
          { authorization: `Basic ${Buffer.from(`desk:${'s'.repeat(40)}`).toString('base64')}` },
        )
        return String(body.access_token)
      }
      const one = await token()
      expect(await callStatus(facade.origin, one)).to.equal(200)
      if (name === 'revokeUser') await facade.facade.grants.revokeUser(sub)
      else await facade.facade.grants.revokeClient('desk')
      const two = await token()
      await setTimeout(1_000)
      expect(await callStatus(facade.origin, one)).to.equal(401)
      expect(await callStatus(facade.origin, two)).to.equal(200)
    })
  }

  it('a call with a token whose grant has ended is refused because it is not active', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().addTransport(recorder).build()
    const facade = await start()
    const grant = await connect(facade)
    await facade.facade.grants.revoke(SUB, grant.id)
    const adapter = createMcpAdapter({
      router: KitMcpRouter.create(),
      oauth: facade.facade.oauth,
      telemetry,
    })
    const headers = { authorization: `Bearer ${grant.accessToken}` }
    const { status } = await adapter.server(new Request(facade.resource, { method: 'POST', headers }))
    expect(status).to.equal(401)
    await telemetry.flush()
    const [refused] = recorder.events().filter(({ name }) => name === 'kit.mcp.auth.refused')
    expect(refused?.attributes).to.include({ reason: 'invalid', 'kit.mcp.auth.invalid.cause': 'not_active' })
  })

  it('two nodes that refresh the same token of the provider do it one after the other', async () => {
    const store = memoryStore()
    const facade = await startFacade(
      { store, keys: KEYS, allow: 'everyone' },
      { scopes: ['openid', 'offline_access'] },
    )
    const node = await startNode(facade, store)
    facade.provider?.expireTokens()
    const { accessToken } = await connect(facade)
    const auth = { token: accessToken, user: { claims: decodeJwt(accessToken) } } as unknown as AuthInfo
    // The provider accepts each refresh token once.
    const found = await Promise.all([
      facade.facade.upstreamToken.for(auth),
      node.facade.upstreamToken.for(auth),
    ])
    expect(new Set(found.map(({ token }) => token)).size).to.equal(2)
  })

  it('every way to end a grant emits one event with its cause, and ends access tokens', async () => {
    const recorder = createTelemetryRecorder()
    let isAllowed = true
    const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(recorder).build()
    const facade = await start({ allow: () => isAllowed, telemetry })
    const ways: Record<string, (grant: Grant) => Promise<unknown>> = {
      application: ({ id }) => facade.facade.grants.revoke(SUB, id),
      client: ({ client, refreshToken }) =>
        fetch(`${facade.issuer}/revoke`, {
          method: 'POST',
          body: new URLSearchParams({ client_id: client.client_id, token: refreshToken }),
        }),
      allow: async (grant) => {
        isAllowed = false
        await refresh(facade, grant)
        isAllowed = true
      },
    }
    const grants: Grant[] = []
    for (const way of Object.values(ways)) {
      const grant = await connect(facade)
      grants.push(grant)
      await way(grant)
    }
    await telemetry.flush()
    const found = recorder
      .events()
      .filter(({ name }) => name === 'kit.authorization.revoked')
      .map(({ attributes }) => attributes)
    expect(found).to.deep.equal(
      Object.keys(ways).map((by, at) => ({ client: grants[at]?.client.client_id, subject: SUB, by })),
    )
    for (const grant of grants) await expectDead(facade, grant, [facade.origin])
  })

  it('a code that is used twice ends access tokens, with the cause reuse', async () => {
    const facade = await start()
    const { client, code, body } = await facade.connect()
    expect((await facade.token(codeGrant(client, code))).status).to.equal(400)
    await setTimeout(1_000)
    expect(await callStatus(facade.origin, body.access_token)).to.equal(401)
  })

  it('a refresh that is running when revoke resolves fails, whichever command of the store it waits for', async () => {
    const plain = memoryStore()
    let held: (() => void) | undefined
    let isHeld: (() => void) | undefined
    let at = -1
    const command =
      (name: keyof AuthorizationStore) =>
      async (...args: unknown[]): Promise<any> => {
        // The facade notes after its response that the client is in use.
        if (!/^(?:New)?Client:/.test(String(args[0])) && at-- === 0)
          await new Promise<void>((resolve) => {
            held = resolve
            isHeld?.()
          })
        return await (plain[name] as (...all: unknown[]) => Promise<unknown>)(...args)
      }
    const store = Object.fromEntries(
      (['get', 'set', 'add', 'take', 'delete'] as const).map((name) => [name, command(name)]),
    ) as unknown as AuthorizationStore
    const facade = await start({ store })
    let heldCount = 0
    for (let index = 0; index < 40; index++) {
      const grant = await connect(facade)
      const holding = new Promise<void>((resolve) => {
        isHeld = resolve
      })
      at = index
      const reply = refresh(facade, grant)
      const winner = await Promise.race([holding.then(() => 'held' as const), reply])
      at = -1
      if (winner !== 'held') break
      heldCount++
      expect(await facade.facade.grants.revoke(SUB, grant.id)).to.equal(true)
      held?.()
      expect((await reply).status, `held at command ${index}`).to.equal(400)
    }
    expect(heldCount).to.be.above(5)
  })

  it('a gate sends at most one command for each grant and accessSeconds, also for concurrent calls', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await start({ store, grants: { accessSeconds: 600 } })
    const [one, two] = [await connect(facade), await connect(facade)]
    store.interrupt()
    const calls = Array.from({ length: 20 }, (_, index) =>
      callStatus(facade.origin, (index % 2 === 0 ? one : two).accessToken),
    )
    expect(new Set(await Promise.all(calls))).to.deep.equal(new Set([200]))
    // The facade notes after its response that the client is in use.
    const commands = store.commands.filter((command) => !command.endsWith('Client'))
    expect(commands).to.deep.equal(['get GrantSummary', 'get GrantSummary'])
  })

  it('while the store fails, tokens stay valid, a known end stays, and all methods reject', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await start({ store })
    const [one, two] = [await connect(facade), await connect(facade)]
    await facade.facade.grants.revoke(SUB, one.id)
    expect(await callStatus(facade.origin, one.accessToken)).to.equal(401)
    store.isDown = true
    await setTimeout(1_000)
    expect(await callStatus(facade.origin, one.accessToken)).to.equal(401)
    expect(await callStatus(facade.origin, two.accessToken)).to.equal(200)
    const { grants } = facade.facade
    for (const call of [
      () => grants.list(SUB),
      () => grants.revoke(SUB, two.id),
      () => grants.revokeUser(SUB),
      () => grants.revokeClient(two.client.client_id),
    ])
      expect(
        await call().then(
          () => 'resolved',
          ({ name }: Error) => name,
        ),
      ).to.equal('TemporarilyUnavailableError')
    store.isDown = false
    expect(await grants.revoke(SUB, two.id)).to.equal(true)
  })

  it('revoke that failed at any command of the store can be repeated', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await start({ store })
    for (let index = 0; ; index++) {
      const grant = await connect(facade)
      store.interrupt(index)
      const isDone = await facade.facade.grants.revoke(SUB, grant.id).then(
        () => true,
        () => false,
      )
      store.interrupt()
      if (!isDone) await facade.facade.grants.revoke(SUB, grant.id)
      expect((await refresh(facade, grant)).status, `failed at command ${index}`).to.equal(400)
      expect(await facade.facade.grants.list(SUB)).to.deep.equal([])
      if (isDone) break
    }
  })

  for (const value of ['', undefined, 7])
    it(`the argument ${JSON.stringify(value)} is an error`, async () => {
      const { grants } = (await start()).facade
      const bad = value as string
      for (const call of [
        () => grants.list(bad),
        () => grants.revoke(bad, 'id'),
        () => grants.revoke(SUB, bad),
        () => grants.revokeUser(bad),
        () => grants.revokeClient(bad),
      ])
        expect(
          await call().then(
            () => '',
            ({ name }: Error) => name,
          ),
        ).to.equal('KitMcpConfigError')
    })

  it('a user has at most 64 grants: another one ends the one that was not used for the longest time', async function () {
    this.timeout(120_000)
    const store = memoryStore()
    const facade = await start({ store })
    const first = await connect(facade)
    const second = await connect(facade)
    await refresh(facade, first)
    const client = await facade.register()
    for (let count = 2; count < 65; count++) await facade.signIn(facade.authorizeUrl(client))
    const found = (await facade.facade.grants.list(SUB)).map(({ id }) => id)
    expect(found).to.have.length(64)
    expect(found).to.include(first.id)
    expect(found).not.to.include(second.id)
    await expectDead(facade, second, [facade.origin])
  })

  it('revocations of more users than memoryStore keeps of other kinds are all kept', async function () {
    this.timeout(60_000)
    const store = memoryStore()
    for (let count = 0; count < 10_100; count++) await store.set(`RevokedUser:${count}`, 'x', 60_000)
    expect(await store.get('RevokedUser:0')).to.equal('x')
  })
})
