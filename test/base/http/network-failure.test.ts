import { expect } from 'chai'
import { describeNetworkFailure } from '../../../src/base/http/network-failure.ts'

const coded = (code: string, options?: ErrorOptions) =>
  Object.assign(new Error('https://x/S3cr3t', options), { code })

describe('describeNetworkFailure', () => {
  it('describeNetworkFailure returns the code of an error', () =>
    expect(describeNetworkFailure(coded('ECONNREFUSED'))).to.equal(' (ECONNREFUSED)'))

  it('describeNetworkFailure returns the code of a cause at any depth', () => {
    const error = new TypeError('fetch failed', {
      cause: new Error('x', { cause: coded('DEPTH_ZERO_SELF_SIGNED_CERT') }),
    })
    expect(describeNetworkFailure(error)).to.equal(' (DEPTH_ZERO_SELF_SIGNED_CERT)')
  })

  it('describeNetworkFailure returns a code of undici only if no other code exists', () => {
    expect(describeNetworkFailure(coded('UND_ERR_SOCKET'))).to.equal(' (UND_ERR_SOCKET)')
    expect(describeNetworkFailure(coded('UND_ERR_SOCKET', { cause: coded('ECONNRESET') }))).to.equal(
      ' (ECONNRESET)',
    )
  })

  it('describeNetworkFailure returns each code of an aggregate error once', () => {
    const several = new AggregateError([coded('EHOSTUNREACH'), coded('ECONNREFUSED'), coded('ECONNREFUSED')])
    expect(describeNetworkFailure(several)).to.equal(' (EHOSTUNREACH, ECONNREFUSED)')
    expect(describeNetworkFailure(new TypeError('fetch failed', { cause: several }))).to.equal(
      ' (EHOSTUNREACH, ECONNREFUSED)',
    )
  })

  it('describeNetworkFailure returns at most three codes, and ends for a cycle of causes', () => {
    const circle = coded('E_A')
    circle.cause = new AggregateError(
      ['E_B', 'E_C', 'E_D', 'E_E'].map((code) => coded(code)),
      '',
      {
        cause: circle,
      },
    )
    expect(describeNetworkFailure(circle)).to.equal(' (E_A, E_B, E_C)')
  })

  it('describeNetworkFailure follows 15 causes', () => {
    const behind = (causes: number): unknown =>
      causes === 0 ? coded('E_DEEP') : new Error('x', { cause: behind(causes - 1) })
    expect(describeNetworkFailure(behind(15))).to.equal(' (E_DEEP)')
    expect(describeNetworkFailure(behind(16))).to.equal('')
  })

  for (const value of [
    undefined,
    null,
    'ECONNREFUSED',
    new Error('ECONNREFUSED'),
    { code: 5 },
    { code: 'https://x/S3cr3t' },
    { code: `E${'X'.repeat(100)}` },
  ]) {
    it(`describeNetworkFailure returns an empty string for ${String(value)} ${JSON.stringify(value)?.slice(0, 40)}`, () =>
      expect(describeNetworkFailure(value)).to.equal(''))
  }
})
