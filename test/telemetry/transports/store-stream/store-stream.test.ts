import { once } from 'node:events'
import { expect } from 'chai'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import {
  KitTelemetry,
  type KitTelemetryManager,
  StoreStreamTransportAdapter,
  type StreamStore,
  type TelemetryEnvelope,
} from '../../../../src/telemetry/index.ts'
import { anEvent } from '../../../support/chat-services.ts'
import { freePort } from '../../../support/free-port.ts'
import {
  type CuttingProxy,
  type RedisServer,
  redisMissing,
  startCuttingProxy,
  startRedis,
} from '../../../support/redis.ts'
import { runs } from '../../../support/runs.ts'
import { skipIf } from '../../../support/skip.ts'
import { expectRejection, RecordingLogger } from '../../../support/telemetry/recording.ts'
import { until } from '../../../support/until.ts'

/** A client of either library, for the tests' own use. */
interface TestClient {
  readonly store: StreamStore
  /** Runs one command. */
  command(...words: string[]): Promise<any>
  /** The `event` field of every entry of the stream. */
  events(stream?: string): Promise<string[]>
  close(): Promise<void>
  /** Returns `true` if the client of the application is still usable. */
  readonly isOpen: boolean
}

interface TestClientOptions {
  readonly user?: string
}

type Connect = (port: number, options?: TestClientOptions) => Promise<TestClient>

const CLIENTS: Readonly<Record<string, Connect>> = {
  ioredis: async (port, { user } = {}) => {
    const redis = new Redis({
      port,
      retryStrategy: () => 20,
      ...(user && { username: user, password: 'pw' }),
    })
    redis.on('error', () => {})
    const command = (name: string, ...args: string[]) => redis.call(name, ...args)
    return {
      store: redis,
      command: command as TestClient['command'],
      events: async (stream = 'telemetry:events') =>
        (await redis.xrange(stream, '-', '+')).map(([, fields]) => fields[fields.indexOf('event') + 1] ?? ''),
      close: async () => redis.disconnect(),
      get isOpen() {
        return redis.status !== 'end'
      },
    }
  },
  redis: async (port, { user } = {}) => {
    const client = createClient({
      socket: { port, host: '127.0.0.1', reconnectStrategy: () => 20 },
      ...(user && { username: user, password: 'pw' }),
    })
    client.on('error', () => {})
    const connected = client.connect()
    // Without a server, it goes on trying: either outcome will do.
    await Promise.race([connected.catch(() => {}), once(client, 'error').catch(() => {})])
    return {
      store: client,
      command: (...words) => client.sendCommand(words),
      events: async (stream = 'telemetry:events') =>
        ((await client.xRange(stream, '-', '+')) ?? []).map(({ message }) => message.event ?? ''),
      close: async () => {
        if (client.isOpen) client.destroy()
      },
      get isOpen() {
        return client.isOpen
      },
    }
  },
}

const CREATE = StoreStreamTransportAdapter.create

describe('StoreStreamTransportAdapter', () => {
  const cleanups: (() => Promise<unknown>)[] = []
  afterEach(async () => {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
  })

  function managerOf(transport: StoreStreamTransportAdapter, maxPending = 100_000) {
    const logger = new RecordingLogger()
    const manager = KitTelemetry.create()
      .withSampling({ debugRate: 1, infoRate: 1 })
      .withLogger(logger)
      .addTransport(transport, { maxPending })
      .build()
    cleanups.push(() => manager.shutdown({ timeoutMs: 0 }))
    return { manager, logger }
  }

  describe('options', () => {
    it('StoreStreamTransportAdapter accepts the clients of both Redis libraries', () => {
      const redis = new Redis({ lazyConnect: true })
      expect(CREATE({ store: redis })).to.include({ type: 'store-stream' })
      expect(CREATE({ store: createClient(), stream: 's', maxLen: 1 })).to.include({ type: 'store-stream' })
      redis.disconnect()
    })
  })

  describe('with a client of one method', () => {
    it('a client with only xadd gets the arguments of XADD one by one, as in ioredis', async () => {
      const calls: unknown[][] = []
      const transport = CREATE({ store: { xadd: async (...args: unknown[]) => void calls.push(args) } })
      const sent = envelope(1)
      await transport.handle(sent)
      const fields = ['name', sent.name, 'time', sent.time, 'level', 'info', 'event', JSON.stringify(sent)]
      expect(calls).to.deep.equal([['telemetry:events', 'MAXLEN', '~', 10_000, '*', ...fields]])
    })

    it('a client with only xAdd gets the arguments of XADD as an object, as in node-redis', async () => {
      const calls: unknown[][] = []
      const store = { xAdd: async (...args: unknown[]) => void calls.push(args) }
      const sent = envelope(1)
      await CREATE({ store, stream: 's', maxLen: 5 }).handle(sent)
      const { name, time, level } = sent
      expect(calls).to.deep.equal([
        [
          's',
          '*',
          { name, time, level, event: JSON.stringify(sent) },
          { TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: 5 } },
        ],
      ])
    })

    const troubles = [
      'connect ECONNREFUSED 127.0.0.1:6379',
      'OOM command not allowed',
      'LOADING Redis is loading',
      'boom',
    ]
    for (const trouble of troubles) {
      it(`entries of a client without transactions keep their order if one call fails with "${trouble}"`, async () => {
        const seen: string[] = []
        let calls = 0
        const store = {
          xadd: async (...args: string[]) => {
            if (++calls === 2) throw new Error(trouble)
            seen.push(args[6] ?? '')
          },
        }
        const transport = CREATE({ store })
        await Promise.all([1, 2, 3, 4].map((count) => transport.handle(envelope(count))))
        expect(seen).to.deep.equal(['test.1', 'test.2', 'test.3', 'test.4'])
      })
    }

    it('entries fail at once after an error that Redis would repeat, and after an unknown error', async () => {
      for (const trouble of ['NOPERM no permissions', 'ERR wrong number of arguments', 'boom']) {
        const store = {
          xadd: () => {
            throw new Error(trouble)
          },
        }
        await expectRejection('TELEMETRY_TRANSPORT_FAILED', CREATE({ store }).handle(envelope(1)))
      }
    })

    it('an entry waits while Redis does not accept entries at the moment', async () => {
      const codes = [
        ...['LOADING', 'READONLY', 'OOM', 'BUSY', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'MISCONF'],
        ...['NOREPLICAS', 'EXECABORT', 'FAILOVER'],
      ]
      const discarded = { previousErrors: [new Error('READONLY You cannot write')] }
      const troubles = [
        ...codes.map((code) => new Error(`${code} some reason`)),
        Object.assign(new Error('EXECABORT Transaction discarded'), discarded),
        Object.assign(new Error('write failed'), { code: 'EPIPE' }),
        new Error('The client is closed'),
      ]
      const deliver = async (trouble: Error): Promise<void> => {
        const store = { calls: 0, xadd: async () => (++store.calls === 1 ? Promise.reject(trouble) : '1-1') }
        await CREATE({ store }).handle(envelope(1))
        expect(store.calls, trouble.message).to.equal(2)
      }
      await Promise.all(troubles.map(deliver))
    })

    for (const [reply, reason] of [
      [
        'WRONGTYPE Operation against a key',
        'Redis responded with WRONGTYPE (the key in the option stream does not contain a stream)',
      ],
      [
        'NOPERM no permissions',
        'Redis responded with NOPERM (the user of the client may not use XADD on this stream)',
      ],
      ['NOAUTH Authentication required.', 'Redis responded with NOAUTH (check the credentials of the store)'],
      [
        'WRONGPASS invalid username-password pair',
        'Redis responded with WRONGPASS (check the credentials of the store)',
      ],
      ['ERR wrong number of arguments', 'Redis responded with ERR'],
    ] as const) {
      it(`the error after the reply ${reply} is: ${reason}`, async () => {
        const store = {
          xadd: () => {
            throw new Error(reply)
          },
        }
        const outcome = await CREATE({ store })
          .handle(envelope(1))
          .then(
            () => 'delivered',
            (error: Error) => error.message,
          )
        expect(outcome).to.equal(`transport "store-stream": ${reason}; 1 event is lost`)
      })
    }

    it('a client that is not ready is not called', async () => {
      const store = { status: 'reconnecting', calls: 0, xadd: async () => void store.calls++ }
      const transport = CREATE({ store })
      const handled = transport.handle(envelope(1))
      const { manager } = managerOf(transport)
      await manager.flush({ timeoutMs: 20 })
      expect(store.calls).to.equal(0)
      store.status = 'ready'
      await handled
      expect(store.calls).to.equal(1)
    })

    it('StoreStreamTransportAdapter rejects events after shutdown', async () => {
      const transport = CREATE({ store: { xadd: async () => '1-1' } })
      await transport.shutdown()
      await expectRejection('TELEMETRY_TRANSPORT_FAILED', transport.handle(envelope(1)))
    })
  })

  const missing = redisMissing()
  for (const [library, connect] of Object.entries(CLIENTS)) {
    describe(`with ${library} and redis-server`, function () {
      this.timeout(60_000)
      let server: RedisServer

      before(async function () {
        skipIf(this, missing)
        server = await startRedis()
      })
      after(async () => await server?.stop())
      beforeEach(async () => {
        const client = await connect(server.port)
        await client.command('FLUSHALL')
        await client.close()
      })

      async function client(port = server.port, options: TestClientOptions = {}): Promise<TestClient> {
        const connected = await connect(port, options)
        cleanups.push(connected.close)
        return connected
      }

      function emit(manager: KitTelemetryManager, from: number, to: number): string[] {
        const names = Array.from({ length: to - from }, (_, index) => `test.${from + index}`)
        for (const name of names) manager.emit(name, { attributes: { text: 'x'.repeat(200) } })
        return names
      }

      const namesIn = async (reader: TestClient): Promise<string[]> =>
        (await reader.events()).map((event) => JSON.parse(event).name)

      it(`an entry of the stream has the name, time, level, and envelope (${library})`, async () => {
        const redis = await client()
        const sent = envelope(1)
        await CREATE({ store: redis.store, stream: 'own' }).handle(sent)
        expect(await redis.events('own')).to.deep.equal([JSON.stringify(sent)])
        const fields = ['name', sent.name, 'time', sent.time, 'level', 'info', 'event', JSON.stringify(sent)]
        expect((await redis.command('XRANGE', 'own', '-', '+'))[0][1]).to.deep.equal(fields)
      })

      const many = runs(5_000)
      it(`${many} entries keep their order in one flush (${library})`, async () => {
        const redis = await client()
        const { manager } = managerOf(CREATE({ store: redis.store }))
        const names = emit(manager, 0, many)
        await manager.flush()
        expect(await namesIn(redis)).to.deep.equal(names)
        expect(manager.stats().transports[0]).to.include({ delivered: many, pending: 0, failed: 0 })
      })

      it(`the stream is trimmed to maxLen (${library})`, async () => {
        const redis = await client()
        const { manager } = managerOf(CREATE({ store: redis.store, maxLen: 100 }))
        const names = emit(manager, 0, 1_000)
        await manager.flush()
        const kept = await namesIn(redis)
        // Whole nodes of a hundred entries.
        expect(kept.length).to.be.within(100, 300)
        expect(kept).to.deep.equal(names.slice(-kept.length))
      })

      it(`no entry is lost if Redis is killed and restarted under load (${library})`, async () => {
        const own = await startRedis()
        cleanups.push(own.stop)
        const redis = await client(own.port)
        const { manager } = managerOf(CREATE({ store: redis.store, maxLen: 1_000_000 }))
        const names: string[] = []
        for (const round of [0, 1]) {
          names.push(...emit(manager, names.length, names.length + 3_000))
          // In the middle of the load: some are there, others are on their way.
          await until(() => (manager.stats().transports[0]?.delivered ?? 0) > names.length - 2_500)
          await own.kill()
          names.push(...emit(manager, names.length, names.length + 1_000))
          await own.start()
          names.push(...emit(manager, names.length, names.length + 1_000 + round))
        }
        await manager.flush()
        expect(manager.stats().transports[0]).to.include({ delivered: names.length, failed: 0, dropped: 0 })
        expect([...new Set(await namesIn(redis))]).to.deep.equal(names)
      })

      it(`a batch whose response was lost is written again (${library})`, async () => {
        const proxy: CuttingProxy = await startCuttingProxy(server.port)
        cleanups.push(proxy.close)
        const redis = await client(proxy.port)
        const reader = await client()
        const { manager } = managerOf(CREATE({ store: redis.store }))
        const names = emit(manager, 0, 1)
        await manager.flush()
        for (const round of [1, 2, 3]) {
          const cut = proxy.cutAnswerTo('EXEC')
          names.push(...emit(manager, names.length, names.length + 20 * round))
          await cut
          names.push(...emit(manager, names.length, names.length + 5))
          await manager.flush()
        }
        expect([...new Set(await namesIn(reader))]).to.deep.equal(names)
        expect(manager.stats().transports[0]).to.include({ delivered: names.length, failed: 0 })
      })

      it(`entries wait while Redis is full, and keep their order (${library})`, async () => {
        const redis = await client()
        const { manager } = managerOf(CREATE({ store: redis.store }))
        const names = emit(manager, 0, 50)
        await manager.flush()
        await redis.command('CONFIG', 'SET', 'maxmemory', '1')
        names.push(...emit(manager, 50, 400))
        await manager.flush({ timeoutMs: 100 })
        expect(manager.stats().transports[0]).to.include({ delivered: 50, pending: 350 })
        await redis.command('CONFIG', 'SET', 'maxmemory', '0')
        await manager.flush()
        expect(await namesIn(redis)).to.deep.equal(names)
      })

      it(`a key that is not a stream is reported (${library})`, async () => {
        const redis = await client()
        await redis.command('SET', 'telemetry:events', 'text')
        const { manager, logger } = managerOf(CREATE({ store: redis.store }))
        emit(manager, 0, 300)
        await manager.flush()
        const [stats] = manager.stats().transports
        expect(stats).to.include({ failed: 300, pending: 0 })
        expect(stats?.lastError?.message)
          .to.match(/^transport "store-stream": Redis .* WRONGTYPE/)
          .and.to.contain('does not contain a stream')
        expect(logger.codes[0]).to.equal('TELEMETRY_TRANSPORT_FAILED')
      })

      it(`a user without the permission to add is reported (${library})`, async () => {
        const admin = await client()
        await admin.command(
          'ACL',
          'SETUSER',
          'reader',
          'on',
          '>pw',
          '~*',
          '+@read',
          '+@connection',
          '+info',
          '+multi',
          '+exec',
        )
        const redis = await client(server.port, { user: 'reader' })
        const { manager } = managerOf(CREATE({ store: redis.store }))
        emit(manager, 0, 10)
        await manager.flush()
        const [stats] = manager.stats().transports
        expect(stats).to.include({ failed: 10 })
        expect(stats?.lastError?.message).to.contain('NOPERM')
      })

      it(`entries are added without transactions if these are not permitted (${library})`, async () => {
        const admin = await client()
        const may = ['+xadd', '+@connection', '+info']
        await admin.command('ACL', 'SETUSER', 'adder', 'on', '>pw', '~*', ...may)
        const redis = await client(server.port, { user: 'adder' })
        const { manager } = managerOf(CREATE({ store: redis.store }))
        const names = emit(manager, 0, 100)
        await manager.flush()
        // Redis adds the first entry although it rejects its transaction.
        expect(await namesIn(admin)).to.deep.equal([names[0], ...names])
      })

      it(`flush and shutdown end in time if Redis is away (${library})`, async () => {
        const redis = await client(await freePort())
        const { manager } = managerOf(CREATE({ store: redis.store }))
        emit(manager, 0, 100)
        const begun = performance.now()
        await manager.flush({ timeoutMs: 50 })
        await manager.shutdown({ timeoutMs: 50 })
        expect(performance.now() - begun).to.be.below(2_000)
        expect(manager.stats().transports[0]).to.include({ accepted: 100, pending: 100 })
      })

      it(`events within maxPending are kept while Redis is away, and others are dropped (${library})`, async () => {
        const own = await startRedis()
        cleanups.push(own.stop)
        await own.kill()
        const redis = await client(own.port)
        const { manager } = managerOf(CREATE({ store: redis.store }), 1_000)
        const names = emit(manager, 0, 2_000)
        await own.start()
        await manager.flush()
        expect(manager.stats().transports[0]).to.include({ delivered: 800, dropped: 1_200, pending: 0 })
        expect(await namesIn(redis)).to.deep.equal(names.slice(0, 800))
      })

      it(`the client is never closed (${library})`, async () => {
        const redis = await client()
        const { manager } = managerOf(CREATE({ store: redis.store }))
        emit(manager, 0, 10)
        await manager.shutdown()
        expect(redis.isOpen).to.equal(true)
        expect(await redis.command('PING')).to.equal('PONG')
      })

      it(`events that are left fail if the application has closed the client (${library})`, async () => {
        const redis = await client()
        const { manager } = managerOf(CREATE({ store: redis.store }))
        emit(manager, 0, 1)
        await manager.flush()
        await redis.close()
        await until(() => !redis.isOpen)
        emit(manager, 1, 10)
        await manager.shutdown()
        const [stats] = manager.stats().transports
        expect(stats).to.include({ delivered: 1, failed: 9, pending: 0 })
        expect(stats?.lastError?.message).to.contain('closed the client')
      })
    })
  }
})

function envelope(count: number): TelemetryEnvelope {
  return anEvent({ name: `test.${count}`, level: 'info', attributes: { count } })
}
