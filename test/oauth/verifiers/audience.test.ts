import { expect } from 'chai'
import express from 'express'
import { introspectionVerifier, jwtVerifier, type VerifyToken } from '../../../src/index.ts'
import { gatedApp } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import { createSigningKey, ISSUER, nowSeconds, type SigningKey, signToken } from '../../support/tokens.ts'

const BARE = 'https://mcp.example.com'
const SLASH = 'https://mcp.example.com/'

interface Given {
  readonly audience: string | readonly string[]
  readonly audienceSlash?: 'exact' | 'optional'
}

/** An audience of a token, and the status of the response to it. The gate has no `resource` by default. */
type Row = readonly [what: string, given: Given, aud: unknown, status: 200 | 401, resource?: string]

const optional = { audienceSlash: 'optional' } as const

const ROWS: readonly Row[] = [
  ['the slash by default', { audience: BARE }, SLASH, 401],
  ['no slash by default', { audience: SLASH }, BARE, 401],
  ['the slash with exact', { audience: BARE, audienceSlash: 'exact' }, SLASH, 401],
  ['the slash with optional', { audience: BARE, ...optional }, SLASH, 200],
  ['no slash with optional', { audience: SLASH, ...optional }, BARE, 200],
  ['the same with optional', { audience: BARE, ...optional }, BARE, 200],
  ['the slash among others', { audience: ['x', BARE], ...optional }, ['y', SLASH], 200],
  ['the slash, in a gate of the bare resource', { audience: BARE, ...optional }, SLASH, 200, BARE],
  ['no slash, in a gate of the resource with a slash', { audience: BARE, ...optional }, BARE, 200, SLASH],
  [
    'the slash by default, in a gate of the bare resource that accepts both',
    { audience: [BARE, SLASH] },
    SLASH,
    401,
    BARE,
  ],
  [
    'the slash with a port',
    { audience: 'http://localhost:3000', ...optional },
    'http://localhost:3000/',
    200,
  ],
  ['the slash of a path', { audience: `${BARE}/mcp`, ...optional }, `${BARE}/mcp/`, 401],
  ['no slash of a path', { audience: `${BARE}/mcp/`, ...optional }, `${BARE}/mcp`, 401],
  ['two slashes', { audience: BARE, ...optional }, `${BARE}//`, 401],
  ['a query', { audience: BARE, ...optional }, `${SLASH}?`, 401],
  ['the slash of a query', { audience: `${BARE}?a=b`, ...optional }, `${BARE}?a=b/`, 401],
  ['another host', { audience: BARE, ...optional }, 'https://mcp.example.com.evil.example/', 401],
  ['another scheme', { audience: BARE, ...optional }, 'http://mcp.example.com/', 401],
  ['the slash of a name', { audience: 'notes', ...optional }, 'notes/', 401],
  ['the slash of a URN', { audience: 'urn:notes', ...optional }, 'urn:notes/', 401],
  ['no audience', { audience: BARE, ...optional }, undefined, 401],
]

async function statusOf(
  [, given, , , resource]: Row,
  verifier: (given: Given) => VerifyToken,
  token: string,
): Promise<number> {
  const { origin } = await listen(
    gatedApp({ issuer: ISSUER, ...(resource !== undefined && { resource }), verifyToken: verifier(given) }),
  )
  return (await fetch(`${origin}/mcp`, { headers: { authorization: `Bearer ${token}` } })).status
}

describe('audienceSlash', () => {
  let key: SigningKey
  before(async () => {
    key = await createSigningKey('RS256', 'a')
  })

  for (const row of ROWS) {
    const [what, , aud, status] = row
    const outcome = status === 200 ? 'accepts' : 'rejects'
    it(`jwtVerifier() ${outcome} a token whose audience has ${what}`, async () => {
      const verifier = (given: Given) => jwtVerifier({ issuer: ISSUER, publicKey: key.jwk, ...given })
      expect(await statusOf(row, verifier, await signToken(key, { aud }))).to.equal(status)
    })

    it(`introspectionVerifier() ${outcome} a token whose audience has ${what}`, async () => {
      const { origin } = await listen(
        express().use((_req, res) => {
          res.json({ active: true, aud, exp: nowSeconds() + 300 })
        }),
      )
      const verifier = (given: Given) =>
        introspectionVerifier({ endpoint: origin, clientId: 'mcp', clientSecret: 'S', ...given })
      expect(await statusOf(row, verifier, 'opaque')).to.equal(status)
    })
  }

  it('jwtVerifier() with audienceSlash takes the audience of its gate in both spellings', async () => {
    for (const resource of [BARE, SLASH]) {
      for (const aud of [BARE, SLASH]) {
        const verifyToken = jwtVerifier({ publicKey: key.jwk, audienceSlash: 'optional' })
        const { origin } = await listen(gatedApp({ issuer: ISSUER, resource, verifyToken }))
        const headers = { authorization: `Bearer ${await signToken(key, { aud })}` }
        expect((await fetch(`${origin}/mcp`, { headers })).status, `${resource} ${aud}`).to.equal(200)
      }
    }
  })
})
