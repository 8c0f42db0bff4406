import { AsyncLocalStorage } from 'node:async_hooks'
import { expect } from 'chai'
import { InOrderTransport } from '../../../src/telemetry/audit/in-order-transport.ts'
import { KitTelemetryError, type TelemetryTransport } from '../../../src/telemetry/index.ts'
import { anEvent } from '../../support/chat-services.ts'
import { type FakeTime, fakeTime } from '../../support/fake-time.ts'
import { type Deferred, deferred, settle } from '../../support/telemetry/recording.ts'

/** A transport whose calls of `handle` settle when the test says so. */
function slowTransport(more: Partial<TelemetryTransport> = {}) {
  const calls: (Deferred & { readonly name: string; readonly emittedAtMs: number | undefined })[] = []
  const failures: unknown[] = []
  const transport = new InOrderTransport(
    {
      type: 'slow',
      handle: ({ name }, emittedAtMs) => {
        const call = { ...deferred(), name, emittedAtMs }
        calls.push(call)
        return call.promise
      },
      ...more,
    },
    (cause) => void failures.push(cause),
  )
  const handle = (name: string) => transport.handle(anEvent({ name }))
  return { calls, failures, transport, handle, names: () => calls.map(({ name }) => name) }
}

const failed = (details?: Record<string, unknown>) =>
  new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', 'no', details === undefined ? {} : { details })

describe('transport of the audit log', () => {
  let time: FakeTime
  beforeEach(() => {
    time = fakeTime()
  })
  afterEach(() => time.restore())

  async function advance(ms: number): Promise<void> {
    await settle()
    time.advance(ms)
    await settle()
  }

  it('a failed event is passed again before later ones, after pauses that double up to 30 s', async () => {
    const { calls, failures, handle, names } = slowTransport()
    const events = [handle('a'), handle('b')]
    const pauses = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]
    for (const [index, pauseMs] of pauses.entries()) {
      calls[index]?.reject(failed())
      await advance(pauseMs - 1)
      expect(calls).to.have.length(index + 1)
      await advance(1)
      expect(calls).to.have.length(index + 2)
    }
    expect(new Set(names())).to.deep.equal(new Set(['a']))
    expect(failures).to.have.length(pauses.length)
    calls.at(-1)?.resolve()
    await events[0]
    await settle()
    expect(names().at(-1)).to.equal('b')
  })

  for (const status of [400, 413, 422]) {
    it(`an event that the target rejects with ${status} fails, and later ones go on`, async () => {
      const { calls, failures, handle, names } = slowTransport()
      const [first] = [handle('a'), handle('b')]
      calls[0]?.reject(failed({ status }))
      const error = await Promise.resolve(first).catch((cause: unknown) => cause)
      expect(KitTelemetryError.is(error)).to.equal(true)
      await settle()
      expect(names()).to.deep.equal(['a', 'b'])
      expect(failures).to.deep.equal([])
    })
  }

  for (const status of [401, 403, 404, 408, 429, 500, 503, '400', undefined]) {
    it(`an event is passed again after the status ${JSON.stringify(status)}`, async () => {
      const { calls, handle, names } = slowTransport()
      void handle('a')
      calls[0]?.reject(failed({ status }))
      await advance(100)
      expect(names()).to.deep.equal(['a', 'a'])
    })
  }

  it('a flush shortens a long pause to a second and flushes the transport', async () => {
    let flushes = 0
    const { calls, transport, handle } = slowTransport({ flush: () => void flushes++ })
    void handle('a')
    for (const pauseMs of [100, 200, 400, 800]) {
      calls.at(-1)?.reject(failed())
      await advance(pauseMs)
    }
    calls.at(-1)?.reject(failed())
    await advance(300)
    flushes = 0
    await transport.flush()
    await transport.flush()
    expect(flushes).to.equal(2)
    await advance(699)
    expect(calls).to.have.length(5)
    await advance(1)
    expect(calls).to.have.length(6)
  })

  it('the flush of the transport for each event does not wait, and that of a caller ends at its deadline', async () => {
    const deadlines: (AbortSignal | undefined)[] = []
    const { calls, handle, transport } = slowTransport({ flush: (deadline) => void deadlines.push(deadline) })
    const event = handle('a')
    const controller = new AbortController()
    await transport.flush(controller.signal)
    expect(deadlines.map((deadline) => deadline?.aborted)).to.deep.equal([true, false])
    controller.abort()
    expect(deadlines[1]?.aborted).to.equal(true)
    calls[0]?.resolve()
    await event
  })

  it('an event that had to wait keeps its async context and gets the time of its call', async () => {
    const storage = new AsyncLocalStorage<string>()
    const contexts: unknown[] = []
    const { calls, handle } = slowTransport({
      handle: (_, emittedAtMs) => {
        const call = { ...deferred(), name: '', emittedAtMs }
        contexts.push([storage.getStore(), emittedAtMs !== undefined])
        calls.push(call)
        return call.promise
      },
    })
    const first = storage.run('first', () => handle('a'))
    const second = storage.run('second', () => handle('b'))
    calls[0]?.reject(failed())
    await advance(100)
    calls[1]?.resolve()
    await first
    await settle()
    calls[2]?.resolve()
    await second
    expect(contexts).to.deep.equal([
      ['first', false],
      ['first', true],
      ['second', true],
    ])
  })
})
