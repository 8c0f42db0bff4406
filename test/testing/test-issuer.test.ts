import { expect } from 'chai'
import { jwtVerifier, KitMcpConfigError } from '../../src/index.ts'
import { createTestIssuer } from '../../src/testing/index.ts'
import { verifyInput } from '../support/tokens.ts'

describe('createTestIssuer()', () => {
  const issuer = createTestIssuer()
  const verify = jwtVerifier({ ...issuer.verifierOptions, strict: true })
  const verified = async (token: string) => await verify(verifyInput(token))

  it('a test issuer issues tokens that jwtVerifier accepts', async () => {
    const token = await issuer.issueToken({ sub: 'ada', scopes: ['mcp:read', 'mcp:write'], clientId: 'cli' })
    const result = await verified(token)
    expect(result).to.deep.include({
      valid: true,
      clientId: 'cli',
      user: { id: 'ada', claims: claimsOf(token) },
    })
    expect(result?.scopes).to.deep.equal(['mcp:read', 'mcp:write'])
    expect(claimsOf(await issuer.issueToken())).to.include({ sub: 'test-user', client_id: 'test-client' })
  })

  it('a test issuer can issue tokens that jwtVerifier rejects', async () => {
    for (const options of [
      { expiresIn: -60 },
      { audience: 'https://other.test/mcp' },
      { claims: { iss: 'https://other.test' } },
      { claims: { exp: undefined } },
    ]) {
      const result = await Promise.resolve(verified(await issuer.issueToken(options))).catch(() => undefined)
      expect(result?.valid, JSON.stringify(options)).not.to.equal(true)
    }
  })

  it('each test issuer has its own key', async () => {
    const other = createTestIssuer()
    const result = await Promise.resolve(verified(await other.issueToken())).catch(() => undefined)
    expect(result?.valid).not.to.equal(true)
    expect(JSON.stringify(issuer.jwks)).not.to.contain('"d"')
  })

  it('a test issuer rejects wrong token options', async () => {
    expect(() => createTestIssuer({ audence: 'https://notes.test' } as object)).to.throw(
      KitMcpConfigError,
      /createTestIssuer has no option 'audence'. Did you mean 'audience'\?/,
    )
    const rejected = await issuer.issueToken({ scope: 'mcp:read' } as object).catch((error) => error)
    expect(rejected).to.be.instanceOf(KitMcpConfigError)
    expect(rejected.message).to.match(/issueToken has no option 'scope'. Did you mean 'scopes'\?/)
  })

  it('a test issuer can have another issuer and audience', async () => {
    const own = createTestIssuer({ issuer: 'https://own.test', audience: 'https://notes.test/mcp' })
    expect(own.verifierOptions).to.deep.equal({
      issuer: 'https://own.test',
      audience: 'https://notes.test/mcp',
      publicKey: own.jwks,
    })
    expect(claimsOf(await own.issueToken({ claims: { role: 'admin' } }))).to.include({
      iss: 'https://own.test',
      aud: 'https://notes.test/mcp',
      role: 'admin',
    })
  })
})

function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
}
