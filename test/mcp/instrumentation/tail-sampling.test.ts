import { performance } from 'node:perf_hooks'
import { expect } from 'chai'
import { InMemoryTransportAdapter, KitTelemetry, type TelemetrySamplingPolicy } from '../../../src/index.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { ENTRY_POINTS, type Served } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, call, legacy, modern, signalled, type WireRequest } from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

const [ACCEPTED, REFUSED, REQUEST, TOOL, TOOL_FAILED] = [
  'kit.mcp.auth.accepted',
  'kit.mcp.auth.refused',
  'kit.mcp.request.completed',
  'kit.mcp.tool.completed',
  'kit.mcp.tool.failed',
]

/** Drops every event of a request that did not fail, was not slow, and was not refused. */
const POLICY: TelemetrySamplingPolicy = {
  unit: 'session',
  debugRate: 0,
  infoRate: 0,
  keep: { level: 'warn', slowerThanMs: 60_000 },
}

describe('mcp: tail sampling', () => {
  const now = performance.now
  let offsetMs = 0
  let running = signalled()
  let ending = signalled()
  beforeEach(() => {
    offsetMs = 0
    running = signalled()
    ending = signalled()
    performance.now = () => now.call(performance) + offsetMs
  })
  afterEach(() => {
    performance.now = now
  })

  const router = KitMcpRouter.create()
    .tool('fast', { description: 'x' }, () => 'x')
    .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
    .tool('fail', { description: 'x' }, () => {
      throw new Error('x')
    })
    .tool('slow', { description: 'x' }, () => {
      offsetMs += 60_001
      return 'x'
    })
    .tool('endless', { description: 'x' }, async () => {
      running.resolve()
      await ending.promise
      return 'x'
    })

  const transport = InMemoryTransportAdapter.create()
  const manager = KitTelemetry.create().withSampling(POLICY).addTransport(transport).build()

  /** Returns each delivered event with the condition under which it was delivered. */
  const delivered = (): string[] =>
    transport
      .getEvents()
      .map(({ name, attributes }) => `${name} ${attributes?.['kit.sampled_by'] ?? 'at once'}`)

  const setup = { router, oauth: oauth(), telemetry: manager }

  for (const { name, serve, wire } of ENTRY_POINTS) {
    describe(name, () => {
      let served: Served
      before(async () => {
        served = await serve(setup)
      })
      after(async () => served.close())
      beforeEach(() => transport.clear())

      const requests: readonly [title: string, request: WireRequest, events: readonly string[]][] = [
        ['no event of a fast request that succeeds', legacy(call('fast'), bearer('reader')), []],
        ['no event of a call of an unknown tool', legacy(call('unknown'), bearer('reader')), []],
        [
          'no event of a call of 2026-07-28 of an unknown tool',
          modern('tools/call', { name: 'unknown' }, bearer('reader')),
          [],
        ],
        [
          'all events of a request whose tool failed',
          legacy(call('fail'), bearer('reader')),
          [`${TOOL_FAILED} at once`, `${ACCEPTED} level`, `${REQUEST} level`],
        ],
        [
          'all events of a request of 2026-07-28 whose tool failed',
          modern('tools/call', { name: 'fail' }, bearer('reader')),
          [`${TOOL_FAILED} at once`, `${ACCEPTED} level`, `${REQUEST} level`],
        ],
        [
          'all events of a slow request',
          legacy(call('slow'), bearer('reader')),
          [`${ACCEPTED} slowerThanMs`, `${TOOL} slowerThanMs`, `${REQUEST} slowerThanMs`],
        ],
        ['no event of a request without a token, which is normal', legacy(call('fast')), []],
        [
          'the event of a request with an unknown token',
          legacy(call('fast'), bearer('unknown')),
          [`${REFUSED} at once`],
        ],
        [
          'the event of a request without the scope of its tool',
          legacy(call('write'), bearer('reader')),
          [`${REFUSED} at once`],
        ],
      ]
      for (const [title, request, events] of requests) {
        it(`${name} keeps ${title}`, async () => {
          await served.send(request)
          expect(delivered()).to.deep.equal(events)
          const { emitted, sampledOut, held, transports } = manager.stats()
          expect(held).to.equal(0)
          expect(sampledOut + (transports[0]?.accepted as number)).to.equal(emitted)
        })
      }

      if (!wire) return
      it(`${name} keeps the events of a tool that ends after its slow request was disconnected`, async () => {
        const leaving = new AbortController()
        const { headers, body } = legacy(call('endless'), bearer('reader'))
        const response = fetch(new URL('/mcp', served.origin), {
          method: 'POST',
          headers: headers as Record<string, string>,
          body: body as string,
          signal: leaving.signal,
        }).catch(() => undefined)
        await running.promise
        offsetMs += 60_001
        leaving.abort()
        await response
        await until(() => delivered().includes(`${REQUEST} slowerThanMs`), 1)
        ending.resolve()
        await until(() => delivered().length === 3, 1)
        expect(delivered()).to.deep.equal([
          `${ACCEPTED} slowerThanMs`,
          `${REQUEST} slowerThanMs`,
          `${TOOL} slowerThanMs`,
        ])
      })
    })
  }
})
