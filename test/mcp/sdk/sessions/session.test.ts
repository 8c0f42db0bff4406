import { expect } from 'chai'
import { Session } from '../../../../src/mcp/sdk/sessions/session.ts'
import { StreamClock } from '../../../../src/mcp/sdk/streams/stream-clock.ts'

describe('Session', () => {
  it('a session ends once', () => {
    let ends = 0
    const session: Session = new Session('one', 'ada', {
      maxBufferedBytes: 1_024,
      clock: new StreamClock(),
      canMakeAgain: true,
      makeServer: () => expect.fail('a server was made'),
      authorityOf: () => '',
      onUse: () => {},
      onKept: () => {},
      onEnd: () => {
        ends++
        // An application may end the session again while it ends.
        session.end()
      },
    })
    expect([session.hasEnded, session.isIdle]).to.deep.equal([false, true])
    session.end()
    session.end()
    expect([session.hasEnded, ends]).to.deep.equal([true, 1])
  })
})
