import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { firstMatch, jwtVerifier, VerifierUnavailableError, type VerifyToken } from '../../../src/index.ts'
import { type RefusalNote, rejected, verificationOf } from '../../../src/oauth/inputs.ts'
import { AUDIENCE, createSigningKey, nowSeconds, signToken } from '../../support/tokens.ts'
import { verifyInput } from '../../support/verify-input.ts'

const accepts =
  (name: string): VerifyToken =>
  () => ({ valid: true, user: name })
const refuses: VerifyToken = async () => undefined
const throws: VerifyToken = () => {
  throw new Error('broken')
}
const rejects: VerifyToken = async () => {
  throw new Error('broken')
}
const notes =
  (note: RefusalNote): VerifyToken =>
  async (input) =>
    rejected(input, note)
const unavailable =
  (retryAfterSeconds: number): VerifyToken =>
  async () => {
    throw new VerifierUnavailableError(`down for ${retryAfterSeconds}`, { retryAfterSeconds })
  }

describe('firstMatch()', () => {
  const taken: readonly (readonly [what: string, verifiers: readonly VerifyToken[]])[] = [
    ['the only one', [accepts('a')]],
    ['the first that accepts', [accepts('a'), accepts('b')]],
    ['one behind a refusal', [refuses, accepts('a')]],
    ['one behind an outage', [unavailable(5), accepts('a')]],
    ['one behind one that throws, and one that rejects', [throws, rejects, accepts('a')]],
    ['one behind a reason', [notes('expired'), accepts('a')]],
    ['one behind a lie', [() => ({ valid: 1 }) as never, () => 'valid' as never, accepts('a')]],
  ]
  for (const [what, verifiers] of taken) {
    it(`firstMatch() returns the result of ${what}`, async () => {
      expect(await firstMatch(...verifiers)(verifyInput('t'))).to.deep.equal({ valid: true, user: 'a' })
    })
  }

  it('firstMatch() calls one verifier after the other, and none after the one that accepts', async () => {
    const asked: string[] = []
    const asking =
      (name: string, valid: boolean): VerifyToken =>
      async ({ bearerToken }) => {
        asked.push(`${name} begins`)
        await new Promise(setImmediate)
        asked.push(`${name} ends`)
        return valid ? { valid, user: bearerToken } : undefined
      }
    const verifier = firstMatch(asking('a', false), asking('b', true), asking('c', true))
    expect(await verifier(verifyInput('t'))).to.deep.equal({ valid: true, user: 't' })
    expect(asked).to.deep.equal(['a begins', 'a ends', 'b begins', 'b ends'])
  })

  it('firstMatch() calls the verifiers for requests without a token', async () => {
    const asked: unknown[] = []
    const verifier = firstMatch(({ bearerToken }) => void asked.push(bearerToken) as never, refuses)
    expect(await verifier(verifyInput(undefined))).to.equal(undefined)
    expect(asked).to.deep.equal([undefined])
  })

  const refusals: readonly (readonly [
    what: string,
    verifiers: readonly VerifyToken[],
    note: RefusalNote | undefined,
  ])[] = [
    ['all refuse', [refuses, refuses], undefined],
    ['all throw', [throws, rejects], 'verifier'],
    ['one throws and the other is for another issuer', [throws, notes('issuer')], 'verifier'],
    ['only one knows the issuer', [notes('issuer'), notes('signature'), notes('type')], 'signature'],
    ['none is for the algorithm or the type', [notes('type'), notes('algorithm')], 'algorithm'],
    ['the first says expired', [notes('expired'), refuses], 'expired'],
    ['the last says expired', [throws, notes('expired')], 'expired'],
    ['a later one says less', [notes('expired'), notes('wrong_resource'), refuses], 'expired'],
    ['a later one says more', [notes('wrong_resource'), notes('expired')], 'expired'],
    ['one says it is for another resource', [refuses, notes('wrong_resource'), rejects], 'wrong_resource'],
  ]
  for (const [what, verifiers, note] of refusals) {
    it(`firstMatch() rejects when ${what}: ${note ?? 'no reason'}`, async () => {
      const input = verifyInput('t')
      expect(await firstMatch(...verifiers)(input)).to.equal(undefined)
      expect(verificationOf(input).refusal).to.equal(note)
    })
  }

  async function outageOf(...verifiers: readonly VerifyToken[]): Promise<VerifierUnavailableError> {
    try {
      await firstMatch(...verifiers)(verifyInput('t'))
    } catch (error) {
      expect(error).to.be.instanceOf(VerifierUnavailableError)
      return error as VerifierUnavailableError
    }
    throw new Error('was available')
  }

  it('firstMatch() is unavailable if none accepts and one is unavailable', async () => {
    for (const verifiers of [
      [unavailable(7)],
      [unavailable(7), refuses],
      [notes('expired'), unavailable(7), throws],
    ]) {
      expect(await outageOf(...verifiers)).to.include({ message: 'down for 7', retryAfterSeconds: 7 })
    }
  })

  it('firstMatch() is unavailable for the longest retryAfterSeconds', async () => {
    const outage = await outageOf(unavailable(3), refuses, unavailable(9), unavailable(1))
    expect(outage).to.include({ message: '3 verifiers are unavailable', retryAfterSeconds: 9 })
    const { errors, message } = outage.cause as AggregateError
    expect(errors).to.have.length(3)
    expect(message).to.equal('down for 3; down for 9; down for 1')
  })

  it('firstMatch() supports several issuers, each with its own keys', async () => {
    const [one, other] = [await createSigningKey('ES256', 'one'), await createSigningKey('ES256', 'other')]
    const [a, b] = ['https://a.example.com', 'https://b.example.com']
    const verifier = firstMatch(
      jwtVerifier({ issuer: a, audience: AUDIENCE, publicKey: one.jwk }),
      jwtVerifier({ issuer: b, audience: AUDIENCE, publicKey: other.jwk, mapUser: ({ sub }) => Number(sub) }),
    )
    expect((await verifier(verifyInput(await signToken(one, { iss: a }))))?.user).to.include({ id: 'ada' })
    expect((await verifier(verifyInput(await signToken(other, { iss: b, sub: '7' }))))?.user).to.equal(7)
    expect(await verifier(verifyInput(await signToken(one, { iss: b })))).to.equal(undefined)
    const expired = verifyInput(await signToken(one, { iss: a, exp: nowSeconds() - 5 }))
    expect(await verifier(expired)).to.equal(undefined)
    expect(verificationOf(expired).refusal).to.equal('expired')
  })

  it('firstMatch() has the users of all verifiers in its type', () => {
    const verifier = firstMatch(
      async () => ({ valid: true, user: { id: 1 } }),
      () => ({ valid: true, user: 'ada' as const }),
    )
    expectTypeOf(verifier).toEqualTypeOf<VerifyToken<unknown, { id: number } | 'ada'>>()
  })
})
