import { expect } from 'chai'
import { signatureOf, signingKeyOf } from '../../../../src/mcp/events/webhooks/signature.ts'

const secretOf = (bytes: number): string => `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`

// test/attacks/events.test.ts asks for more secrets over the wire.
describe('mcp/events/webhooks: signatures', () => {
  it('the signature of the example of Standard Webhooks is the published one', () => {
    const parts = {
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: 1_614_265_330,
      body: '{"test": 2432232314}',
    }
    const expected = 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    expect(signatureOf(parts, [secret])).to.equal(expected)
    const both = signatureOf(parts, [secretOf(32), secret]).split(' ')
    expect(both).to.have.length(2)
    expect(both[1]).to.equal(expected)
    expect(signatureOf({ ...parts, body: 'é' }, [secret])).to.not.equal(expected)
  })

  for (const [name, secret, bytes] of [
    ['of 24 bytes', secretOf(24), 24],
    ['of 25 bytes', secretOf(25), 25],
    ['of 26 bytes', secretOf(26), 26],
    ['of 64 bytes', secretOf(64), 64],
    ['with another prefix', secretOf(32).replace('whsec_', 'whsk_'), undefined],
    ['in base64url', `whsec_${Buffer.alloc(32, 0xff).toString('base64url')}`, undefined],
    ['without its padding', secretOf(32).replace('=', ''), undefined],
    ['with a space', secretOf(32).replace('B', ' '), undefined],
    ['that is empty', '', undefined],
    ['that is only a prefix', 'whsec_', undefined],
    ['that is a number', 5, undefined],
    ['that is an array', [secretOf(32)], undefined],
  ] as const)
    it(`a secret ${name} is ${bytes === undefined ? 'rejected' : 'accepted'}`, () => {
      expect(signingKeyOf(secret)?.length).to.equal(bytes)
    })
})
