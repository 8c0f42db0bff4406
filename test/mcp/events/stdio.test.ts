import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { expect } from 'chai'
import { z } from 'zod'
import { Instrumentation } from '../../../src/mcp/instrumentation/instrumentation.ts'
import { eventsFor } from '../../../src/mcp/mcp-adapter.ts'
import { KitMcpRouter, tableOf } from '../../../src/mcp/router/router.ts'
import { StdioConnection } from '../../../src/mcp/stdio/stdio-connection.ts'
import { MODERN, modern } from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

const router = KitMcpRouter.create().event('incident', {
  description: 'An incident',
  payload: z.object({ id: z.number() }),
})

describe('Events over stdio', () => {
  it('a client polls events, and gets them on a stream until it cancels the request', async () => {
    const [input, output] = [new PassThrough(), new PassThrough()]
    const lines = createInterface({ input: output })[Symbol.asyncIterator]()
    const next = async () => JSON.parse((await lines.next()).value as string)
    const connection = new StdioConnection({
      table: tableOf(router),
      serverInfo: { name: 'test', version: '1.0.0' },
      instructions: undefined,
      instrumentation: new Instrumentation(false),
      maxMessageBytes: 1_000_000,
      input,
      output,
    })
    const events = eventsFor(connection.events)
    const say = (id: number, method: string, params: Record<string, unknown>) =>
      input.write(`${JSON.stringify({ ...JSON.parse(modern(method, params).body as string), id })}\n`)

    say(1, 'events/list', {})
    const list = (await next()).result
    expect(list.events[0].delivery).to.deep.equal(['poll', 'push'])
    say(2, 'events/stream', { name: 'incident' })
    expect((await next()).method).to.equal('notifications/events/active')
    const { eventId } = await events.emit('incident', { id: 1 })
    const event = await next()
    expect(event.params).to.deep.include({ eventId, _meta: { 'io.modelcontextprotocol/subscriptionId': 2 } })
    say(3, 'events/poll', { name: 'incident', cursor: null })
    expect((await next()).result.events).to.deep.equal([])
    input.write(
      `${JSON.stringify({
        jsonrpc: '2.0',
        method: 'notifications/cancelled',
        params: { requestId: 2, _meta: { 'io.modelcontextprotocol/protocolVersion': MODERN } },
      })}\n`,
    )
    await until(() => events.stats().streams === 0, 5)
    input.end()
    await connection.ended
  })
})
