import { expect } from 'chai'
import { SessionLink } from '../../../../src/mcp/sdk/sessions/session-link.ts'

/** A link, the requests that its server gets, and the numbers of calls of the session. */
function startLink() {
  const requests: { readonly id: string; readonly method: string }[] = []
  const counts = { closed: 0, closes: 0, sent: 0 }
  const session = {
    id: 'a',
    subscriptions: undefined as never,
    sendFrom: async () => void counts.sent++,
    closedBy: () => void counts.closed++,
    setSupportedProtocolVersions: () => undefined,
  }
  const link = new SessionLink(session, undefined as never, '')
  link.onmessage = (message) => void requests.push(message as never)
  link.onclose = () => void counts.closes++
  return { link, requests, counts }
}

describe('SessionLink', () => {
  for (const [what, end, outcome] of [
    ['resolves with the response', (link, id) => link.send({ jsonrpc: '2.0', id, result: {} }), 'resolved'],
    [
      'rejects with an error response',
      (link, id) => link.send({ jsonrpc: '2.0', id, error: { code: 1, message: 'no' } }),
      'The server of a session returned an error: no',
    ],
    [
      'rejects if the server closes its connection',
      (link) => link.close(),
      'The server of a session has closed its connection',
    ],
  ] as const satisfies readonly (readonly [
    string,
    (link: SessionLink, id: string) => Promise<void>,
    string,
  ])[])
    it(`a request of a session to its server ${what}`, async () => {
      const { link, requests, counts } = startLink()
      const asked = link.ask('ping', {}, {}).then(
        () => 'resolved',
        (error: Error) => error.message,
      )
      const [{ id, method } = expect.fail()] = requests
      expect(method).to.equal('ping')
      await end(link, id)
      expect(await asked).to.equal(outcome)
      expect(counts.sent).to.equal(0)
    })

  it('a link is closed once, and then sends nothing', async () => {
    const { link, counts } = startLink()
    await link.send({ jsonrpc: '2.0', method: 'notifications/message' })
    for (let time = 0; time < 2; time++) await link.close()
    await link.send({ jsonrpc: '2.0', method: 'notifications/message' })
    expect(counts).to.deep.equal({ closed: 1, closes: 1, sent: 1 })
  })
})
