import { expect } from 'chai'
import { type ResolvedDpopOptions, resolveDpop } from '../../../src/oauth/dpop/options.ts'
import { checkProof } from '../../../src/oauth/dpop/proof.ts'
import { createProofKey, type ProofKey, proofFor } from '../../support/dpop.ts'
import { nowSeconds } from '../../support/tokens.ts'

const ORIGIN = 'https://mcp.example.com'
const OPTIONS = resolveDpop('allowed') as ResolvedDpopOptions

describe('checkProof()', () => {
  let key: ProofKey
  before(async () => {
    key = await createProofKey()
  })

  /** Checks a proof with other members of its key, or with other claims. */
  async function check(members: object, claims: Readonly<Record<string, unknown>> = {}): Promise<unknown> {
    const header = { jwk: { ...key.publicJwk, ...members } }
    const proof = await proofFor(key, 'POST', `${ORIGIN}/mcp`, { token: 'token', header, claims })
    const subject = { proof, method: 'POST', origin: ORIGIN, path: '/mcp', token: 'token' }
    return await checkProof(subject, OPTIONS)
  }

  it('checkProof() accepts a proof whose key has an unknown public member', async () => {
    expect(await check({ note: 'x' })).to.deep.include({ keyThumbprint: key.thumbprint })
  })

  for (const member of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']) {
    it(`checkProof() rejects a proof whose key has the private member ${member}`, async () => {
      expect(await check({ [member]: 'x' })).to.equal('invalid_dpop_proof')
    })
  }

  it('checkProof() accepts a proof that is a few seconds younger than the maximum age', async () => {
    const iat = nowSeconds() - OPTIONS.proofMaxAgeSeconds + 5
    expect(await check({}, { iat })).to.deep.include({ keyThumbprint: key.thumbprint })
  })

  it('a checked proof expires a second after its maximum age', async () => {
    const iat = nowSeconds() - 7.5
    expect(await check({}, { iat })).to.deep.include({
      expiresAtSeconds: Math.ceil(iat) + OPTIONS.proofMaxAgeSeconds + 1,
    })
  })

  it('rejects no proof, several proofs, and a proof of more than 8,192 characters', async () => {
    for (const proof of [undefined, [], ['a.b.c', 'a.b.c'], 'x'.repeat(8_193), ['x'.repeat(8_193)]]) {
      const subject = { proof, method: 'POST', origin: ORIGIN, path: '/mcp', token: 'token' }
      expect(await checkProof(subject, OPTIONS)).to.equal('invalid_dpop_proof')
    }
  })

  it("resolveDpop('off') checks the other options and returns undefined", () => {
    expect(resolveDpop('off')).to.equal(undefined)
    expect(resolveDpop({ mode: 'off', proofMaxAgeSeconds: 60 })).to.equal(undefined)
    expect(() => resolveDpop({ mode: 'off', proofMaxAgeSeconds: 0 })).to.throw(/dpop\.proofMaxAgeSeconds/)
  })
})
