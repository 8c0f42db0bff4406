import type { JSONRPCMessage, JSONRPCNotification, JSONRPCRequest } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { ServerRequests } from '../../../../src/mcp/sdk/sessions/server-requests.ts'
import type { SessionLink } from '../../../../src/mcp/sdk/sessions/session-link.ts'

/** A server of a session, and what it has received. */
function link(): SessionLink & { readonly received: JSONRPCMessage[] } {
  const received: JSONRPCMessage[] = []
  return { received, onmessage: (message: JSONRPCMessage) => void received.push(message) } as never
}

const request = (id: number, params?: object): JSONRPCRequest =>
  ({ jsonrpc: '2.0', id, method: 'elicitation/create', ...(params !== undefined && { params }) }) as never
const cancelled = (requestId: number): JSONRPCNotification => ({
  jsonrpc: '2.0',
  method: 'notifications/cancelled',
  params: { requestId, reason: 'late' },
})
const response = (id: unknown) => ({ jsonrpc: '2.0', id, result: {} }) as JSONRPCMessage & { id: unknown }

describe('ServerRequests', () => {
  it('the requests of all servers of a session get the ids 0, 1, 2, …', () => {
    const requests = new ServerRequests({ nextRequestId: 0 })
    const [one, other] = [link(), link()]
    expect([one, other, one].map((from) => requests.register(from, request(5)).id)).to.deep.equal([0, 1, 2])
    expect(requests.register(one, request(5))).to.deep.equal(request(3))
  })

  it('a response goes once to the server that has sent the request, with the id of that server', () => {
    const requests = new ServerRequests({ nextRequestId: 0 })
    const [one, other] = [link(), link()]
    requests.register(one, request(7))
    requests.register(other, request(7))
    // Clients may return the id as a string.
    for (const id of ['1', 1, 2, undefined]) requests.respond(response(id), undefined)
    expect(other.received).to.deep.equal([response(7)])
    expect(one.received).to.deep.equal([])
  })

  it('a progress token that is the id of the request is replaced with the id that the client knows', () => {
    const requests = new ServerRequests({ nextRequestId: 0 })
    const server = link()
    requests.register(server, request(6))
    const params = { _meta: { progressToken: 7, other: 1 }, message: 'Name?' }
    expect(requests.register(server, request(7, params)).params).to.deep.equal({
      ...params,
      _meta: { progressToken: 1, other: 1 },
    })
    const own = { _meta: { progressToken: 'own' } }
    expect(requests.register(server, request(8, own)).params).to.deep.equal(own)
    const progress = (progressToken: unknown) =>
      ({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken, progress: 1 } }) as never
    for (const token of [1, 9]) requests.reportProgress(progress(token), undefined)
    expect(server.received).to.deep.equal([progress(7)])
  })

  it('a cancellation by a server names the id that the client knows, and the request is forgotten', () => {
    const requests = new ServerRequests({ nextRequestId: 0 })
    const [one, other] = [link(), link()]
    for (const from of [one, other]) for (const id of [7, 8]) requests.register(from, request(id))
    expect(requests.toClient(other, cancelled(8))).to.deep.equal(cancelled(3))
    requests.respond(response(3), undefined)
    expect(other.received).to.deep.equal([])
    requests.respond(response(1), undefined)
    expect(one.received).to.deep.equal([response(8)])
  })

  it('a cancellation of an unknown request and any other notification are sent unchanged', () => {
    const requests = new ServerRequests({ nextRequestId: 0 })
    const server = link()
    requests.register(server, request(7))
    expect(requests.toClient(server, cancelled(0))).to.deep.equal(cancelled(0))
    const message = { ...cancelled(7), method: 'notifications/message' }
    expect(requests.toClient(server, message)).to.equal(message)
    requests.respond(response(0), undefined)
    expect(server.received).to.have.length(1)
  })

  it('the requests of a server that was closed are forgotten, and those of others are kept', () => {
    const requests = new ServerRequests({ nextRequestId: 0 })
    const [one, other] = [link(), link()]
    for (const from of [one, other, one]) requests.register(from, request(7))
    requests.forgetAllOf(one)
    for (const id of [0, 1, 2]) requests.respond(response(id), undefined)
    expect([one.received.length, other.received.length]).to.deep.equal([0, 1])
  })

  it('forget() and clear() drop requests without a response', () => {
    const requests = new ServerRequests({ nextRequestId: 0 })
    const server = link()
    for (const id of [7, 8]) requests.register(server, request(id))
    requests.forget(0)
    requests.respond(response(0), undefined)
    requests.clear()
    requests.respond(response(1), undefined)
    expect(server.received).to.deep.equal([])
  })
})
