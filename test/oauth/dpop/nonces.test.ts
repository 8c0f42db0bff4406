import { mock } from 'node:test'
import { expect } from 'chai'
import { DpopNonces } from '../../../src/oauth/dpop/nonces.ts'
import { resolveDpop } from '../../../src/oauth/dpop/options.ts'

const SECRET = 's'.repeat(32)

describe('DpopNonces', () => {
  afterEach(() => mock.timers.reset())

  it('a nonce is valid in the period in which it was issued and in the next one', () => {
    mock.timers.enable({ apis: ['Date'], now: 1_500_000 })
    const nonces = new DpopNonces(SECRET, 300)
    const nonce = nonces.current()
    for (const [ms, accepted] of [
      [1_499_999, false],
      [1_500_000, true],
      [1_649_999, true],
      [1_650_000, true],
      [1_799_999, true],
      [1_800_000, false],
    ] as const) {
      mock.timers.setTime(ms)
      expect([ms, nonces.accepts(nonce)]).to.deep.equal([ms, accepted])
    }
  })

  it('nodes with the same secret accept the nonces of each other, and others do not', () => {
    const nonce = new DpopNonces(SECRET, 300).current()
    expect(new DpopNonces(SECRET, 300).accepts(nonce)).to.equal(true)
    expect(new DpopNonces(`${SECRET}x`, 300).accepts(nonce)).to.equal(false)
    for (const wrong of [undefined, '', 5, [nonce], `${nonce}x`])
      expect(new DpopNonces(SECRET, 300).accepts(wrong)).to.equal(false)
  })

  it('the secret of nonces has 32 characters or more', () => {
    const withSecret = (secret: string) => () => resolveDpop({ mode: 'allowed', nonce: { secret } })
    expect(withSecret(SECRET)).not.to.throw()
    expect(withSecret(SECRET.slice(1))).to.throw(
      /^dpop\.nonce\.secret must be a string of 32 characters or more/,
    )
  })
})
