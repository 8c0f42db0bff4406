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
import { type Deferred, deferred } from '../../../support/telemetry/recording.ts'

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

  for (const call of ['flush', 'shutdown'] as const)
    it(`runWorkerProgram sends the outcomes that ${call} has waited for before its response, also within a later batch`, async () => {
      let deliver = () => {}
      let finish = () => {}
      const finished = new Promise<void>((resolve) => {
        finish = resolve
      })
      const { send, next } = start({
        default: () => ({
          handle: ({ name }: { name: string }) => {
            if (name === 'waiting')
              return new Promise<void>((resolve) => {
                deliver = resolve
              })
            if (name === 'last') {
              deliver()
              finish()
            }
            return Promise.resolve()
          },
          [call]: () => finished,
        }),
      })
      await next()
      const states = new Uint8Array(new SharedArrayBuffer(22))
      const types: string[] = []
      const deliveredBefore: number[] = []
      send({ type: 'events', states, start: 0, events: [[1, anEvent({ name: 'waiting' }), undefined]] })
      send(call === 'flush' ? { type: 'flush', call: 1 } : { type: 'shutdown' })
      // The batch goes on for many microtasks after the event that ends the call.
      const rest = Array.from(
        { length: 20 },
        (_, index) => [index + 3, anEvent({ name: 'more' }), undefined] as const,
      )
      send({
        type: 'events',
        start: 1,
        events: [[2, anEvent({ name: 'last' }), undefined], ...rest],
      })
      while (!types.some((type) => type === 'flushed' || type === 'closed')) {
        const message = await next()
        types.push(message.type)
        if (message.type === 'settled') deliveredBefore.push(...message.delivered)
      }
      expect(deliveredBefore).to.include(1)
    })

  it('runWorkerProgram sends outcomes that are known later without another message, those of one turn together', async () => {
    const waiting: Deferred[] = []
    const begun = deferred()
    const { send, next } = start({
      default: () => ({
        handle() {
          const one = deferred()
          waiting.push(one)
          if (waiting.length === 4) begun.resolve()
          return one.promise
        },
      }),
    })
    await next()
    const events = [1, 2, 3, 4].map((number) => [number, anEvent({}), undefined] as const)
    send({ type: 'events', states: new Uint8Array(new SharedArrayBuffer(4)), start: 0, events })
    await begun.promise
    // The batch ends in the microtasks after its last event.
    await new Promise((resolve) => setImmediate(resolve))
    waiting[2]?.resolve()
    waiting[0]?.resolve()
    waiting[1]?.reject(new RangeError('bad'))
    const { delivered, failed } = (await next()) as FromWorker & { readonly type: 'settled' }
    expect([delivered, failed.map(([number, { message }]) => [number, message])]).to.deep.equal([
      [3, 1],
      [[2, 'bad']],
    ])
    waiting[3]?.resolve()
    expect(await next()).to.deep.equal({ type: 'settled', delivered: [4], failed: [] })
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
