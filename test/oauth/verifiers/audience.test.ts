import { expect } from 'chai'
import express from 'express'
import type { VerifyToken } from '../../../src/oauth/options.ts'
import { introspectionVerifier } from '../../../src/oauth/verifiers/introspection.ts'
import { jwtVerifier } from '../../../src/oauth/verifiers/jwt.ts'
import { gatedApp } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import { createSigningKey, ISSUER, nowSeconds, type SigningKey, signToken } from '../../support/tokens.ts'

const BARE = 'https://mcp.example.com'
const SLASH = 'https://mcp.example.com/'

interface Given {
  readonly audience: string | readonly string[]
  readonly audienceSlash?: 'exact' | 'optional'
}

/** An audience of a token, and the status of the response to it. */
interface Row {
  readonly what: string
  readonly given: Given
  /** The `resource` of the gate. Defaults to none. */
  readonly resource?: string
  readonly aud: unknown
  readonly status: 200 | 401
}

const optional = { audienceSlash: 'optional' } as const

const ROWS: readonly Row[] = [
  { what: 'the slash by default', given: { audience: BARE }, aud: SLASH, status: 401 },
  { what: 'no slash by default', given: { audience: SLASH }, aud: BARE, status: 401 },
  {
    what: 'the slash with exact',
    given: { audience: BARE, audienceSlash: 'exact' },
    aud: SLASH,
    status: 401,
  },
  { what: 'the slash with optional', given: { audience: BARE, ...optional }, aud: SLASH, status: 200 },
  { what: 'no slash with optional', given: { audience: SLASH, ...optional }, aud: BARE, status: 200 },
  { what: 'the same with optional', given: { audience: BARE, ...optional }, aud: BARE, status: 200 },
  {
    what: 'the slash among others',
    given: { audience: ['x', BARE], ...optional },
    aud: ['y', SLASH],
    status: 200,
  },
  {
    what: 'the slash, in a gate of the bare resource',
    given: { audience: BARE, ...optional },
    resource: BARE,
    aud: SLASH,
    status: 200,
  },
  {
    what: 'no slash, in a gate of the resource with a slash',
    given: { audience: BARE, ...optional },
    resource: SLASH,
    aud: BARE,
    status: 200,
  },
  {
    what: 'the slash by default, in a gate of the bare resource that accepts both',
    given: { audience: [BARE, SLASH] },
    resource: BARE,
    aud: SLASH,
    status: 401,
  },
  {
    what: 'the slash with a port',
    given: { audience: 'http://localhost:3000', ...optional },
    aud: 'http://localhost:3000/',
    status: 200,
  },
  {
    what: 'the slash of a path',
    given: { audience: `${BARE}/mcp`, ...optional },
    aud: `${BARE}/mcp/`,
    status: 401,
  },
  {
    what: 'no slash of a path',
    given: { audience: `${BARE}/mcp/`, ...optional },
    aud: `${BARE}/mcp`,
    status: 401,
  },
  { what: 'two slashes', given: { audience: BARE, ...optional }, aud: `${BARE}//`, status: 401 },
  { what: 'a query', given: { audience: BARE, ...optional }, aud: `${SLASH}?`, status: 401 },
  {
    what: 'the slash of a query',
    given: { audience: `${BARE}?a=b`, ...optional },
    aud: `${BARE}?a=b/`,
    status: 401,
  },
  {
    what: 'another host',
    given: { audience: BARE, ...optional },
    aud: 'https://mcp.example.com.evil.example/',
    status: 401,
  },
  {
    what: 'another scheme',
    given: { audience: BARE, ...optional },
    aud: 'http://mcp.example.com/',
    status: 401,
  },
  { what: 'the slash of a name', given: { audience: 'notes', ...optional }, aud: 'notes/', status: 401 },
  {
    what: 'the slash of a URN',
    given: { audience: 'urn:notes', ...optional },
    aud: 'urn:notes/',
    status: 401,
  },
  { what: 'no audience', given: { audience: BARE, ...optional }, aud: undefined, status: 401 },
]

async function statusOf(
  { given, resource }: Row,
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
    const outcome = row.status === 200 ? 'accepts' : 'rejects'
    it(`jwtVerifier() ${outcome} a token whose audience has ${row.what}`, async () => {
      const verifier = (given: Given) => jwtVerifier({ issuer: ISSUER, publicKey: key.jwk, ...given })
      expect(await statusOf(row, verifier, await signToken(key, { aud: row.aud }))).to.equal(row.status)
    })

    it(`introspectionVerifier() ${outcome} a token whose audience has ${row.what}`, async () => {
      const { origin } = await listen(
        express().use((_req, res) => {
          res.json({ active: true, aud: row.aud, exp: nowSeconds() + 300 })
        }),
      )
      const verifier = (given: Given) =>
        introspectionVerifier({ endpoint: origin, clientId: 'mcp', clientSecret: 'S', ...given })
      expect(await statusOf(row, verifier, 'opaque')).to.equal(row.status)
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
