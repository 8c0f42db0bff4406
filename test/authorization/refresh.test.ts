import { mock } from 'node:test'
import { expect } from 'chai'
import { decodeJwt } from 'jose'
import {
  type AuthorizationStore,
  type AuthorizationTokensOptions,
  memoryStore,
} from '../../src/authorization/index.ts'
import { createKeys } from '../../src/authorization/keys.ts'
import { Records } from '../../src/authorization/records.ts'
import { KitTelemetry } from '../../src/index.ts'
import { createTelemetryRecorder } from '../../src/testing/index.ts'
import {
  CALLBACK,
  codeGrant,
  refreshGrant,
  startFacade,
  type TestFacade,
  type TokenReply,
} from '../support/authorization/facade.ts'
import { INTERRUPTIONS, interruptedStore } from '../support/authorization/interrupted-store.ts'
import { createProofKey, proofFor } from '../support/dpop.ts'

const DAY = 86_400

/** A sequence of refreshes. Token 0 is the one of the sign-in, and each new successor gets the next number. */
interface Sequence {
  readonly what: string
  readonly tokens?: AuthorizationTokensOptions
  /** The token of each refresh, the seconds before it, and the token of the response or the error. */
  readonly steps: readonly (readonly [
    token: number,
    afterSeconds: number,
    result: number | 'invalid_grant',
  ])[]
  readonly events: readonly ('revoked' | 'refresh.reused')[]
}

const SEQUENCES: readonly Sequence[] = [
  {
    what: 'a token that is used again within 60 s returns the same successor',
    steps: [
      [0, 0, 1],
      [0, 30, 1],
      [0, 29.9, 1],
      [1, 0, 2],
      [2, 0, 3],
    ],
    events: [],
  },
  {
    what: 'a token whose successor was used ends the grant, with the event for reuse',
    steps: [
      [0, 0, 1],
      [0, 0, 1],
      [1, 0, 2],
      [0, 0, 'invalid_grant'],
      [2, 0, 'invalid_grant'],
      [1, 0, 'invalid_grant'],
    ],
    events: ['revoked', 'refresh.reused'],
  },
  {
    what: "a token whose successor was used is refused alone with reuse: 'refuse'",
    tokens: { reuse: 'refuse' },
    steps: [
      [0, 0, 1],
      [1, 0, 2],
      [0, 0, 'invalid_grant'],
      [0, 90, 'invalid_grant'],
      [2, 0, 3],
    ],
    events: ['refresh.reused', 'refresh.reused'],
  },
  {
    what: 'a token that is used after 60 s ends the grant without the event for reuse if its successor was not used',
    steps: [
      [0, 0, 1],
      [0, 60, 'invalid_grant'],
      [1, 0, 'invalid_grant'],
    ],
    events: ['revoked'],
  },
  {
    what: "a token that is used after 60 s ends the grant with reuse: 'refuse', too",
    tokens: { reuse: 'refuse' },
    steps: [
      [0, 0, 1],
      [0, 60, 'invalid_grant'],
      [1, 0, 'invalid_grant'],
    ],
    events: ['revoked'],
  },
  {
    what: 'a token that is used again does not begin another 60 s',
    steps: [
      [0, 0, 1],
      [0, 40, 1],
      [0, 40, 'invalid_grant'],
    ],
    events: ['revoked'],
  },
  {
    what: 'a token stays usable for 600 s with refreshGraceSeconds: 600',
    tokens: { refreshGraceSeconds: 600 },
    steps: [
      [0, 0, 1],
      [0, 599, 1],
      [1, 600, 2],
      [1, 599, 2],
    ],
    events: [],
  },
  {
    what: 'a token can be used once with refreshGraceSeconds: 0',
    tokens: { refreshGraceSeconds: 0 },
    steps: [
      [0, 0, 1],
      [0, 0, 'invalid_grant'],
      [1, 0, 'invalid_grant'],
    ],
    events: ['revoked', 'refresh.reused'],
  },
  {
    what: "a token can be used once with refreshGraceSeconds: 0 and reuse: 'refuse', and the grant stays",
    tokens: { refreshGraceSeconds: 0, reuse: 'refuse' },
    steps: [
      [0, 0, 1],
      [0, 0, 'invalid_grant'],
      [1, 0, 2],
    ],
    events: ['refresh.reused'],
  },
]

describe('refresh tokens of authorizationFacade', function () {
  this.timeout(60_000)
  afterEach(async () => {
    mock.timers.reset()
  })

  async function signIn(facade: TestFacade, scope = 'mcp:read', metadata: object = {}) {
    const client = await facade.register(metadata)
    const url = facade.authorizeUrl(client, { scope })
    const code = (await facade.signIn(url)).get('code')
    const { body } = await facade.token(codeGrant(client, code))
    const refresh = (token: unknown, changes: Record<string, string> = {}): Promise<TokenReply> =>
      facade.token({ ...refreshGrant(client, token), ...changes })
    return { client, body, refresh }
  }

  for (const { what, tokens, steps, events } of SEQUENCES)
    it(what, async () => {
      const recorder = createTelemetryRecorder()
      const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(recorder).build()
      const facade = await startFacade({ telemetry, ...(tokens && { tokens }) })
      const { body, refresh } = await signIn(facade)
      mock.timers.enable({ apis: ['Date'], now: Date.now() })
      const known: string[] = [body.refresh_token]
      const accessTokens = new Set([body.access_token])
      for (const [index, [token, afterSeconds, expected]] of steps.entries()) {
        mock.timers.tick(afterSeconds * 1000)
        const reply = await refresh(known[token])
        const step = `step ${index}: ${JSON.stringify(reply.body)}`
        if (typeof expected === 'string') {
          expect([reply.status, reply.body.error], step).to.deep.equal([400, expected])
          continue
        }
        expect(reply.status, step).to.equal(200)
        if (!known.includes(reply.body.refresh_token)) known.push(reply.body.refresh_token)
        expect(known.indexOf(reply.body.refresh_token), step).to.equal(expected)
        expect(accessTokens.has(reply.body.access_token), step).to.equal(false)
        accessTokens.add(reply.body.access_token)
      }
      mock.timers.reset()
      await telemetry.shutdown()
      const names = recorder.events().map(({ name }) => name.slice('kit.authorization.'.length))
      expect(names.filter((name) => name === 'revoked' || name === 'refresh.reused')).to.deep.equal(events)
    })

  async function usesAtTheSameTime(stores: readonly AuthorizationStore[]): Promise<void> {
    const options = { resource: 'https://mcp.example.com/mcp', keys: createKeys() }
    const nodes = await Promise.all(stores.map((store) => startFacade({ ...options, store })))
    const [one, two] = nodes
    if (one === undefined || two === undefined) throw new Error('no node')
    const client = await one.register()
    const url = one.authorizeUrl(client, { resource: options.resource })
    let { body: latest } = await one.token(codeGrant(client, (await one.signIn(url)).get('code')))
    for (let round = 0; round < 3; round++) {
      const grant = refreshGrant(client, latest.refresh_token)
      const replies = await Promise.all([one, two, one, two, one, two].map((node) => node.token(grant)))
      expect(replies.map(({ status }) => status)).to.deep.equal(replies.map(() => 200))
      expect(new Set(replies.map(({ body }) => body.refresh_token))).to.have.length(1)
      expect(new Set(replies.map(({ body }) => body.access_token))).to.have.length(6)
      latest = replies[0]?.body as typeof latest
    }
  }

  it('parallel refreshes at two nodes with one store return one successor and leave no others in the store', async () => {
    const store = memoryStore()
    const stored = new Set<string>()
    const { set, delete: remove } = store
    store.set = async (key, ...rest) => {
      if (key.startsWith('RefreshToken:')) stored.add(key)
      await set(key, ...rest)
    }
    store.delete = async (key) => {
      stored.delete(key)
      await remove(key)
    }
    await usesAtTheSameTime([store, store])
    expect(stored).to.have.length(4)
  })

  for (const way of INTERRUPTIONS)
    for (const use of ['first', 'second'] as const)
      it(`the ${use} use of a token during which any command of the store fails ${way} can be repeated`, async () => {
        const store = interruptedStore(memoryStore())
        const facade = await startFacade({ store })
        const { body, refresh } = await signIn(facade)
        let latest = body.refresh_token
        const prepare = async (): Promise<void> => {
          latest = (await refresh(latest)).body.refresh_token
          if (use === 'second') await refresh(latest)
        }
        await prepare()
        store.interrupt()
        expect((await refresh(latest)).status).to.equal(200)
        const commands = [...store.commands]
        expect(commands.includes('add UsedRefreshToken')).to.equal(use === 'first')
        expect(commands.length).to.be.greaterThan(6)
        for (const [index, command] of commands.entries()) {
          latest = (await refresh(latest)).body.refresh_token
          await prepare()
          store.interrupt(index, way)
          const failed = await refresh(latest)
          store.interrupt()
          const retried = await refresh(latest)
          expect([200, 503], command).to.include(failed.status)
          expect(retried.status, `${command}: ${JSON.stringify(retried.body)}`).to.equal(200)
          if (failed.status === 200)
            expect(failed.body.refresh_token, command).to.equal(retried.body.refresh_token)
          expect((await refresh(latest)).body.refresh_token, command).to.equal(retried.body.refresh_token)
        }
      })

  it('a token with refreshGraceSeconds: 0 is not used up if the last look at the grant fails', async () => {
    const store = interruptedStore(memoryStore())
    const facade = await startFacade({ store, tokens: { refreshGraceSeconds: 0 } })
    const { body, refresh } = await signIn(facade)
    store.interrupt()
    const { body: second } = await refresh(body.refresh_token)
    const last = store.commands.lastIndexOf('get GrantSummary')
    expect(last).to.be.greaterThan(store.commands.indexOf('add UsedRefreshToken'))
    store.interrupt(last)
    const third = await refresh(second.refresh_token)
    expect(third.status).to.equal(200)
    expect((await refresh(third.body.refresh_token)).status).to.equal(200)
  })

  it('each use of a token within the grace is judged like any refresh', async () => {
    let isAllowed = true
    let granted = ['mcp:read', 'mcp:write']
    const facade = await startFacade({ allow: () => isAllowed, grantScopes: () => granted })
    const { body, refresh } = await signIn(facade, 'mcp:read mcp:write')
    const first = await refresh(body.refresh_token)
    const again = async (changes: Record<string, string> = {}): Promise<unknown> => {
      const reply = await refresh(body.refresh_token, changes)
      return reply.status === 200 ? reply.body.scope : reply.body.error
    }
    granted = ['mcp:read']
    expect(await again()).to.equal('mcp:read')
    granted = ['mcp:read', 'mcp:write']
    expect(await again({ resource: 'https://other.example.com/mcp' })).to.equal('invalid_target')
    expect(await again({ scope: 'mcp:write' })).to.equal('mcp:write')
    expect(await again({ scope: 'mcp:admin' })).to.equal('invalid_scope')
    const other = await facade.register()
    expect(await again({ client_id: other.client_id })).to.equal('invalid_grant')
    expect((await refresh(body.refresh_token)).body.refresh_token).to.equal(first.body.refresh_token)
    // A no of `allow` ends the grant.
    isAllowed = false
    expect(await again()).to.equal('invalid_grant')
    isAllowed = true
    expect(await again()).to.equal('invalid_grant')
  })

  it('a client may repeat offline_access from its authorization request in the scope of a refresh', async () => {
    const facade = await startFacade()
    const { body, refresh } = await signIn(facade, 'mcp:read mcp:write offline_access')
    for (const [scope, granted] of [
      ['mcp:read mcp:write offline_access', 'mcp:read mcp:write'],
      ['offline_access mcp:read', 'mcp:read'],
    ] as const) {
      const { body: next } = await refresh(body.refresh_token, { scope })
      expect([next.scope, decodeJwt(next.access_token).scope]).to.deep.equal([granted, granted])
    }
    for (const scope of ['offline_access', 'mcp:admin offline_access'])
      expect((await refresh(body.refresh_token, { scope })).body.error).to.equal('invalid_scope')
  })

  it('a confidential client must authenticate for each use of a token within the grace', async () => {
    const desk = { clientId: 'desk', clientSecret: 's'.repeat(40), redirectUris: [CALLBACK] }
    const facade = await startFacade({ clients: { static: [desk] } })
    const client = { client_id: 'desk' }
    const authorization = `Basic ${Buffer.from(`desk:${desk.clientSecret}`).toString('base64')}`
    const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
    const { body } = await facade.token(codeGrant(client, code), { authorization })
    const grant = refreshGrant(client, body.refresh_token)
    const first = await facade.token(grant, { authorization })
    expect((await facade.token(grant)).status).to.equal(401)
    const again = await facade.token(grant, { authorization })
    expect(again.body.refresh_token).to.equal(first.body.refresh_token)
  })

  it('a token that is bound to a key needs a proof of this key for each use within the grace', async () => {
    const facade = await startFacade()
    const client = await facade.register({ dpop_bound_access_tokens: true })
    const [own, stolen] = await Promise.all([createProofKey(), createProofKey()])
    const proof = async (key: typeof own) => ({
      dpop: await proofFor(key, 'POST', `${facade.issuer}/token`, { claims: { ath: undefined } }),
    })
    const code = (await facade.signIn(facade.authorizeUrl(client))).get('code')
    const { body } = await facade.token(codeGrant(client, code), await proof(own))
    const grant = refreshGrant(client, body.refresh_token)
    const first = await facade.token(grant, await proof(own))
    expect(first.status, JSON.stringify(first.body)).to.equal(200)
    for (const headers of [{}, await proof(stolen)])
      expect((await facade.token(grant, headers)).body.error).to.equal('invalid_grant')
    const again = await facade.token(grant, await proof(own))
    expect(again.body.refresh_token).to.equal(first.body.refresh_token)
    const next = await facade.token(refreshGrant(client, first.body.refresh_token), await proof(own))
    expect([next.status, next.body.token_type]).to.deep.equal([200, 'DPoP'])
  })

  it('the store sees neither a token that was used nor its successor', async () => {
    const store = interruptedStore(memoryStore())
    const { body, refresh } = await signIn(await startFacade({ store }))
    const { body: next } = await refresh(body.refresh_token)
    await refresh(body.refresh_token)
    const text = store.written.join('\n')
    expect(text).to.contain('UsedRefreshToken:')
    for (const token of [body.refresh_token, next.refresh_token]) {
      expect(text).not.to.contain(token)
      expect(text).not.to.contain(Buffer.from(token).toString('base64url').slice(2, -4))
    }
  })

  it('a token whose use 0.2 has recorded ends the grant when it is used again', async () => {
    const store = memoryStore()
    const keys = createKeys()
    const { body, refresh } = await signIn(await startFacade({ store, keys }))
    await new Records(store, keys.encryption).set(
      'UsedRefreshToken',
      body.refresh_token,
      Math.floor(Date.now() / 1000),
      60,
    )
    expect((await refresh(body.refresh_token)).body.error).to.equal('invalid_grant')
  })

  for (const at of ['set RefreshToken', 'add UsedRefreshToken'])
    it(`a refresh during whose ${at} the grant is revoked issues no token`, async () => {
      const store = memoryStore()
      const facade = await startFacade({ store })
      const { client, body, refresh } = await signIn(facade)
      const [name = '', kind = ''] = at.split(' ')
      const original = store[name as 'set'] as (...args: [string, string, number]) => Promise<any>
      let revoked: number | undefined
      store[name as 'set'] = async (...args: [string, string, number]) => {
        const result = await original(...args)
        if (args[0].startsWith(`${kind}:`) && revoked === undefined) {
          const form = new URLSearchParams({ token: body.refresh_token, client_id: client.client_id })
          revoked = (await fetch(`${facade.issuer}/revoke`, { method: 'POST', body: form })).status
        }
        return result
      }
      const reply = await refresh(body.refresh_token)
      expect([revoked, reply.status, reply.body.error]).to.deep.equal([200, 400, 'invalid_grant'])
      expect(reply.body).not.to.have.any.keys('access_token', 'refresh_token')
    })

  describe('with a thief who has stolen one of them', () => {
    it('the grant ends when the thief uses a token after the client has used its successor', async () => {
      const { body, refresh } = await signIn(await startFacade())
      const { body: second } = await refresh(body.refresh_token)
      const { body: third } = await refresh(second.refresh_token)
      expect((await refresh(body.refresh_token)).status).to.equal(400)
      expect((await refresh(third.refresh_token)).status).to.equal(400)
    })

    it('the grant ends when the client uses a token more than 60 s after the thief', async () => {
      const { body, refresh } = await signIn(await startFacade())
      mock.timers.enable({ apis: ['Date'], now: Date.now() })
      const { body: stolen } = await refresh(body.refresh_token)
      mock.timers.tick(61_000)
      expect((await refresh(body.refresh_token)).status).to.equal(400)
      expect((await refresh(stolen.refresh_token)).status).to.equal(400)
    })

    it('a thief who keeps up with the client is found out when one of them is 60 s late', async () => {
      const { body, refresh } = await signIn(await startFacade())
      mock.timers.enable({ apis: ['Date'], now: Date.now() })
      let [ofClient, ofThief] = [body.refresh_token, body.refresh_token]
      for (let round = 0; round < 3; round++) {
        mock.timers.tick(590_000)
        ofClient = (await refresh(ofClient)).body.refresh_token
        mock.timers.tick(50_000)
        ofThief = (await refresh(ofThief)).body.refresh_token
        expect(ofThief).to.equal(ofClient)
      }
      mock.timers.tick(590_000)
      const { body: last } = await refresh(ofClient)
      mock.timers.tick(60_000)
      expect((await refresh(ofThief)).status).to.equal(400)
      expect((await refresh(last.refresh_token)).status).to.equal(400)
    })
  })

  describe('lifetimes', () => {
    for (const [what, tokens, access, first, later] of [
      ['the defaults', {}, 600, 30 * DAY, 30 * DAY],
      ['accessTtlSeconds', { accessTtlSeconds: 86_400 }, 86_400, 30 * DAY, 30 * DAY],
      ['refreshTtlSeconds', { refreshTtlSeconds: 1_000 }, 600, 1_000, 1_000],
      ['a shorter refreshIdleSeconds', { refreshTtlSeconds: 1_000, refreshIdleSeconds: 900 }, 600, 900, 900],
      [
        'a longer refreshIdleSeconds',
        { refreshTtlSeconds: 1_000, refreshIdleSeconds: 1_100 },
        600,
        1_000,
        1_000,
      ],
      ['a grantTtlSeconds that cuts refresh tokens', { grantTtlSeconds: 2_000 }, 600, 2_000, 1_500],
      ['a grantTtlSeconds that cuts all tokens', { grantTtlSeconds: 550 }, 550, 550, 50],
    ] as const)
      it(`${what}: tokens and expires_in have the lifetimes of the options`, async () => {
        mock.timers.enable({ apis: ['Date'], now: Math.ceil(Date.now() / 1000) * 1000 })
        const { body, refresh } = await signIn(await startFacade({ tokens }))
        const lifetimeOf = ({ access_token: token }: Record<string, any>): number => {
          const { exp = 0, iat = 0 } = decodeJwt(token)
          return exp - iat
        }
        expect([body.expires_in, lifetimeOf(body), body.refresh_token_expires_in]).to.deep.equal([
          access,
          access,
          first,
        ])
        mock.timers.tick(500_000)
        const { body: next } = await refresh(body.refresh_token)
        expect(next.refresh_token_expires_in).to.equal(later)
        const cut = Math.min(access, later)
        expect([next.expires_in, lifetimeOf(next)]).to.deep.equal([cut, cut])
        mock.timers.tick(20_000)
        const { body: again } = await refresh(body.refresh_token)
        expect(again.refresh_token).to.equal(next.refresh_token)
        expect(again.refresh_token_expires_in).to.equal(later - 20)
        mock.timers.tick((later - 20) * 1000)
        expect((await refresh(next.refresh_token)).body.error).to.equal('invalid_grant')
      })

    it('a client that refreshes keeps its sign-in beyond refreshIdleSeconds, until grantTtlSeconds', async () => {
      const tokens = { refreshIdleSeconds: 3_600, grantTtlSeconds: 3 * 3_600 }
      const { body, refresh } = await signIn(await startFacade({ tokens }))
      mock.timers.enable({ apis: ['Date'], now: Date.now() })
      let token = body.refresh_token
      for (let minutes = 0; minutes < 150; minutes += 50) {
        mock.timers.tick(50 * 60_000)
        const reply = await refresh(token)
        expect(reply.status).to.equal(200)
        token = reply.body.refresh_token
      }
      mock.timers.tick(50 * 60_000)
      expect((await refresh(token)).body.error).to.equal('invalid_grant')
    })

    it('a shorter grantTtlSeconds ends earlier sign-ins, too', async () => {
      const store = memoryStore()
      const options = { store, keys: createKeys(), resource: 'https://mcp.example.com/mcp' }
      const before = await startFacade(options)
      const client = await before.register()
      const url = before.authorizeUrl(client, { resource: options.resource })
      const code = (await before.signIn(url)).get('code')
      const { body } = await before.token(codeGrant(client, code))
      const after = await startFacade({ ...options, tokens: { grantTtlSeconds: 3_600 } })
      mock.timers.enable({ apis: ['Date'], now: Date.now() + 1_800_000 })
      const { body: next } = await after.token(refreshGrant(client, body.refresh_token))
      expect(next.refresh_token_expires_in).to.be.within(1_790, 1_800)
      mock.timers.tick(1_801_000)
      const late = await after.token(refreshGrant(client, next.refresh_token))
      expect(late.body.error).to.equal('invalid_grant')
    })

    it('a response without a refresh token has no refresh_token_expires_in', async () => {
      const { body } = await signIn(await startFacade(), 'mcp:read', { grant_types: ['authorization_code'] })
      expect(body.access_token).to.be.a('string')
      expect(body).not.to.have.any.keys('refresh_token', 'refresh_token_expires_in')
    })
  })
})
