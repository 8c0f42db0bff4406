import { AsyncLocalStorage } from 'node:async_hooks'
import { Agent } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'chai'
import {
  KitTelemetry,
  type KitTelemetryManager,
  OtlpTransportAdapter,
  type OtlpTransportOptions,
} from '../../src/telemetry/index.ts'
import { freePort } from '../support/free-port.ts'
import { spawnOtlpClient } from '../support/otlp-client.ts'
import { type OtlpReceiver, type OtlpReceiverOptions, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { until } from '../support/until.ts'

const MIB = 2 ** 20

describe('collectors with errors or limits', function () {
  this.timeout(60_000)
  const cleanups: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })

  async function receive(options: OtlpReceiverOptions): Promise<OtlpReceiver> {
    const receiver = await startOtlpReceiver(options)
    cleanups.push(() => receiver.close())
    return receiver
  }

  function managerOf(options: OtlpTransportOptions): KitTelemetryManager {
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger({ error: () => {}, warn: () => {} })
      .withRedaction({ maxStringLength: 4_000_000 })
      .addTransport(OtlpTransportAdapter.create(options))
      .build()
    cleanups.push(() => manager.shutdown({ timeoutMs: 50 }))
    return manager
  }

  const stats = (manager: KitTelemetryManager) => {
    const { accepted, delivered, failed, dropped, pending, lastError } =
      manager.stats().transports[0] ?? expect.fail()
    expect(accepted).to.equal(delivered + failed + dropped + pending)
    return { delivered, failed, dropped, pending, lastError }
  }

  /** Returns a proxy that rejects requests of more than `limit` bytes. */
  const tooLargeFrom = (limit: number): OtlpReceiverOptions => ({
    answer: (_, __, bytes) => (bytes > limit ? { status: 413 } : undefined),
  })

  const arrivesBehind =
    (limit: number, events: number, text: string, most: number, encoding: 'json' | 'protobuf' = 'json') =>
    async () => {
      const receiver = await receive(tooLargeFrom(limit))
      const manager = managerOf({ url: receiver.url, encoding })
      for (let index = 0; index < events; index++)
        manager.emit('large', { attributes: { index, text, list: [text, text], nested: { text } } })
      await manager.flush()
      expect(stats(manager)).to.deep.include({ delivered: events, failed: 0, lastError: undefined })
      expect(receiver.records).to.have.length(events)
      expect(receiver.requests.length).to.be.at.most(most)
    }

  const flushesAt = (answer: NonNullable<OtlpReceiverOptions['answer']>, most: number) => async () => {
    const receiver = await receive({ answer })
    const manager = managerOf({ url: receiver.url })
    const endMs = performance.now() + 3_000
    while (performance.now() < endMs) {
      manager.emit('request', { level: 'error' })
      void manager.flush()
      await sleep(2)
    }
    expect(receiver.requests.length).to.be.at.most(most)
    expect(stats(manager).dropped).to.equal(0)
  }

  const names = (make: () => Promise<string>, cause: string) => async () => {
    const url = await make()
    const manager = managerOf({ url, retryBudgetMs: 0, headers: { 'x-key': 'header-secret' } })
    manager.emit('x')
    await manager.flush()
    const { lastError } = stats(manager)
    expect(lastError?.message).to.include(`the collector could not be reached (${cause})`)
    expect(lastError?.message).to.not.match(/secret|127\.0\.0\.1|invalid\//)
  }

  it(
    'OTLP: 1,000 events of CJK text behind a proxy with a limit of 1 MiB, as JSON: all of them arrive, and no request is rejected',
    arrivesBehind(MIB, 1_000, '漢字'.repeat(500), 20),
  )

  it(
    'OTLP: 1,000 events of CJK text behind a proxy with a limit of 1 MiB, as protobuf: all of them arrive, and no request is rejected',
    arrivesBehind(MIB, 1_000, '漢字'.repeat(500), 20, 'protobuf'),
  )

  it(
    'OTLP: 1,000 events behind a proxy with a limit of 100 KB: all of them arrive, in few requests',
    arrivesBehind(100_000, 1_000, 'x'.repeat(100), 40),
  )

  it('OTLP: one of 100 events that is larger than the limit of the proxy: only that event fails', async () => {
    const receiver = await receive(tooLargeFrom(MIB / 2))
    const manager = managerOf({ url: receiver.url })
    for (let index = 0; index < 100; index++)
      manager.emit('mixed', { attributes: { text: 'x'.repeat(index === 50 ? MIB - 20_000 : 10) } })
    await manager.flush()
    const { lastError, ...counts } = stats(manager)
    expect(counts).to.deep.equal({ delivered: 99, failed: 1, dropped: 0, pending: 0 })
    expect(lastError?.message).to.match(/responded with 413 .*; 1 event is lost$/)
  })

  it('OTLP: 512 events for a collector that always responds with 413: all of them fail, in at most two requests for each event', async () => {
    const receiver = await receive({ answer: () => ({ status: 413 }) })
    const manager = managerOf({ url: receiver.url })
    for (let index = 0; index < 512; index++) manager.emit('x', { attributes: { index } })
    await manager.flush()
    expect(stats(manager)).to.include({ delivered: 0, failed: 512 })
    expect(receiver.requests.length).to.be.at.most(1024)
  })

  it(
    'OTLP: a flush after each of about 1,000 events while the collector responds with 500: at most 160 requests are sent',
    flushesAt(() => ({ status: 500 }), 160),
  )

  for (const status of [408, 500, 502, 504, 505])
    it(`OTLP: ten batches that get ${status} with a Retry-After of an hour, and ten good events: the good events arrive within seconds`, async () => {
      const headers = { 'retry-after': '3600' }
      const receiver = await receive({
        answer: (_, __, bytes) => (bytes < 50_000 ? undefined : { status, headers }),
      })
      const manager = managerOf({ url: receiver.url })
      await manager.flush()
      for (let batch = 1; batch <= 10; batch++) {
        manager.emit('poison', { attributes: { text: 'x'.repeat(100_000) } })
        await manager.flush({ timeoutMs: 1 })
        await until(() => receiver.requests.length >= batch, 1)
      }
      for (let event = 0; event < 10; event++) {
        manager.emit('good')
        await manager.flush({ timeoutMs: 1 })
      }
      const startedMs = performance.now()
      await until(() => receiver.records.length === 10 || performance.now() - startedMs > 5_000)
      expect(receiver.records).to.have.length(10)
    })

  for (const status of [429, 503])
    it(`OTLP: one batch that gets ${status}, and ten others: all batches wait`, async () => {
      const receiver = await receive({ answer: (count) => (count === 1 ? { status } : undefined) })
      const manager = managerOf({ url: receiver.url })
      manager.emit('first')
      void manager.flush({ timeoutMs: 1 })
      await until(() => receiver.requests.length === 1)
      await sleep(50)
      for (let batch = 0; batch < 10; batch++) {
        manager.emit('good')
        await manager.flush({ timeoutMs: 1 })
      }
      expect(receiver.requests).to.have.length(1)
      await manager.flush()
      expect(stats(manager)).to.include({ delivered: 11, failed: 0 })
    })

  for (const status of [500, 501, 505, 599])
    it(`OTLP: a collector that always responds with ${status}: each batch is sent twice`, async () => {
      const receiver = await receive({ answer: () => ({ status }) })
      const manager = managerOf({ url: receiver.url })
      manager.emit('x')
      await manager.flush()
      expect(stats(manager)).to.include({ failed: 1 })
      expect(receiver.requests).to.have.length(2)
    })

  it(
    'OTLP: a refused connection: the error names ECONNREFUSED',
    names(async () => `http://127.0.0.1:${await freePort()}/?key=url-secret`, 'ECONNREFUSED'),
  )

  it('OTLP: a refused connection at the deadline of shutdown: the process ends at once', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const options = { url, encoding: 'json', events: 600, flushMs: 50, shutdownMs: 50 } as const
    const { code, report } = await spawnOtlpClient(options)
    expect(code).to.equal(0)
    // The retry delay of the exporter would keep the process alive for about a second.
    expect(report.openTimers).to.equal(0)
  })

  it('OTLP: a request whose event opens the connection: its AsyncLocalStorage store is not kept with the connection', async () => {
    const storage = new AsyncLocalStorage<string>()
    const stores: unknown[] = []
    const agent = new Agent({ keepAlive: true })
    const { createConnection } = agent as unknown as { createConnection: (...args: unknown[]) => unknown }
    Object.assign(agent, {
      createConnection: (...args: unknown[]) => {
        stores.push(storage.getStore())
        return createConnection.apply(agent, args)
      },
    })
    const receiver = await receive({})
    const manager = await storage.run('request', async () => {
      const built = managerOf({ url: receiver.url, agent })
      await sleep(50)
      built.emit('x')
      await built.flush()
      return built
    })
    expect(stats(manager)).to.include({ delivered: 1 })
    expect(stores).to.deep.equal([undefined])
    agent.destroy()
  })
})
