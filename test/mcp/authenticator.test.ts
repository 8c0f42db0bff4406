import { expect } from 'chai'
import { Authenticator } from '../../src/mcp/authenticator.ts'
import { Instrumentation } from '../../src/mcp/instrumentation/instrumentation.ts'
import { FAILED_RESPONSE } from '../../src/oauth/refusal-responses.ts'

describe('Authenticator', () => {
  it('a context that cannot be created without OAuth gets the response of a failure', async () => {
    const authenticator = new Authenticator({
      gate: undefined,
      makeContext: () => expect.fail('no context'),
      instrumentation: new Instrumentation(false),
      bodyLimits: { maxBytes: 1_000, timeoutMs: 1_000 },
    })
    expect(await authenticator.authenticate({} as never)).to.deep.equal({ response: FAILED_RESPONSE })
  })
})
