import { expect } from 'chai'
import { type ResolvedDpopOptions, resolveDpop } from '../../../src/oauth/dpop/options.ts'
import { checkProof } from '../../../src/oauth/dpop/proof.ts'
import { createProofKey, type ProofKey, proofFor } from '../../support/dpop.ts'

const ORIGIN = 'https://mcp.example.com'
const OPTIONS = resolveDpop('allowed') as ResolvedDpopOptions

describe('checkProof()', () => {
  let key: ProofKey
  before(async () => {
    key = await createProofKey()
  })

  /** Checks a proof whose key has more members than it needs. */
  async function check(members: object): Promise<unknown> {
    const header = { jwk: { ...key.publicJwk, ...members } }
    const proof = await proofFor(key, 'POST', `${ORIGIN}/mcp`, { token: 'token', header })
    const subject = { proof, method: 'POST', origin: ORIGIN, path: '/mcp', token: 'token' }
    return await checkProof(subject, OPTIONS)
  }

  it('accepts a proof whose key has a public member that it does not know', async () => {
    expect(await check({ note: 'x' })).to.deep.include({ keyThumbprint: key.thumbprint })
  })

  for (const member of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k', 'priv']) {
    it(`rejects a proof whose key has the private member ${member}`, async () => {
      expect(await check({ [member]: 'x' })).to.equal('invalid_dpop_proof')
    })
  }
})
