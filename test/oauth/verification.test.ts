import { mock } from 'node:test'
import { expect } from 'chai'
import type { VerifyContext } from '../../src/oauth/gate-values.ts'
import { issuerOf, readVerification } from '../../src/oauth/verification.ts'

describe('readVerification()', () => {
  const request = { request: new Request('https://mcp.example.com/mcp') }
  const verification = { request, token: 'token', context: {} as VerifyContext, resource: undefined }
  const read = (members: object) =>
    readVerification({ valid: true, ...members }, verification, 'gate:https://auth.example.com')

  afterEach(() => mock.timers.reset())

  for (const [what, expiresAt, expected] of [
    ['is rejected at the second of its expiry', 1_000, { outcome: 'refused', reason: 'expired' }],
    ['is rejected after its expiry', 999.999, { outcome: 'refused', reason: 'expired' }],
    [
      'is rejected if its expiry is not finite',
      Number.NaN,
      { outcome: 'refused', reason: 'invalid', invalidCause: 'verifier' },
    ],
  ] as const) {
    it(`a token ${what}`, () => {
      mock.timers.enable({ apis: ['Date'], now: 1_000_000 })
      expect(read({ expiresAt })).to.deep.equal(expected)
    })
  }

  it('a token is accepted until the last millisecond before its expiry', () => {
    mock.timers.enable({ apis: ['Date'], now: 999_999 })
    expect(read({ expiresAt: 1_000 })).to.have.nested.property('expiresAt', 1_000)
  })
})

describe('issuerOf()', () => {
  for (const [what, members, noted, expected] of [
    ['the issuer that a verifier has noted', { extra: { iss: 'b' } }, 'iss:a', 'iss:a'],
    ['the issuer in extra', { extra: { iss: 'a' } }, undefined, 'iss:a'],
    ['the issuer in extra before another noted identity', { extra: { iss: 'a' } }, 'key', 'iss:a'],
    ['the issuer in the claims of the user', { user: { claims: { iss: 'a' } } }, undefined, 'iss:a'],
    ['the noted identity if no issuer is known', { user: {} }, 'key', 'key'],
    ['the noted identity if the issuer is not a string', { extra: { iss: 5 } }, 'key', 'key'],
    ['undefined if nothing is known', {}, undefined, undefined],
  ] as const) {
    it(`issuerOf() returns ${what}`, () => {
      const { user, extra = {} }: { user?: object; extra?: Record<string, unknown> } = members
      expect(issuerOf(user, extra, noted)).to.equal(expected)
    })
  }
})
