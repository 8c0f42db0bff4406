import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter } from '../../../src/index.ts'
import { accepts } from '../../../src/mcp/wire/request-headers.ts'
import { web } from '../../support/mcp/entry-points.ts'
import { initialization, legacy, modern, rpc } from '../../support/mcp/wire.ts'

const router = KitMcpRouter.create().tool('t', { description: 'x' }, () => 'x')
const INITIALIZE = initialization()

/** By `Accept`, whether JSON and an event stream are acceptable. */
const HEADERS: readonly (readonly [string | undefined, json: boolean, events: boolean])[] = [
  [undefined, true, true],
  ['*/*', true, true],
  ['application/json, text/event-stream', true, true],
  ['Application/JSON, Text/Event-Stream', true, true],
  ['application/*, text/*', true, true],
  ['APPLICATION/* ;q=0.5,TEXT/*; q=0.001', true, true],
  ['application/json;charset=utf-8, text/event-stream;q=1.0', true, true],
  ['application/json', true, false],
  ['text/*', false, true],
  ['application/jsonx, text/event-streamy', false, false],
  ['x-application/json, xtext/event-stream', false, false],
  ['application/json, text/event-stream;q=0', true, false],
  ['application/json;Q=0.000, text/event-stream', false, true],
  ['*/*, text/event-stream;q=0', true, false],
  ['text/event-stream, */*;q=0', false, true],
  ['text/*;q=0, text/event-stream, application/json', true, true],
  ['text/event-stream;q=0, text/*, application/json', true, false],
  ['*/*;q=0', false, false],
  ['image/png', false, false],
]

describe('mcp: the header Accept', () => {
  const { server: serverless } = createMcpAdapter({ router })
  const { server: withSessions } = createMcpAdapter({ router, sessions: {} })
  const stateless = web(serverless)
  const stateful = web(withSessions)

  for (const [accept, json, events] of HEADERS) {
    const status = json && events ? 200 : 406
    const title = accept === undefined ? 'no Accept' : `Accept: ${accept}`
    it(`${title} gets ${status} for a POST and ${events ? 200 : 406} for a GET`, async () => {
      for (const request of [legacy(rpc('tools/list'), { accept }), legacy(INITIALIZE, { accept })])
        expect((await stateless.send(request)).status).to.equal(status)
      const begun = await stateful.send(legacy(INITIALIZE, { accept }))
      expect(begun.status).to.equal(status)
      if (status === 406) expect(begun.text).to.contain('both application/json and text/event-stream')
      expect((await stateless.send(modern('tools/list', {}, { accept }))).status).to.equal(200)
      const { headers } = await stateful.send(legacy(INITIALIZE))
      const id = headers.get('mcp-session-id') ?? ''
      for (const [handler, given] of [
        [serverless, {}],
        [withSessions, { 'mcp-session-id': id }],
      ] as const) {
        const headers = { ...given, ...(accept !== undefined && { accept }) }
        const response = await handler(new Request('http://localhost:3000/mcp', { headers }))
        await response.body?.cancel()
        expect(response.status).to.equal(events ? 200 : 406)
      }
      expect(accepts(accept, 'text/event-stream')).to.equal(events)
    })
  }
})
