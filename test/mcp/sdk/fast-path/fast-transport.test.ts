import { expect } from 'chai'
import { type FastCall, serveFast } from '../../../../src/mcp/sdk/fast-path.ts'

describe('serveFast()', () => {
  it('the connection to a server that throws while it receives a request is closed', async () => {
    const thrown = new Error('the server is broken')
    let closes = 0
    const server = {
      connect: async (transport: object) => {
        Object.assign(transport, {
          onclose: () => closes++,
          onmessage: () => {
            throw thrown
          },
        })
      },
    }
    const call = {
      message: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
      classification: { era: 'legacy' },
      exchange: { auth: undefined },
      request: { onDisconnect: () => {} },
    } as unknown as FastCall
    const outcome = await serveFast(server as never, call).catch((error: unknown) => error)
    expect(outcome).to.equal(thrown)
    expect(closes).to.equal(1)
  })
})
