import { expect } from 'chai'
import { z } from 'zod'
import {
  CommunityChatTransportAdapter,
  ErrorTrackerTransportAdapter,
  HttpTransportAdapter,
  InMemoryTransportAdapter,
  KIT_TELEMETRY_ERROR_CODES,
  KitTelemetry,
  KitTelemetryError,
  KitTelemetryEvents,
  type KitTelemetryManager,
  KitTelemetrySession,
  LEVEL_PRIORITY,
  LoggerTransportAdapter,
  MessengerTransportAdapter,
  MockTelemetryAdapter,
  OtlpTransportAdapter,
  StoreStreamTransportAdapter,
  TeamChatTransportAdapter,
  type TelemetryEnvelope,
  type TelemetryTransport,
} from '../../src/telemetry/index.ts'
import { startCollector, startDiscord, startSlack, startTelegram } from '../support/chat-services.ts'

/** For arguments that do not compile. */
type Wrong = any

/** One test for each row of the tables that describe the library, named after it. */
describe('the tables of the telemetry specification', () => {
  const kept = () => InMemoryTransportAdapter.create()
  const all = { debugRate: 1, infoRate: 1 }
  const emitted = (
    use: (manager: KitTelemetryManager) => unknown,
    shape: (from: KitTelemetry) => KitTelemetry = (from) => from,
  ): TelemetryEnvelope => {
    const memory = kept()
    use(shape(KitTelemetry.create().withSampling(all)).addTransport(memory).build())
    return memory.getEvents()[0] as TelemetryEnvelope
  }
  const rows = (table: Readonly<Record<string, () => unknown>>) => {
    for (const [row, check] of Object.entries(table)) it(row, async () => void (await check()))
  }

  describe('builder options', () => {
    const config = (shape: (from: KitTelemetry) => KitTelemetry) => shape(KitTelemetry.create()).buildConfig()
    rows({
      '.withService(name), default kit-app': () => {
        expect(config((from) => from).service).to.equal('kit-app')
        expect(config((from) => from.withService('a')).service).to.equal('a')
      },
      '.withEnvironment(env), default development': () => {
        expect(config((from) => from).environment).to.equal('development')
        expect(config((from) => from.withEnvironment('e')).environment).to.equal('e')
      },
      '.withVersion(v), default none': () => {
        expect(config((from) => from).version).to.equal(undefined)
        expect(config((from) => from.withVersion('1')).version).to.equal('1')
      },
      '.addActor(key, opts?)': () =>
        expect(
          config((from) => from.addActor('user', { description: 'd', required: true })).actors,
        ).to.have.key('user'),
      '.addScope(key, opts?)': () =>
        expect(
          config((from) => from.addScope('org', { description: 'd', required: false })).scopes,
        ).to.have.key('org'),
      '.addEvents(desc, opts?)': () =>
        expect(
          config((from) => from.addEvents(registry, { mode: 'always', strict: true }) as Wrong).events,
        ).to.have.length(1),
      '.addTransport(adapter)': () =>
        expect(config((from) => from.addTransport(kept())).transports).to.have.length(1),
      '.withSampling(policy)': () =>
        expect(config((from) => from.withSampling({ infoRate: 0.5 })).sampling.infoRate).to.equal(0.5),
      '.withRedaction(policy)': () =>
        expect(config((from) => from.withRedaction({ hashKeys: ['a'] })).redaction.hashKeys).to.deep.equal([
          'a',
        ]),
      '.withValidation(opts)': () =>
        expect(config((from) => from.withValidation({ mode: 'none' })).validation.mode).to.equal('none'),
      '.withLogger(logger)': () =>
        expect(config((from) => from.withLogger(console)).logger).to.equal(console),
      'every method returns a new builder': () => {
        const first = KitTelemetry.create()
        expect(first.withService('b')).to.not.equal(first)
        expect(first.buildConfig().service).to.equal('kit-app')
      },
    })
  })

  describe('manager properties', () => {
    const manager = KitTelemetry.create().withService('s').withEnvironment('e').withVersion('v').build()
    rows({
      service: () => expect(manager.service).to.equal('s'),
      environment: () => expect(manager.environment).to.equal('e'),
      version: () => {
        expect(manager.version).to.equal('v')
        expect(KitTelemetry.create().build().version).to.equal(undefined)
      },
    })
  })

  describe('emit input and event envelope', () => {
    const full = {
      level: 'warn',
      time: '2026-01-02T03:04:05.006Z',
      sessionId: 'ses_own',
      actor: { type: 'user', id: 'u1', tags: { plan: 'team' } },
      scope: { type: 'org', id: 'o1', tags: { tier: 1 } },
      attributes: { a: 1 },
      error: { name: 'E', message: 'm', code: 'c', stack: 's' },
      source: { causer: 'job', file: 'a.ts', line: 3 },
    } as const
    const envelope = emitted(
      (manager) => manager.emit('x.y', full),
      (from) => from.withService('s').withEnvironment('e').withVersion('v'),
    )
    const bare = emitted((manager) => manager.emit('x.y'))
    for (const member of Object.keys(full) as (keyof typeof full)[]) {
      it(`the envelope has the member ${member} of the input`, () =>
        expect(envelope[member]).to.deep.equal(full[member]))
    }
    rows({
      name: () => expect(envelope.name).to.equal('x.y'),
      service: () => expect(envelope.service).to.equal('s'),
      environment: () => expect(envelope.environment).to.equal('e'),
      version: () => expect(envelope.version).to.equal('v'),
      'what is required is there without input, and nothing else is': () =>
        expect(bare).to.have.all.keys('name', 'time', 'level', 'service', 'environment', 'sessionId'),
    })
  })

  describe('sampling policy', () => {
    const defaults = KitTelemetry.create().buildConfig().sampling
    const survives = (policy: object, name: string, level: keyof typeof LEVEL_PRIORITY = 'info') => {
      const memory = kept()
      KitTelemetry.create().withSampling(policy).addTransport(memory).build().emit(name, { level })
      return memory.getEvents().length === 1
    }
    for (const [rate, value] of Object.entries({
      debugRate: 0.01,
      infoRate: 0.1,
      warnRate: 1,
      errorRate: 1,
    })) {
      it(`${rate} is ${value} by default, 1 keeps every event of its level, and 0 drops it`, () => {
        expect(defaults[rate as 'infoRate']).to.equal(value)
        const level = rate.replace('Rate', '') as 'info'
        expect(survives({ [rate]: 1 }, 'x', level)).to.equal(true)
        expect(survives({ [rate]: 0 }, 'x', level)).to.equal(false)
      })
    }
    rows({
      'always: matching events are always sampled': () =>
        expect(survives({ infoRate: 0, always: ['*.paid'] }, 'invoice.paid')).to.equal(true),
      'never: matching events are never sampled': () =>
        expect(survives({ infoRate: 1, never: ['*.paid'] }, 'invoice.paid')).to.equal(false),
    })
  })

  describe('redaction policy', () => {
    const attributes = (policy: object, given: Record<string, unknown>) =>
      emitted(
        (manager) => manager.emit('x', { attributes: given }),
        (from) => from.withRedaction(policy),
      ).attributes
    rows({
      'denylistKeys: removed, matched case-insensitively': () =>
        expect(attributes({ denylistKeys: ['password'] }, { PassWord: 1, b: 2 })).to.deep.equal({ b: 2 }),
      'hashKeys: SHA-256, matched case-insensitively': () =>
        expect(attributes({ hashKeys: ['EMAIL'] }, { email: 'abc' })).to.deep.equal({
          email: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
        }),
      'maxStringLength, default 5000': () => {
        const length = (policy: object) => String(attributes(policy, { a: 'x'.repeat(6000) })?.a).length
        expect(length({})).to.equal(5000)
        expect(length({ maxStringLength: 7 })).to.equal(7)
      },
    })
  })

  it('transport adapter contract: type, init(meta), handle(envelope), flush(), shutdown()', async () => {
    const calls: unknown[] = []
    const transport: TelemetryTransport = {
      type: 'own',
      init: async (meta) => void calls.push(['init', meta]),
      handle: async ({ name }) => void calls.push(['handle', name]),
      flush: async () => void calls.push(['flush']),
      shutdown: async () => void calls.push(['shutdown']),
    }
    const manager = KitTelemetry.create().withSampling(all).withVersion('1').addTransport(transport).build()
    manager.emit('x')
    await manager.shutdown()
    expect(calls).to.deep.equal([
      ['init', { service: 'kit-app', environment: 'development', version: '1' }],
      ['handle', 'x'],
      ['flush'],
      ['shutdown'],
    ])
  })

  const paid = z.object({ cents: z.number() })
  const registry = KitTelemetryEvents.namespace('billing')
    .event('opened', z.object({}))
    .group('invoice', (group) => group.event('paid', paid))
    .build()

  describe('event registry', () => {
    rows({
      '.namespace(name)': () => expect(registry.namespace).to.equal('billing'),
      '.event(name, schema)': () => expect(registry.get.key('opened')).to.equal('billing.opened'),
      '.group(name, builder)': () =>
        expect(registry.get.key('invoice.paid')).to.equal('billing.invoice.paid'),
      '.build()': () => expect(registry.names).to.deep.equal(['opened', 'invoice.paid']),
      '.get.schema(name)': () => expect(registry.get.schema('invoice.paid')).to.equal(paid),
      '$Infer.namespace, .events, .keys, .registry': () => {
        const namespace: typeof registry.$Infer.namespace = 'billing'
        const key: typeof registry.$Infer.keys = 'billing.invoice.paid'
        const event: (typeof registry.$Infer.events)['invoice.paid'] = { cents: 5 }
        const entry: keyof typeof registry.$Infer.registry = 'billing.opened'
        // @ts-expect-error no such key
        const wrong: typeof registry.$Infer.keys = 'billing.invoice.payed'
        expect([namespace, key, event, entry, wrong]).to.have.length(5)
      },
    })
  })

  describe('manager operations', () => {
    const manager = KitTelemetry.create().build()
    rows({
      '.emit(name, input?) returns nothing': () => expect(manager.emit('x')).to.equal(undefined),
      '.session() returns a session': () => expect(manager.session()).to.be.instanceOf(KitTelemetrySession),
      '.flush() promises nothing': async () => expect(await manager.flush()).to.equal(undefined),
      '.shutdown() promises nothing': async () => expect(await manager.shutdown()).to.equal(undefined),
    })
  })

  describe('session operations', () => {
    const session = () => KitTelemetry.create().build().session()
    rows({
      '.actor(type, id?, tags?)': () =>
        expect(session().actor('user', 'u', { a: 1 }).getState().actor).to.deep.equal({
          type: 'user',
          id: 'u',
          tags: { a: 1 },
        }),
      '.scope(type, id, tags?)': () =>
        expect(session().scope('org', 'o').getState().scope).to.deep.equal({ type: 'org', id: 'o' }),
      '.attributes(attrs) merges': () =>
        expect(session().attributes({ a: 1 }).attributes({ b: 2 }).getState().attributes).to.deep.equal({
          a: 1,
          b: 2,
        }),
      '.id(sessionId)': () => expect(session().id('own').getState().sessionId).to.equal('own'),
      '.emit(name, input?) with the session context': () =>
        expect(emitted((manager) => manager.session().id('own').emit('x')).sessionId).to.equal('own'),
      '.run(fn) resolves with the result of a sync or async function': async () => {
        expect(await session().run(() => 1)).to.equal(1)
        expect(await session().run(async () => 2)).to.equal(2)
      },
      '.end()': async () => {
        const ended = session()
        expect(await ended.end()).to.equal(undefined)
        expect(ended.getState().ended).to.equal(true)
      },
      '.getState() is a copy': () => {
        const one = session().attributes({ a: 1 })
        one.getState().attributes.a = 2
        expect(one.getState().attributes).to.deep.equal({ a: 1 })
      },
      'KitTelemetrySession.getActive()': async () => {
        expect(KitTelemetrySession.getActive()).to.equal(undefined)
        const one = session().id('own')
        expect(await one.run(() => KitTelemetrySession.getActive()?.sessionId)).to.equal('own')
      },
    })
  })

  describe('transport adapters', () => {
    const event = (level: TelemetryEnvelope['level']): TelemetryEnvelope => ({
      name: 'billing.invoice.failed',
      time: '2026-01-02T12:00:00.000Z',
      level,
      service: 's',
      environment: 'e',
      sessionId: 'ses_1',
    })
    const lines = (options: object, level: TelemetryEnvelope['level'] = 'error') => {
      const written: string[] = []
      const line = (text: string) => void written.push(text)
      const logger = { debug: line, info: line, warn: line, error: line }
      void LoggerTransportAdapter.create({ logger, ...options }).handle(event(level))
      return written
    }
    /** Returns `true` if a chat transport sends an event of this level. */
    const sends = (transport: TelemetryTransport, level: TelemetryEnvelope['level']) => {
      const handled = transport.handle(event(level))
      handled?.catch(() => undefined)
      return handled !== undefined
    }
    const unused = 'http://127.0.0.1:9/hook'
    rows({
      'LoggerTransportAdapter: logger is required': () =>
        expect(() => LoggerTransportAdapter.create({} as Wrong)).to.throw(/logger/),
      'LoggerTransportAdapter: format json or pretty, default pretty': () => {
        expect(lines({})).to.deep.equal(['12:00:00.000 ERROR billing.invoice.failed session=ses_1'])
        expect(JSON.parse(lines({ format: 'json' })[0] as string)).to.deep.equal(event('error'))
      },
      'LoggerTransportAdapter: minLevel, default debug': () => {
        expect(lines({}, 'debug')).to.have.length(1)
        expect(lines({ minLevel: 'warn' }, 'info')).to.deep.equal([])
      },
      'LoggerTransportAdapter: includeTimestamp, default true': () =>
        expect(lines({ includeTimestamp: false })).to.deep.equal([
          'ERROR billing.invoice.failed session=ses_1',
        ]),
      'HttpTransportAdapter: url is required; headers, timeout and retries are not': async () => {
        expect(() => HttpTransportAdapter.create({} as Wrong)).to.throw(/url/)
        const target = await startCollector()
        await HttpTransportAdapter.create({ url: target.origin, headers: { 'x-a': 'b' } }).handle(
          event('info'),
        )
        expect(target.requests[0]?.headers['x-a']).to.equal('b')
      },
      'HttpTransportAdapter: retries, default 0': async () => {
        const target = await startCollector()
        target.answers.push({ status: 503 })
        const failed = await HttpTransportAdapter.create({ url: target.origin })
          .handle(event('info'))
          ?.catch((error: unknown) => error)
        expect(KitTelemetryError.is(failed) && failed.code).to.equal('TELEMETRY_TRANSPORT_FAILED')
        expect(target.requests).to.have.length(1)
      },
      'OtlpTransportAdapter: url is required, headers are not': () => {
        expect(() => OtlpTransportAdapter.create({} as Wrong)).to.throw(/url/)
        expect(OtlpTransportAdapter.create({ url: unused, headers: { a: 'b' } }).type).to.equal('otlp')
      },
      'ErrorTrackerTransportAdapter: sdk is required': () =>
        expect(() => ErrorTrackerTransportAdapter.create({} as Wrong)).to.throw(/sdk/),
      'TeamChatTransportAdapter: webhookUrl, minLevel warn, username Kit Telemetry, iconEmoji :bar_chart:':
        async () => {
          expect(() => TeamChatTransportAdapter.create({} as Wrong)).to.throw(/webhookUrl/)
          const slack = await startSlack()
          const transport = TeamChatTransportAdapter.create({ webhookUrl: `${slack.origin}/services/T/B/x` })
          expect(sends(transport, 'info')).to.equal(false)
          await transport.handle(event('warn'))
          expect(slack.requests[0]?.json).to.include({ username: 'Kit Telemetry', icon_emoji: ':bar_chart:' })
        },
      'CommunityChatTransportAdapter: webhookUrl, minLevel warn, username Kit Telemetry, avatarUrl none':
        async () => {
          expect(() => CommunityChatTransportAdapter.create({} as Wrong)).to.throw(/webhookUrl/)
          const discord = await startDiscord()
          const transport = CommunityChatTransportAdapter.create({
            webhookUrl: `${discord.origin}/api/webhooks/1/x`,
          })
          expect(sends(transport, 'info')).to.equal(false)
          await transport.handle(event('warn'))
          expect(discord.requests[0]?.json).to.include({ username: 'Kit Telemetry' })
          expect(discord.requests[0]?.json).to.not.have.property('avatar_url')
        },
      'MessengerTransportAdapter: botToken, chatId, minLevel error': async () => {
        expect(() => MessengerTransportAdapter.create({ chatId: '1' } as Wrong)).to.throw(/botToken/)
        expect(() => MessengerTransportAdapter.create({ botToken: '1:a' } as Wrong)).to.throw(/chatId/)
        const botToken = '123456:test-token_of-the-length-that-is-usual'
        const telegram = await startTelegram(botToken)
        const transport = MessengerTransportAdapter.create({
          botToken,
          chatId: '1',
          apiRoot: telegram.origin,
        })
        expect(sends(transport, 'warn')).to.equal(false)
        await transport.handle(event('error'))
        expect(telegram.requests[0]?.json).to.include({ chat_id: '1' })
      },
      'StoreStreamTransportAdapter: store, stream telemetry:events, maxLen 10000': async () => {
        expect(() => StoreStreamTransportAdapter.create({} as Wrong)).to.throw(/store/)
        const commands: unknown[][] = []
        const store = { xadd: async (...command: unknown[]) => `${commands.push(command)}-0` }
        await StoreStreamTransportAdapter.create({ store: store as Wrong }).handle(event('info'))
        expect(commands[0]?.slice(0, 5).map(String)).to.deep.equal([
          'telemetry:events',
          'MAXLEN',
          '~',
          '10000',
          '*',
        ])
      },
      'InMemoryTransportAdapter: .getEvents() and .clear()': () => {
        const memory = kept()
        memory.handle(event('info'))
        expect(memory.getEvents()).to.deep.equal([event('info')])
        memory.clear()
        expect(memory.getEvents()).to.deep.equal([])
      },
      'MockTelemetryAdapter: .getLastEvent(), .getEvents() and .clear()': () => {
        const mock = MockTelemetryAdapter.create()
        expect(mock.getLastEvent()).to.equal(undefined)
        mock.handle(event('info'))
        mock.handle(event('warn'))
        expect(mock.getLastEvent()?.level).to.equal('warn')
        expect(mock.getEvents()).to.have.length(2)
        mock.clear()
        expect(mock.getEvents()).to.deep.equal([])
      },
    })
  })

  it('limits: level priority debug 10, info 20, warn 30, error 40, fatal 50', () => {
    expect(LEVEL_PRIORITY).to.deep.equal({ debug: 10, info: 20, warn: 30, error: 40, fatal: 50 })
  })

  it('errors: 21 codes, code, is(error) and hasCode(code)', () => {
    const codes = Object.keys(KIT_TELEMETRY_ERROR_CODES)
    expect(codes).to.have.length(21).and.deep.equal(Object.values(KIT_TELEMETRY_ERROR_CODES))
    const error = new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'm')
    expect(error).to.be.instanceOf(Error)
    expect(KitTelemetryError.is(error) && error.hasCode('TELEMETRY_EMIT_FAILED')).to.equal(true)
    expect([error.code, error.hasCode('TELEMETRY_UNKNOWN_EVENT')]).to.deep.equal([
      'TELEMETRY_EMIT_FAILED',
      false,
    ])
    expect(KitTelemetryError.is(new Error('m'))).to.equal(false)
  })
})
