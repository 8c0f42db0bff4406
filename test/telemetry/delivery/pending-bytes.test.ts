import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect } from 'chai'
import {
  DevConsoleTransportAdapter,
  ErrorTrackerTransportAdapter,
  HttpTransportAdapter,
  KitTelemetry,
  type KitTelemetryManager,
  OtlpTransportAdapter,
  StoreStreamTransportAdapter,
  TeamChatTransportAdapter,
  type TelemetryLevel,
  type TelemetryTransport,
} from '../../../src/telemetry/index.ts'
import { AUDIT_SECRET } from '../../support/telemetry/audit.ts'
import { deferred, expectCode, RecordingLogger } from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

const MIB = 2 ** 20

const never = new Promise<void>(() => {})

/** Returns attributes of 100,000 characters. */
const attributes = (letter = 'x') => ({ list: Array.from({ length: 20 }, () => letter.repeat(5_000)) })

const builder = (logger = new RecordingLogger()) =>
  KitTelemetry.create().withSampling({ debugRate: 1, infoRate: 1 }).withLogger(logger)

const HUNG: Readonly<Record<string, (url: string) => TelemetryTransport>> = {
  'a transport of the application': () => ({ type: 'own', handle: () => never }),
  'a transport whose init does not end': () => ({ type: 'own', init: () => never, handle: () => {} }),
  HttpTransportAdapter: (url) => HttpTransportAdapter.create({ url }),
  'HttpTransportAdapter with batches': (url) =>
    HttpTransportAdapter.create({ url, batch: { maxSize: 100, maxDelayMs: 10 } }),
  OtlpTransportAdapter: (url) => OtlpTransportAdapter.create({ url }),
  TeamChatTransportAdapter: (url) => TeamChatTransportAdapter.create({ webhookUrl: url }),
  DevConsoleTransportAdapter: (url) => DevConsoleTransportAdapter.create({ url }),
  StoreStreamTransportAdapter: () => StoreStreamTransportAdapter.create({ store: { xadd: () => never } }),
  'StoreStreamTransportAdapter that is wrapped': () => {
    const target = StoreStreamTransportAdapter.create({ store: { xadd: () => never } })
    return { type: 'own', handle: (envelope) => target.handle(envelope) }
  },
  ErrorTrackerTransportAdapter: () =>
    ErrorTrackerTransportAdapter.create({ sdk: { captureException: () => never } }),
}

describe('maxPendingBytes', () => {
  const cleanups: (() => unknown)[] = []
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })

  /** Returns the URL of a server that never responds. */
  async function silentServer(): Promise<string> {
    const sockets: Socket[] = []
    const server = createServer((socket) => sockets.push(socket.on('error', () => {}))).listen(0, '127.0.0.1')
    await once(server, 'listening')
    cleanups.push(() => {
      for (const socket of sockets) socket.destroy()
      server.close()
    })
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  function stats(manager: KitTelemetryManager) {
    const all = manager.stats()
    const { accepted, delivered, failed, dropped, pending } = (all.transports[0] ?? all.audit) as Wrong
    expect(accepted).to.equal(delivered + failed + dropped + pending)
    return { accepted, delivered, failed, dropped, pending }
  }

  function emit(manager: KitTelemetryManager, events: number, level: TelemetryLevel = 'error', letter = 'x') {
    for (let event = 0; event < events; event++)
      manager.emit('a.large', { level, attributes: attributes(letter) })
  }

  for (const [what, make] of Object.entries(HUNG)) {
    it(`${what} holds at most maxPendingBytes, and drops further events`, async () => {
      const logger = new RecordingLogger()
      const transport = make(await silentServer())
      const manager = builder(logger).addTransport(transport, { maxPendingBytes: MIB }).build()
      cleanups.push(() => manager.shutdown({ timeoutMs: 0 }))
      emit(manager, 50)
      // Ten events have a million characters.
      expect(stats(manager)).to.deep.equal({
        accepted: 50,
        delivered: 0,
        failed: 0,
        dropped: 40,
        pending: 10,
      })
      expect(logger.warnings.map(({ message }) => message)).to.deep.equal([
        `transport "${transport.type}" has dropped 1 event because too many events are pending (maxPending ${transport.maxPending ?? 10_000}, maxPendingBytes 1048576)`,
      ])
    })
  }

  it('the audit log holds at most maxPendingBytes of its transport, and the next line mentions lost events', async () => {
    const lines: string[] = []
    const { promise, resolve } = deferred()
    const transport: TelemetryTransport = {
      type: 'own',
      maxPendingBytes: MIB,
      handle: async (envelope) => {
        await promise
        lines.push(JSON.stringify(envelope.attributes?.['kit.audit.lost']))
      },
    }
    const manager = builder()
      .withAudit({ transport, names: ['a.*'], secret: AUDIT_SECRET })
      .build()
    emit(manager, 50)
    const { dropped, pending } = stats(manager)
    expect(pending).to.be.within(9, 11)
    expect(dropped).to.equal(51 - pending)
    resolve()
    await manager.shutdown()
    expect(lines.at(-1)).to.equal(String(dropped))
  })

  it('characters beyond Latin-1 count twice', () => {
    const manager = builder()
      .addTransport({ type: 'own', maxPendingBytes: MIB, handle: () => never })
      .build()
    emit(manager, 50, 'error', 'ж')
    expect(stats(manager).pending).to.equal(5)
  })

  it('events below warn are dropped from 80 % of maxPendingBytes on', () => {
    const manager = builder()
      .addTransport({ type: 'own', maxPendingBytes: MIB, handle: () => never })
      .build()
    emit(manager, 50, 'info')
    expect(stats(manager).pending).to.equal(8)
    emit(manager, 50, 'warn')
    expect(stats(manager).pending).to.equal(10)
  })

  it('events that have settled make room for others', async () => {
    const waiting: (() => void)[] = []
    const handle = () => new Promise<void>((resolve) => waiting.push(resolve))
    const manager = builder().addTransport({ type: 'own', maxPendingBytes: MIB, handle }).build()
    for (let round = 0; round < 5; round++) {
      emit(manager, 10)
      for (const resolve of waiting.splice(0)) resolve()
      await manager.flush()
    }
    expect(stats(manager)).to.include({ delivered: 50, dropped: 0, pending: 0 })
  })

  it('events that a transport delivers at once do not count', () => {
    const manager = builder()
      .addTransport({ type: 'own', maxPendingBytes: MIB, handle: () => {} })
      .build()
    emit(manager, 50)
    expect(stats(manager)).to.include({ delivered: 50, dropped: 0 })
  })

  it('a transport without the option holds at most 64 MiB', () => {
    const manager = builder()
      .addTransport({ type: 'own', handle: () => never })
      .build()
    emit(manager, 700)
    expect(stats(manager).pending).to.be.within(620, 671)
  })

  it('values, keys, and containers count, not only their JSON', () => {
    const manager = builder()
      .addTransport({ type: 'own', handle: () => never })
      .build()
    const list = Array.from({ length: 30_000 }, () => ({}))
    for (let event = 0; event < 40; event++) manager.emit('a', { level: 'error', attributes: { list } })
    // 30,000 objects take 2.8 MB, and 90 kB as JSON.
    expect(stats(manager).pending).to.be.within(15, 30)
  })

  it('an option of addTransport overrides the limit of the adapter, whose default is 64 MiB', () => {
    const limits = builder()
      .addTransport({ type: 'own', handle: () => {} })
      .addTransport({ type: 'own', maxPendingBytes: 5, handle: () => {} })
      .addTransport({ type: 'own', maxPendingBytes: 5, handle: () => {} }, { maxPendingBytes: 6 })
      .addTransport(OtlpTransportAdapter.create({ url: 'http://127.0.0.1:1' }))
      .addTransport(OtlpTransportAdapter.create({ url: 'http://127.0.0.1:1', maxPendingBytes: 7 }))
      .buildConfig()
      .transports.map(({ maxPendingBytes }) => maxPendingBytes)
    expect(limits).to.deep.equal([64 * MIB, 5, 6, 64 * MIB, 7])
  })

  for (const value of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '1', null]) {
    it(`a limit of ${String(value)} (${typeof value}) is rejected wherever it is set`, () => {
      const maxPendingBytes = value as Wrong
      const own: TelemetryTransport = { type: 'own', maxPendingBytes, handle: () => {} }
      for (const set of [
        () => builder().addTransport(own),
        () => builder().addTransport({ type: 'own', handle: () => {} }, { maxPendingBytes }),
        () => builder().withAudit({ transport: own, names: ['a'], secret: AUDIT_SECRET }),
        () => OtlpTransportAdapter.create({ url: 'http://127.0.0.1:1', maxPendingBytes }),
      ])
        expect(expectCode('TELEMETRY_CONFIGURATION_INVALID', set).message).to.include('maxPendingBytes')
    })
  }
})
