import { expect } from 'chai'
import { z } from 'zod'
import { KitTelemetry, KitTelemetryEvents } from '../../src/telemetry/index.ts'
import { expectCode, recording, thenable } from '../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

const events = KitTelemetryEvents.namespace('billing')
  .event('paid', z.object({ cents: z.number(), note: z.string().optional() }))
  .event('noted', z.object({ note: z.string().optional() }))
  .build()

describe('emit', () => {
  describe('checks the name', () => {
    for (const name of [
      '',
      'a b',
      'a:b',
      'a\nb',
      'a\u0000b',
      'a\u0085b',
      'x'.repeat(257),
      undefined,
      5,
      {},
    ] as Wrong[]) {
      it(`emit rejects the name ${JSON.stringify(name)?.slice(0, 20)}`, () => {
        const { builder, events } = recording()
        const manager = builder.build()
        expectCode('TELEMETRY_INVALID_EVENT_NAME', () => manager.emit(name))
        expectCode('TELEMETRY_INVALID_EVENT_NAME', () => manager.session().emit(name))
        expect(events()).to.have.length(0)
        expect(manager.stats().emitted).to.equal(0)
      })
    }

    it('emit accepts any other name', () => {
      const { builder, events } = recording()
      const manager = builder.build()
      for (const name of ['a', 'x'.repeat(256), '__proto__', 'constructor', 'ünïcödé.🎉']) manager.emit(name)
      expect(events()).to.have.length(5)
    })

    it('emit accepts more names than it keeps', () => {
      const { builder, memory } = recording()
      const manager = builder.withSampling({ never: ['n1'] }).build()
      for (let i = 0; i < 5000; i++) manager.emit(`n${i}`)
      manager.emit('n1')
      expect(memory.getEvents()).to.have.length(4999)
    })

    for (const mode of ['development', 'always', 'none'] as const) {
      it(`emit rejects unregistered events in mode ${mode}`, () => {
        const { builder, memory } = recording()
        const manager = builder.addEvents(events).withValidation({ mode }).build()
        for (const name of ['billing.payd', 'paid', 'constructor', 'billing.constructor']) {
          expectCode('TELEMETRY_UNKNOWN_EVENT', () => manager.emit(name as Wrong))
        }
        expect(
          expectCode('TELEMETRY_UNKNOWN_EVENT', () => manager.emit('billing.payd' as Wrong)).message,
        ).to.include("'billing.paid'")
        manager.emit('billing.paid', { attributes: { cents: 1 } })
        manager.emit('kit.mcp.tool.failed')
        manager.emit('kit.authorization.revoked')
        expect(memory.getEvents().map(({ name }) => name)).to.deep.equal([
          'billing.paid',
          'kit.mcp.tool.failed',
          'kit.authorization.revoked',
        ])
      })
    }
  })

  describe('validates attributes', () => {
    const manager = (options: Parameters<KitTelemetry['withValidation']>[0] = { mode: 'always' }) => {
      const { builder, ...rest } = recording()
      return { ...rest, manager: builder.addEvents(events).withValidation(options).build() }
    }

    it('a validation error contains the paths of the issues, but neither messages nor values', () => {
      const it = manager()
      const error = expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () =>
        it.manager.emit('billing.paid', { attributes: { cents: 'hunter2', note: 5 } as Wrong }),
      )
      expect(error.details).to.deep.equal({ issues: [{ path: ['cents'] }, { path: ['note'] }] })
      expect(`${error.message}${error.stack}${JSON.stringify(error)}`).not.to.match(
        /hunter2|expected|invalid_type/,
      )
      expect(error.cause).to.equal(undefined)
      expect(it.manager.stats().emitted).to.equal(0)
      expect(it.events()).to.have.length(0)
    })

    it('validation runs before sampling', () => {
      const { builder } = recording()
      const it = builder
        .addEvents(events)
        .withSampling({ infoRate: 0 })
        .withValidation({ mode: 'always' })
        .build()
      expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () => (it as Wrong).emit('billing.paid'))
    })

    it('validation checks the attributes of the event, not those of the session', () => {
      const it = manager()
      const session = it.manager.session().attributes({ cents: 1 })
      expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () => (session as Wrong).emit('billing.paid'))
      session.emit('billing.noted', { attributes: { note: 'x' } })
      expect(it.events()[0]?.attributes).to.deep.equal({ cents: 1, note: 'x' })
    })

    it('an event without attributes is valid if its schema accepts that', () => {
      const it = manager()
      it.manager.emit('billing.noted')
      expect(it.events()[0]).not.to.have.property('attributes')
      const nothing = KitTelemetryEvents.namespace('n').event('void', z.undefined()).build()
      recording().builder.addEvents(nothing).withValidation({ mode: 'always' }).build().emit('n.void')
    })

    it('the original attributes are sent, not the output of the schema', () => {
      const { builder, events: sent } = recording()
      const coercing = KitTelemetryEvents.namespace('n')
        .event('x', z.object({ at: z.coerce.number(), d: z.string().default('d') }))
        .build()
      builder
        .addEvents(coercing)
        .withValidation({ mode: 'always' })
        .build()
        .emit('n.x', { attributes: { at: '5' } })
      expect(sent()[0]?.attributes).to.deep.equal({ at: '5' })
    })

    it('a function that returns attributes is called once', () => {
      const it = manager()
      let calls = 0
      it.manager.emit('billing.paid', { attributes: () => ({ cents: ++calls }) })
      expect(it.events()[0]?.attributes).to.deep.equal({ cents: 1 })
    })

    it('undeclared attributes are rejected only with strict', () => {
      const attributes = { cents: 1, extra: 'x', gone: undefined }
      const lenient = manager()
      lenient.manager.emit('billing.paid', { attributes } as Wrong)
      expect(lenient.events()[0]?.attributes).to.deep.equal({ cents: 1, extra: 'x' })
      const strict = manager({ mode: 'always', strict: true })
      const error = expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () =>
        strict.manager.emit('billing.paid', { attributes } as Wrong),
      )
      expect(error.details).to.deep.equal({ issues: [{ path: ['extra'] }] })
    })

    it('a schema that returns a promise is rejected, and its rejection is handled', () => {
      for (const answer of [
        () => Promise.reject(new Error('late')),
        () => Promise.resolve({ value: {} }),
        () => thenable({ value: (_: unknown, fail: (error: Error) => void) => fail(new Error('late')) }),
        () => {
          throw new Error('hunter2')
        },
      ]) {
        const schema = { '~standard': { version: 1, vendor: 'test', validate: answer } } as Wrong
        const registry = KitTelemetryEvents.namespace('n').event('x', schema).build()
        const it = recording().builder.addEvents(registry).withValidation({ mode: 'always' }).build()
        const error = expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () =>
          it.emit('n.x', { attributes: {} }),
        )
        expect(error.message).to.match(/the schema of event 'n\.x' (returned a promise|threw an error)/)
        expect(error.details).to.equal(undefined)
        expect(error.message).not.to.include('hunter2')
        if (error.message.includes('threw an error, which'))
          expect(error.cause).to.include({ message: 'hunter2' })
      }
    })

    it('emit throws for attributes that are not an object, and for a schema that fails without issues', () => {
      const it = manager()
      const noAttributes = ['x', 5, true, [], () => 5, Promise.reject(new Error('late'))] as Wrong[]
      for (const attributes of noAttributes)
        expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () =>
          it.manager.emit('billing.paid', { attributes }),
        )
      expect(it.manager.stats().emitted).to.equal(0)
      const schema = {
        '~standard': { version: 1, vendor: 'test', validate: () => ({ issues: [] }) },
      } as Wrong
      const registry = KitTelemetryEvents.namespace('n').event('x', schema).build()
      const strange = recording().builder.addEvents(registry).withValidation({ mode: 'always' }).build()
      expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () => strange.emit('n.x', { attributes: {} }))
    })

    it('a validation error contains the first 20 issues, and counts the rest', () => {
      const issues = Array.from({ length: 20_000 }, (_, index) => ({ message: 'm', path: [index] }))
      const schema = { '~standard': { version: 1, vendor: 'test', validate: () => ({ issues }) } } as Wrong
      const registry = KitTelemetryEvents.namespace('n').event('x', schema).build()
      const it = recording().builder.addEvents(registry).withValidation({ mode: 'always' }).build()
      const error = expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () => it.emit('n.x', { attributes: {} }))
      expect((error.details as Wrong).issues).to.have.length(20)
      expect(error.message).to.match(/, and 19,995 more\. Run /)
    })

    it('paths of issues of any library are read', () => {
      const issues = [{ message: 'm', path: [{ key: 'a' }, 1, Symbol('s')] }, { message: 'm' }]
      const schema = { '~standard': { version: 1, vendor: 'test', validate: () => ({ issues }) } } as Wrong
      const registry = KitTelemetryEvents.namespace('n').event('x', schema).build()
      const it = recording().builder.addEvents(registry).withValidation({ mode: 'always' }).build()
      const error = expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () => it.emit('n.x', { attributes: {} }))
      expect(error.details).to.deep.equal({ issues: [{ path: ['a', 1, 'Symbol(s)'] }, { path: [] }] })
    })

    it('validation is on in development, off in production, and off with none', () => {
      const before = process.env.NODE_ENV
      const passes = (options: Parameters<KitTelemetry['withValidation']>[0]) => {
        const it = manager(options)
        try {
          ;(it.manager as Wrong).emit('billing.paid')
          return true
        } catch {
          return false
        }
      }
      try {
        delete process.env.NODE_ENV
        expect([passes({}), passes({ mode: 'always' }), passes({ mode: 'none' })]).to.deep.equal([
          false,
          false,
          true,
        ])
        process.env.NODE_ENV = 'production'
        expect([passes({}), passes({ mode: 'always' }), passes({ mode: 'none' })]).to.deep.equal([
          true,
          false,
          true,
        ])
      } finally {
        if (before === undefined) delete process.env.NODE_ENV
        else process.env.NODE_ENV = before
      }
    })

    it('validation uses the options of each registry', () => {
      const { builder } = recording()
      const other = KitTelemetryEvents.namespace('other')
        .event('x', z.object({ a: z.string() }))
        .build()
      const it = builder
        .withValidation({ mode: 'always' })
        .addEvents(events, { mode: 'none' })
        .addEvents(other)
        .build()
      const untyped: Wrong = it
      untyped.emit('billing.paid')
      expectCode('TELEMETRY_SCHEMA_VALIDATION_FAILED', () => untyped.emit('other.x'))
    })
  })

  describe('validates actors and scopes', () => {
    const build = (mode: 'always' | 'none' = 'always') => {
      const { builder, ...rest } = recording()
      const manager = builder
        .addActor('user', { required: true })
        .addActor('bot', { required: true })
        .addActor('guest')
        .addScope('org')
        .addScope('user')
        .withValidation({ mode })
        .build()
      return { ...rest, manager: manager as Wrong }
    }

    for (const [what, actor, message] of [
      [
        'an unknown type',
        { type: 'usr' },
        "the ACTOR type 'usr', which is not registered. Did you mean 'user'?",
      ],
      ['the type __proto__', { type: '__proto__' }, "the ACTOR type '__proto__', which is not registered."],
      ...[{ type: '' }, { type: 5 }, {}, 'user', []].map(
        (wrong) => [JSON.stringify(wrong), wrong, undefined] as const,
      ),
    ] as const)
      it(`an actor and a scope without a registered type are rejected: ${what}`, () => {
        const { manager } = build()
        const inputs = {
          actor: { actor },
          scope: { actor: { type: 'bot' }, scope: actor },
        }
        for (const [kind, input] of Object.entries(inputs)) {
          const code = kind === 'actor' ? 'TELEMETRY_INVALID_ACTOR' : 'TELEMETRY_INVALID_SCOPE'
          const error = expectCode(code, () => manager.emit('x', input))
          if (message !== undefined)
            expect(error.message).to.include(`event 'x' has ${message.replace('ACTOR', kind)} Run `)
        }
      })

    it('an event of a session with an unregistered actor type is rejected', () => {
      expectCode('TELEMETRY_INVALID_ACTOR', () => build().manager.session().actor('stranger').emit('x'))
    })

    it('an event without a required actor or scope type is rejected', () => {
      const { manager, events } = build()
      for (const input of [{}, { actor: { type: 'guest' } }])
        expect(expectCode('TELEMETRY_INVALID_ACTOR', () => manager.emit('x', input)).message).to.include(
          "event 'x' must have an actor of the type 'user' or 'bot'.",
        )
      manager.emit('x', { actor: { type: 'bot' } })
      manager.session().actor('user', 'u1').emit('x')
      expect(events()).to.have.length(2)
      const { builder } = recording()
      const scoped = builder.addScope('org', { required: true }).withValidation({ mode: 'always' }).build()
      expectCode('TELEMETRY_INVALID_SCOPE', () => scoped.emit('x'))
      scoped.emit('x', { scope: { type: 'org', id: 'o1' } })
    })

    it('built-in events are not checked for types, and no event is if validation is off', () => {
      const { manager, events } = build()
      manager.emit('kit.mcp.auth.refused', { actor: { type: 'stranger' } })
      const off = build('none')
      off.manager.emit('x', { actor: { type: 'stranger' } })
      expect([events(), off.events()].map((list) => list.length)).to.deep.equal([1, 1])
    })

    it('only withValidation decides whether types are checked', () => {
      const { builder } = recording()
      const manager = builder
        .addActor('user')
        .addEvents(events, { mode: 'always' })
        .withValidation({ mode: 'none' })
        .build()
      manager.emit('billing.noted', { actor: { type: 'stranger' as Wrong } })
    })
  })

  describe('reports and never throws', () => {
    const hostile = new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('no')
        },
      },
    )
    const fail = () => {
      throw new Error('no')
    }
    const unspeakable = new Proxy({}, { get: fail, getPrototypeOf: fail })
    const table: [string, Wrong][] = [
      [
        'what cannot be looked at, thrown',
        {
          attributes: () => {
            throw unspeakable
          },
        },
      ],
      ['input that is not an object', 5],
      ['attributes that are a string', { attributes: 'x' }],
      ['attributes that are an array', { attributes: [1] }],
      ['attributes that are a date', { attributes: new Date() }],
      ['attributes that cannot be read', { attributes: hostile }],
      [
        'an attributes function that throws',
        {
          attributes: () => {
            throw new Error('no')
          },
        },
      ],
      [
        'an attributes function that promises',
        {
          attributes: async () => {
            throw new Error('no')
          },
        },
      ],
      [
        'an input getter that throws',
        {
          get attributes() {
            throw new Error('no')
          },
        },
      ],
    ]
    for (const [what, input] of table) {
      it(`emit does not throw for ${what}, but reports it`, () => {
        const { builder, logger, events } = recording()
        const manager = builder.build()
        manager.emit('some.event', input)
        expect(logger.codes).to.deep.equal(['TELEMETRY_EMIT_FAILED'])
        expect(logger.errors[0]?.message).to.match(/^TELEMETRY_EMIT_FAILED: .*some\.event/)
        expect(events()).to.have.length(0)
        manager.emit('some.event')
        expect(events()).to.have.length(1)
      })
    }

    for (const [input, reason] of [
      [
        { attributes: 'x' },
        'attributes must be an object, or a function that returns one; received a string of 1 character',
      ],
      [
        { attributes: Promise.resolve({}) },
        'attributes must be an object, or a function that returns one; received a Promise',
      ],
    ] as Wrong[]) {
      it(`the error of a dropped event names the member: ${reason}`, () => {
        const { builder, logger } = recording()
        builder.build().emit('some.event', input)
        expect(logger.errors[0]?.message).to.equal(
          `TELEMETRY_EMIT_FAILED: event 'some.event' was dropped: ${reason}. Run "npx mcp-gatekit explain telemetry_emit_failed" for help.`,
        )
      })
    }

    const id = 'a string, a number, or an object with a toString of its own'
    for (const [input, reason] of [
      [{ level: 'loud' }, "level must be debug, info, warn, error, or fatal; received 'loud', so it is info"],
      [{ sessionId: '' }, `sessionId must be ${id}; received an empty string`],
      [{ sessionId: {} }, `sessionId must be ${id}; received an empty object`],
      [{ actor: 'u1' }, 'actor must be an object with a type; received a string of 2 characters'],
      [{ actor: { id: 'u1' } }, 'actor must be an object with a type; received an object with 1 member'],
      [{ actor: { type: 'user', id: {} } }, `actor.id must be ${id}; received an empty object`],
      [{ actor: { type: 'user', tags: [] } }, 'actor.tags must be an object; received an empty array'],
      [{ scope: { type: '' } }, 'scope must be an object with a type; received an object with 1 member'],
      [{ scope: { type: 'org' } }, `scope.id must be ${id}; received undefined`],
      [{ scope: { type: 'org', id: 'o', tags: 5 } }, 'scope.tags must be an object; received a number'],
      [{ source: 'x' }, 'source must be an object; received a string of 1 character'],
      [{ source: { causer: 5 } }, 'source.causer must be a string; received a number'],
      [{ source: { file: 5 } }, 'source.file must be a string; received a number'],
      [{ source: { line: '5' } }, 'source.line must be a number; received a string of 1 character'],
    ] as Wrong[]) {
      it(`an event is delivered without a member that cannot be read, which is reported once: ${reason}`, () => {
        const { builder, logger, events } = recording()
        const manager = builder.build()
        for (const _ of [1, 2]) manager.emit('some.event', input)
        expect(events()).to.have.length(2)
        expect(logger.errors).to.deep.equal([])
        expect(logger.warnings.map(({ message }) => message)).to.deep.equal([
          `TELEMETRY_EMIT_FAILED: event 'some.event' is delivered, but ${reason}. Run "npx mcp-gatekit explain telemetry_emit_failed" for help.`,
        ])
      })
    }

    it('null counts as a missing member', () => {
      const { builder, logger, events } = recording()
      const nothing = {
        level: null,
        time: null,
        sessionId: null,
        actor: null,
        scope: null,
        attributes: null,
        error: null,
        source: null,
      }
      builder.build().emit('x', nothing as Wrong)
      builder.build().emit('x', null as Wrong)
      expect(logger.codes).to.deep.equal([])
      expect(events()[0]).to.have.all.keys('name', 'time', 'level', 'service', 'environment', 'sessionId')
    })

    it('a logger that throws, rejects, or emits does not break emit', () => {
      let manager = KitTelemetry.create().build()
      for (const error of [
        () => {
          throw new Error('no')
        },
        () => Promise.reject(new Error('no')),
        () => manager.emit('again', { level: 'trace' as Wrong }),
      ]) {
        manager = KitTelemetry.create().withLogger({ error, warn: error }).build()
        manager.emit('x', { level: 'trace' as Wrong })
      }
    })
  })

  it('stats() counts emitted and sampled-out events', () => {
    const { builder, memory } = recording()
    const manager = builder.withSampling({ never: ['*.never'] }).build()
    manager.emit('a')
    manager.emit('a.never')
    manager.emit('a', { level: 'x' as Wrong })
    manager.emit('a', { attributes: 5 as Wrong })
    expect(manager.stats()).to.deep.include({ emitted: 4, sampledOut: 1, droppedAfterShutdown: 0 })
    expect(memory.getEvents()).to.have.length(2)
  })
})
