import { once } from 'node:events'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { expect } from 'chai'
import { KitTelemetryError } from '../../../../src/telemetry/errors.ts'
import {
  EventState,
  type FromWorker,
  runWorkerProgram,
  type ToWorker,
} from '../../../../src/telemetry/transports/worker/worker-program.ts'
import { anEvent } from '../../../support/chat-services.ts'

describe('runWorkerProgram', () => {
  let port: MessagePort
  afterEach(() => port.close())

  /** Starts the program in this thread with a module. */
  function start(exported: Readonly<Record<string, unknown>>) {
    const { port1, port2 } = new MessageChannel()
    port = port1
    const meta = { service: 's', environment: 'e' }
    void runWorkerProgram(
      { port: port2, moduleUrl: 'file:///x.js', data: 'data', meta },
      async () => exported,
    )
    return {
      send: (message: ToWorker) => port1.postMessage(message),
      next: async (): Promise<FromWorker> => (await once(port1, 'message'))[0],
    }
  }

  it('runWorkerProgram sends one message for the outcomes of one turn, and answers flush and shutdown', async () => {
    const calls: unknown[] = []
    const { send, next } = start({
      default: (data: unknown) => ({
        init: (meta: unknown) => void calls.push(data, meta),
        handle: ({ name }: { name: string }, at?: number) => {
          calls.push(name, at)
          if (name === 'a.late')
            return Promise.reject(new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', 'late'))
          if (name === 'a.bad') throw new RangeError('bad')
          return undefined
        },
        flush: () => void calls.push('flush'),
      }),
    })
    expect(await next()).to.deep.equal({ type: 'ready' })
    const states = new Uint8Array(new SharedArrayBuffer(3))
    send({
      type: 'events',
      states,
      start: 0,
      events: [
        [1, anEvent({ name: 'a.good' }), 5],
        [2, anEvent({ name: 'a.bad' }), undefined],
        [3, anEvent({ name: 'a.late' }), undefined],
      ],
    })
    const first = (await next()) as FromWorker & { readonly type: 'settled' }
    expect(first.delivered).to.deep.equal([1])
    const failed = [...first.failed]
    if (failed.length < 2) failed.push(...((await next()) as typeof first).failed)
    expect(
      failed.map(([number, { name, message, kitDetails }]) => [number, name, message, kitDetails]),
    ).to.deep.equal([
      [2, 'RangeError', 'bad', undefined],
      [3, 'KitTelemetryError', 'late', '{}'],
    ])
    expect([...states]).to.deep.equal([EventState.delivered, EventState.failed, EventState.failed])
    send({ type: 'flush', call: 7 })
    expect(await next()).to.deep.equal({ type: 'flushed', call: 7 })
    send({ type: 'shutdown' })
    expect(await next()).to.deep.equal({ type: 'closed' })
    expect(calls).to.deep.equal([
      ...['data', { service: 's', environment: 'e' }],
      ...['a.good', 5, 'a.bad', undefined, 'a.late', undefined, 'flush'],
    ])
  })

  it('runWorkerProgram describes thrown values that are not errors, or that cannot be read', async () => {
    const unreadable = new Proxy({}, { get: () => expect.fail() })
    const thrown = [undefined, null, 'x', 5, unreadable, { name: 5, message: {} }]
    const { send, next } = start({
      transport: () => ({
        handle: ({ name }: { name: string }) => {
          throw thrown[Number(name)]
        },
      }),
    })
    await next()
    send({
      type: 'events',
      states: new Uint8Array(new SharedArrayBuffer(thrown.length)),
      start: 0,
      events: thrown.map((_, index) => [index, anEvent({ name: String(index) }), undefined]),
    })
    const { failed } = (await next()) as FromWorker & { readonly type: 'settled' }
    expect(failed).to.deep.equal(thrown.map((_, index) => [index, { name: 'Error', message: '' }]))
  })

  for (const [what, exported] of [
    ['does not export a function', {}],
    ['makes something else', { default: () => 5 }],
  ] as const) {
    it(`runWorkerProgram reports a module that ${what}`, async () => {
      const { next } = start(exported)
      const message = await next()
      expect(message).to.have.nested.property('error.name', 'TypeError')
      expect(message.type).to.equal('failed')
    })
  }
})
