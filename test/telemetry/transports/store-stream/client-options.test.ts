import { once } from 'node:events'
import { expect } from 'chai'
import { Redis, type RedisOptions } from 'ioredis'
import { createClient, type RedisClientOptions } from 'redis'
import {
  KitTelemetry,
  StoreStreamTransportAdapter,
  type StreamStore,
} from '../../../../src/telemetry/index.ts'
import { itAtOnce } from '../../../support/at-once.ts'
import {
  type CuttingProxy,
  type RedisServer,
  redisMissing,
  startCuttingProxy,
  startRedis,
} from '../../../support/redis.ts'
import { skipIf } from '../../../support/skip.ts'
import { RecordingLogger } from '../../../support/telemetry/recording.ts'

/** A client of the application, and how it is closed. */
interface Connected {
  readonly store: StreamStore
  close(): void
}

const ioredis =
  (options: RedisOptions) =>
  async (port: number): Promise<Connected> => {
    const store = new Redis({ port, retryStrategy: () => 20, ...options } as never)
    store.on('error', () => {})
    if (options.lazyConnect !== true) await once(store, 'ready')
    return { store, close: () => store.disconnect() }
  }

const nodeRedis =
  (options: RedisClientOptions) =>
  async (port: number): Promise<Connected> => {
    const socket = { port, host: '127.0.0.1', reconnectStrategy: () => 20, ...options.socket }
    const store = createClient({ ...options, socket } as RedisClientOptions)
    store.on('error', () => {})
    await store.connect()
    return { store: store as unknown as StreamStore, close: () => store.destroy() }
  }

const CLIENTS: readonly (readonly [options: string, connect: (port: number) => Promise<Connected>])[] = [
  ...(
    [
      {},
      { lazyConnect: true },
      { autoResendUnfulfilledCommands: false },
      { enableOfflineQueue: false },
      { enableOfflineQueue: false, lazyConnect: true },
      { enableOfflineQueue: false, autoResendUnfulfilledCommands: false },
      { enableReadyCheck: false },
      { enableAutoPipelining: true },
      { enableAutoPipelining: true, autoResendUnfulfilledCommands: false },
      { commandTimeout: 1_000 },
      { commandTimeout: 1_000, autoResendUnfulfilledCommands: false },
      { maxRetriesPerRequest: 0 },
      { maxRetriesPerRequest: 1 },
      { maxRetriesPerRequest: null },
    ] satisfies RedisOptions[]
  ).map((options) => [`ioredis with ${JSON.stringify(options)}`, ioredis(options)] as const),
  ...(
    [
      {},
      { disableOfflineQueue: true },
      { commandsQueueMaxLength: 400 },
      { pingInterval: 100 },
      { socket: { socketTimeout: 1_000 } },
      { commandOptions: { timeout: 1_000 } },
    ] as RedisClientOptions[]
  ).map((options) => [`node-redis with ${JSON.stringify(options)}`, nodeRedis(options)] as const),
]

const missing = redisMissing()

describe('StoreStreamTransportAdapter after a lost connection', function () {
  this.timeout(120_000)
  let server: RedisServer
  const cleanups: (() => unknown)[] = []
  before(async function () {
    skipIf(this, missing)
    server = await startRedis()
  })
  after(async () => await server?.stop())
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })

  const cuts: readonly (readonly [what: string, cut: (proxy: CuttingProxy) => Promise<void>])[] = [
    ['the reply to a transaction', (proxy) => proxy.cutAnswerTo('EXEC')],
    ['a transaction', (proxy) => proxy.cutRequest('EXEC')],
  ]
  itAtOnce(
    10,
    CLIENTS.flatMap(([options, connect]) =>
      cuts.map(([what, cut]) => [
        `${options} writes each event, in order, after the connection is closed instead of passing ${what}`,
        () => expectAll(connect, cut, `${options} ${what}`),
      ]),
    ),
  )

  async function expectAll(
    connect: (port: number) => Promise<Connected>,
    cut: (proxy: CuttingProxy) => Promise<void>,
    stream: string,
  ): Promise<void> {
    const proxy = await startCuttingProxy(server.port)
    const { store, close } = await connect(proxy.port)
    const reader = new Redis(server.port)
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger(new RecordingLogger())
      .addTransport(StoreStreamTransportAdapter.create({ store, stream }))
      .build()
    try {
      const names = Array.from({ length: 60 }, (_, index) => `test.${index}`)
      const emit = (from: number, to: number) => {
        for (const name of names.slice(from, to)) manager.emit(name)
      }
      emit(0, 1)
      await manager.flush()
      const closed = cut(proxy)
      emit(1, 30)
      await closed
      emit(30, 60)
      await manager.flush({ timeoutMs: 60_000 })
      expect(manager.stats().transports[0]).to.include({ delivered: 60, failed: 0, dropped: 0, pending: 0 })
      const entries = await reader.xrange(stream, '-', '+')
      expect([...new Set(entries.map(([, fields]) => fields[1]))]).to.deep.equal(names)
    } finally {
      await manager.shutdown({ timeoutMs: 0 })
      reader.disconnect()
      close()
      await proxy.close()
    }
  }

  it('a command of any client that is never answered counts as lost after 10 s', async () => {
    const added: string[] = []
    const xadd = (...args: string[]) => {
      added.push(args[6] ?? '')
      return added.length === 1 ? new Promise(() => {}) : Promise.resolve('1-1')
    }
    const transport = StoreStreamTransportAdapter.create({ store: { xadd } })
    const manager = KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withLogger(new RecordingLogger())
      .addTransport(transport)
      .build()
    for (const name of ['a', 'b']) manager.emit(name)
    const begunMs = performance.now()
    await manager.flush()
    expect(performance.now() - begunMs).to.be.within(9_500, 15_000)
    expect(added).to.deep.equal(['a', 'a', 'b'])
  })
})
