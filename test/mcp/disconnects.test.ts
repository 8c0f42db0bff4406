import { once } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { InMemoryServerEventBus } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { endpointOf } from '../../src/mcp/endpoint-of.ts'
import { disconnectAtRandom } from '../support/disconnects.ts'
import { onExpress } from '../support/mcp/entry-points.ts'
import { call, definedOf, legacy, modern, rpc, type WireRequest } from '../support/mcp/wire.ts'
import { runs } from '../support/runs.ts'

describe('mcp: clients that disconnect', function () {
  this.timeout(60_000)

  it('clients that disconnect at any moment of a request leave nothing behind, and the server keeps working', async () => {
    await disconnectAtRandom(runs(1_500), 1)
  })
})

const turns = async (count: number): Promise<void> => {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate)
}

/** A collector of garbage, as `--expose-gc` would give. */
function collector(): () => void {
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}

describe('mcp: a web-standard request whose host keeps nothing but its way to abort it', () => {
  const requests: Readonly<Record<string, WireRequest>> = {
    'a call of 2026-07-28': modern('tools/call', { name: 'wait' }),
    'a call of 2025-11-25': legacy(call('wait')),
    'a listening': modern('subscriptions/listen', { notifications: { toolsListChanged: true } }),
    'an event stream': { method: 'GET', headers: {} },
  }
  for (const [what, { method = 'POST', headers = {}, body }] of Object.entries(requests)) {
    for (const direct of [true, false]) {
      it(`${what} is aborted although the host keeps only its signal, ${direct ? 'on the fast path' : "by the SDK's handler"}`, async () => {
        let pending = 0
        const router = KitMcpRouter.create().tool('wait', { description: 'x' }, async (_args, { signal }) => {
          pending++
          await once(signal, 'abort')
          pending--
        })
        const eventBus = new InMemoryServerEventBus()
        const adapter = createMcpAdapter({ router, eventBus })
        const service = endpointOf(adapter)
        if (service !== undefined) service.sdkHandler.usesFastPath = direct
        const aborts = Array.from({ length: 20 }, () => new AbortController())
        for (const { signal } of aborts) {
          const init = { method, headers: definedOf(headers), body: (body ?? null) as string | null, signal }
          void adapter.server(new Request('http://localhost/mcp', init))
        }
        while (pending + eventBus.listenerCount < aborts.length) await turns(1)
        const collect = collector()
        for (let time = 0; time < 3; time++) {
          collect()
          await turns(3)
        }
        for (const abort of aborts) abort.abort()
        await turns(5)
        expect(pending).to.equal(0)
        expect(eventBus.listenerCount).to.equal(0)
      })
    }
  }

  it('a request is not aborted after its response, also after a stream', async () => {
    const signals: AbortSignal[] = []
    const router = KitMcpRouter.create().tool(
      'tell',
      { description: 'x' },
      async (_args, { signal, log, progress }) => {
        signals.push(signal)
        await log('error', 'x')
        await progress(1)
        return 'sent'
      },
    )
    const params = { name: 'tell', _meta: { progressToken: 1 } }
    const listening = await onExpress(mcpHandler(createMcpAdapter({ router })))
    for (const connection of ['keep-alive', 'close'])
      for (const request of [modern('tools/call', params), legacy(rpc('tools/call', params))]) {
        const answer = await listening.send({ ...request, headers: { ...request.headers, connection } })
        expect(answer.text).to.contain('sent')
      }
    await listening.close()
    await turns(5)
    expect(signals.map(({ aborted }) => aborted)).to.deep.equal([false, false, false, false])
  })

  it('a request that was aborted before is not served', async () => {
    let called = 0
    const router = KitMcpRouter.create().tool('count', { description: 'x' }, () => {
      called++
    })
    const adapter = createMcpAdapter({ router })
    for (const request of [modern('tools/call', { name: 'count' }), legacy(call('count'))]) {
      const abort = new AbortController()
      const init = { method: 'POST', headers: definedOf(request.headers ?? {}), signal: abort.signal }
      const given = new Request('http://localhost/mcp', { ...init, body: request.body as string })
      const answering = adapter.server(given)
      abort.abort()
      expect((await answering).status).to.be.oneOf([400, 499])
      await turns(2)
    }
    expect(called).to.equal(0)
  })
})
