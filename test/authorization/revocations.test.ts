import { expect } from 'chai'
import { isRevokedBy, Revocations } from '../../src/authorization/grants/grants.ts'

describe('isRevokedBy()', () => {
  const revocation = { id: 'r1', at: 5_000 }
  for (const [what, made, position, isRevoked] of [
    ['with the id of the revocation of the user', ['r1', ''], 0, false],
    ['with the id of the revocation of the client', ['', 'r1'], 1, false],
    ['without the revocation of the user', ['', 'r1'], 0, true],
    ['without the revocation of the client', ['r1', ''], 1, true],
    ['with another revocation', ['r0', ''], 0, true],
    ['of an earlier second', 4, 0, true],
    ['of the same second', 5, 0, true],
    ['of a later second', 6, 0, false],
  ] as const)
    it(`access ${what} is ${isRevoked ? 'revoked' : 'not revoked'}`, () => {
      expect(isRevokedBy(revocation, made, position)).to.equal(isRevoked)
      expect(isRevokedBy(undefined, made, position)).to.equal(false)
    })
})

describe('Revocations', () => {
  /** Revocations of records in memory, and what was stored. */
  function inMemory(grantSeconds: number) {
    const stored: { kind: string; id: string; value: any; ttlSeconds: number }[] = []
    const records = {
      get: async (kind: string, id: string) =>
        stored.findLast((one) => one.kind === kind && one.id === id)?.value,
      set: async (kind: string, id: string, value: unknown, ttlSeconds: number) =>
        void stored.push({ kind, id, value, ttlSeconds }),
    }
    return { stored, revocations: new Revocations(records as never, grantSeconds) }
  }

  for (const [whose, sub, client] of [
    ['user', 'revoked', 'other'],
    ['client', 'other', 'revoked'],
  ] as const)
    it(`a revocation of all access of a ${whose} ends what came before it, and nothing else`, async () => {
      const { revocations } = inMemory(60)
      const before = await revocations.before(sub, client)
      expect(before).to.deep.equal(['', ''])
      expect(await revocations.revokes(sub, client, before)).to.equal(false)
      await revocations.revoke(whose, 'revoked')
      expect(await revocations.revokes(sub, client, before)).to.equal(true)
      expect(await revocations.revokes('a', 'b', before)).to.equal(false)
      expect(await revocations.beforeTime(sub, client, 1)).to.equal(undefined)
      const later = await revocations.beforeTime(sub, client, Date.now() / 1000 + 60)
      expect(later).to.deep.equal(await revocations.before(sub, client))
      expect(later?.filter((id) => id !== '')).to.have.length(1)
      expect(await revocations.revokes(sub, client, later as readonly [string, string])).to.equal(false)
    })

  it('a revocation is kept as long as grants and consents', async () => {
    for (const grantSeconds of [1, 1_000_000_000]) {
      const { revocations, stored } = inMemory(grantSeconds)
      await revocations.revoke('user', 'u')
      const [{ kind, value, ttlSeconds } = expect.fail()] = stored
      expect(kind).to.equal('RevokedUser')
      expect(value.at).to.be.closeTo(Date.now(), 10_000)
      if (grantSeconds > 1) expect(ttlSeconds).to.equal(grantSeconds)
      else expect(ttlSeconds).to.be.above(86_400)
    }
  })
})
