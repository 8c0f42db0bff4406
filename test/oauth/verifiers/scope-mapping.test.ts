import { expect } from 'chai'
import express from 'express'
import { cachedVerifier, introspectionVerifier, jwtVerifier, type VerifyToken } from '../../../src/index.ts'
import { gatedApp } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import {
  AUDIENCE,
  createSigningKey,
  ISSUER,
  nowSeconds,
  type SigningKey,
  signToken,
} from '../../support/tokens.ts'

type MapScopes = (claims: any, scopes: readonly string[]) => readonly string[]

/** For results that do not compile. */
type Wrong = any

const CLAIMS = { sub: 'ada', roles: ['admin'], scope: 'openid mcp:read' }

interface Row {
  readonly what: string
  readonly mapScopes?: MapScopes
  readonly claims?: object
  /** The granted scopes, or the status of the refusal. */
  readonly outcome: readonly string[] | 401
}

const ROWS: readonly Row[] = [
  { what: 'no mapScopes', outcome: ['openid', 'mcp:read'] },
  {
    what: 'roles in place of scopes',
    mapScopes: ({ roles }) => roles.map((role: string) => `role:${role}`),
    outcome: ['role:admin'],
  },
  {
    what: 'scopes and one more',
    mapScopes: (_claims, scopes) => [...scopes, 'b'],
    outcome: ['openid', 'mcp:read', 'b'],
  },
  { what: 'no scopes', mapScopes: () => [], outcome: [] },
  {
    what: 'a token without scopes',
    claims: { scope: undefined },
    mapScopes: (_claims, scopes) => [String(scopes.length)],
    outcome: ['0'],
  },
  {
    what: 'an error',
    mapScopes: () => {
      throw new Error('secret')
    },
    outcome: 401,
  },
  { what: 'undefined', mapScopes: (() => undefined) as Wrong, outcome: 401 },
  { what: 'a string', mapScopes: (() => 'mcp:read') as Wrong, outcome: 401 },
  { what: 'a promise of scopes', mapScopes: (async () => ['mcp:read']) as Wrong, outcome: 401 },
  {
    what: 'a promise that rejects',
    mapScopes: (async () => Promise.reject(new Error('a'))) as Wrong,
    outcome: 401,
  },
  { what: 'a number among scopes', mapScopes: (() => ['mcp:read', 5]) as Wrong, outcome: 401 },
  { what: 'a set', mapScopes: (() => new Set(['mcp:read'])) as Wrong, outcome: 401 },
]

async function outcomeOf(verifyToken: VerifyToken, token: string): Promise<readonly string[] | number> {
  const { origin } = await listen(gatedApp({ issuer: ISSUER, verifyToken }))
  const response = await fetch(`${origin}/mcp`, { headers: { authorization: `Bearer ${token}` } })
  const { auth } = (await response.json()) as { auth: { scopes: readonly string[] } }
  return response.status === 200 ? auth.scopes : response.status
}

describe('mapScopes', () => {
  const rejections: unknown[] = []
  const note = (reason: unknown): void => void rejections.push(reason)
  after(() => process.off('unhandledRejection', note))
  afterEach(async () => {
    await new Promise(setImmediate)
    expect(rejections).to.deep.equal([])
  })
  let key: SigningKey
  before(async () => {
    process.on('unhandledRejection', note)
    key = await createSigningKey('RS256', 'a')
  })

  for (const { what, mapScopes, claims, outcome } of ROWS) {
    const result = outcome === 401 ? 'is rejected' : 'has the scopes of the result'
    const members = { ...CLAIMS, ...claims }

    it(`a token of jwtVerifier() with mapScopes that returns ${what} ${result}`, async () => {
      const verifier = jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, publicKey: key.jwk, mapScopes })
      expect(await outcomeOf(verifier, await signToken(key, members))).to.deep.equal(outcome)
    })

    it(`a token of introspectionVerifier() with mapScopes that returns ${what} ${result}`, async () => {
      const { origin } = await listen(
        express().use((_req, res) => {
          res.json({ active: true, aud: AUDIENCE, exp: nowSeconds() + 300, ...members })
        }),
      )
      const options = { endpoint: origin, clientId: 'mcp', clientSecret: 'S', audience: AUDIENCE }
      const verifier = introspectionVerifier({ ...options, mapScopes })
      expect(await outcomeOf(verifier, 'opaque')).to.deep.equal(outcome)
    })
  }

  it('mapScopes of a verifier in cachedVerifier is called once per token, and its list may change later', async () => {
    const scopes = ['mcp:read']
    let calls = 0
    const verifier = cachedVerifier(
      jwtVerifier({
        issuer: ISSUER,
        audience: AUDIENCE,
        publicKey: key.jwk,
        mapScopes() {
          calls++
          return scopes
        },
      }),
    )
    const token = await signToken(key)
    expect(await outcomeOf(verifier, token)).to.deep.equal(['mcp:read'])
    scopes.push('mcp:admin')
    expect(await outcomeOf(verifier, token)).to.deep.equal(['mcp:read'])
    expect(calls).to.equal(1)
  })
})
