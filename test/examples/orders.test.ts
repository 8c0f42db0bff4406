import { expect } from 'chai'
import { startExample } from '../support/examples/run.ts'

describe('the example orders.ts', () => {
  it('orders.ts emits events of two orders in separate sessions and prints the delivery statistics', async () => {
    const { exitCode, stdout, stderr } = await startExample('orders').ended
    // The lines after the first one are the stack of the error.
    const others = stderr.trimEnd().split('\n').slice(1)
    expect({ exitCode, others: others.filter((line) => !line.startsWith('      at ')) }).to.deep.equal({
      exitCode: 0,
      others: [],
    })

    const session = / actor=user:u1 scope=tenant:t1 session=(ses_\w{26}) channel=web order=/
    const [placed = '', refused = '', statistics] = stdout.trimEnd().split('\n')
    expect(placed).to.match(/^INFO shop\.order\.placed .* order=o1200 cents=1200 email=[0-9a-f]{64}$/)
    expect(refused).to.match(/^INFO shop\.order\.placed .* order=o-5 cents=-5 email=[0-9a-f]{64}$/)
    expect(stderr).to.match(
      /^ERROR shop\.order\.failed .* order=o-5 RangeError: an order must cost something$/m,
    )
    const [first, second, failed] = [placed, refused, stderr].map((line) => session.exec(line)?.[1])
    expect(failed).to.equal(second)
    expect(first).to.be.a('string').and.not.equal(second)
    expect(statistics).to.equal('{ delivered: 3, failed: 0, dropped: 0, pending: 0 }')
    expect(stdout + stderr).not.to.contain('ada@example.com')
  })
})
