import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, memoryEventStore } from '../../../src/index.ts'
import { serveEvents } from '../../support/mcp/events.ts'
import { BOTH_KINDS, beginSession, legacy, modern, send } from '../../support/mcp/wire.ts'
import { standstill, until } from '../../support/until.ts'

/** More than the buffers of the sockets hold. */
const COUNT = 150

const router = KitMcpRouter.create().event('big', {
  description: 'A large event',
  payload: z.object({ text: z.string() }),
})

describe('events/stream with a client that does not read', () => {
  const headers = { authorization: 'Bearer ada' }
  const params = { name: 'big' }

  for (const [title, options] of [
    ['2026-07-28', {}],
    ['2025-11-25 without a session', {}],
    ['2025-11-25 in a session', { sessions: true }],
  ] as const)
    for (const reads of [true, false])
      it(`a client of ${title} that does not read gets no further events until it ${reads ? 'reads' : 'leaves'}`, async () => {
        const { adapter, port } = await serveEvents({
          router,
          events: { store: memoryEventStore({ maxLogBytes: 200_000_000 }) },
          ...options,
        })
        let session = {}
        if ('sessions' in options)
          session = await beginSession({ send: (request) => send(port, request) }, headers)
        const request =
          title === '2026-07-28'
            ? modern('events/stream', params, headers)
            : legacy({ jsonrpc: '2.0', id: 1, method: 'events/stream', params }, { ...headers, ...session })
        const outgoing = httpRequest({
          host: '127.0.0.1',
          port,
          path: '/mcp',
          method: 'POST',
          agent: false,
          headers: { accept: BOTH_KINDS, ...(request.headers as Record<string, string>) },
        })
        outgoing.on('error', () => undefined)
        outgoing.end(request.body as string)
        const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
        response.on('error', () => undefined)
        await until(() => adapter.events.stats().streams === 1)
        const text = 'x'.repeat(200_000)
        for (let count = 0; count < COUNT; count++) await adapter.events.emit('big', { text })
        await standstill(() => adapter.events.stats().delivered.stream, 20)
        const before = adapter.events.stats().delivered.stream
        expect(before).to.be.below(COUNT)
        if (!reads) {
          outgoing.destroy()
          await until(() => adapter.events.stats().streams === 0, 5)
          return
        }
        let bytes = 0
        response.on('data', (chunk: Buffer) => {
          bytes += chunk.length
        })
        await until(() => bytes > COUNT * 200_000, 5)
        expect(adapter.events.stats().delivered.stream).to.equal(COUNT)
        outgoing.destroy()
        await until(() => adapter.events.stats().streams === 0, 5)
      })
})
