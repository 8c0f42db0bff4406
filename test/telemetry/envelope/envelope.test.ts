import { expect } from 'chai'
import { readTime } from '../../../src/telemetry/envelope/time.ts'
import { KitTelemetry, MockTelemetryAdapter } from '../../../src/telemetry/index.ts'
import { emitted, expectDeeplyFrozen, recording } from '../../support/telemetry/recording.ts'

/** For arguments that do not compile. */
type Wrong = any

const hide = (): never => {
  throw new Error('hidden')
}

describe('the envelope', () => {
  it('an envelope has every required member, and no other one that was not given', () => {
    const before = Date.now()
    const envelope = emitted(undefined)
    expect(envelope).to.have.all.keys('name', 'time', 'level', 'service', 'environment', 'sessionId')
    expect(envelope).to.include({
      name: 'something.happened',
      level: 'info',
      service: 'kit-app',
      environment: 'development',
    })
    expect(envelope.time).to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(Date.parse(envelope.time)).to.be.within(before, Date.now())
    expect(envelope.sessionId).to.match(/^ses_[0-9A-HJKMNP-TV-Z]{26}$/)
  })

  it('an envelope has every member that was given', () => {
    const input = {
      level: 'warn',
      time: '2026-01-02T03:04:05.678Z',
      sessionId: 'mine',
      actor: { type: 'user', id: 'u1', tags: { plan: 'pro' } },
      scope: { type: 'org', id: 'o1', tags: { region: 'eu' } },
      attributes: { a: 1, b: [true, null, 'x'], c: { d: 1.5 } },
      error: { name: 'TypeError', message: 'boom', code: 'E_BOOM', stack: 'TypeError: boom\n    at x' },
      source: { causer: 'job', file: 'a.ts', line: 5 },
    } as const
    expect(emitted(input, (builder) => builder.withVersion('1.2.3'))).to.deep.equal({
      name: 'something.happened',
      service: 'kit-app',
      environment: 'development',
      version: '1.2.3',
      ...input,
    })
  })

  it('an envelope is deeply frozen and shares nothing with the input of the caller', () => {
    const input = {
      actor: { type: 'user', tags: { a: { b: [1] } } },
      scope: { type: 'org', id: 'o', tags: { a: {} } },
      attributes: { a: { b: [{ c: 1 }] } },
      error: { name: 'Error', message: 'm' },
      source: { file: 'f' },
    }
    const copy = structuredClone(input)
    const envelope = emitted(input)
    expectDeeplyFrozen(envelope)
    input.attributes.a.b[0] = { c: 2 }
    input.actor.tags.a.b.push(2)
    expect(envelope).to.deep.include({ attributes: copy.attributes, actor: copy.actor })
    expect(Object.isFrozen(input.attributes.a)).to.equal(false)
  })

  it('each event outside sessions has its own session id, and the ids are in order', () => {
    const { builder, events } = recording()
    const manager = builder.build()
    for (let i = 0; i < 2000; i++) manager.emit('x')
    const ids = events().map(({ sessionId }) => sessionId)
    expect(new Set(ids).size).to.equal(2000)
    expect(ids).to.deep.equal([...ids].sort())
  })

  describe('time', () => {
    const read: [string, string][] = [
      ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000Z'],
      ['2026-01-02t03:04:05z', '2026-01-02T03:04:05.000Z'],
      ['2026-01-02T03:04:05.1Z', '2026-01-02T03:04:05.100Z'],
      ['2026-01-02T03:04:05.123987+02:00', '2026-01-02T01:04:05.123Z'],
      ['2025-12-31T23:30:00-01:30', '2026-01-01T01:00:00.000Z'],
      ['2024-02-29T00:00:00Z', '2024-02-29T00:00:00.000Z'],
      ['0099-01-01T00:00:00Z', '0099-01-01T00:00:00.000Z'],
      ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
      ['2026-11-22T23:59:00+23:59', '2026-11-22T00:00:00.000Z'],
      ['0000-01-01T00:00:00Z', '0000-01-01T00:00:00.000Z'],
      ['9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'],
    ]
    for (const [given, expected] of read) {
      it(`the time of an envelope is read from ${given}`, () =>
        expect(emitted({ time: given }).time).to.equal(expected))
    }

    const unreadable: Wrong[] = [
      '',
      'yesterday',
      '2026-01-02',
      '2026-01-02T03:04:05',
      '2026-01-02T03:04Z',
      '2026-13-01T00:00:00Z',
      '2026-02-29T00:00:00Z',
      '2026-01-00T00:00:00Z',
      '2026-01-01T24:00:00Z',
      '2026-01-01T00:60:00Z',
      '2026-01-01T00:00:61Z',
      '2026-01-01T00:00:00+24:00',
      '2026-01-01T00:00:00+0200',
      '2026-01-01T00:00:00+00:60',
      '9999-12-31T23:59:59-01:00',
      '0000-01-01T00:00:00+01:00',
      5,
      new Date(Number.NaN),
    ]
    it('the time of an envelope is read from a Date', () =>
      expect(emitted({ time: new Date(5) }).time).to.equal('1970-01-01T00:00:00.005Z'))
    for (const time of unreadable) {
      it(`the invalid time ${JSON.stringify(time)} is replaced by the current time, with a warning`, () => {
        const before = Date.now()
        const { builder, logger, events } = recording()
        builder.build().emit('x', { time })
        expect(Date.parse(events()[0]?.time as string)).to.be.within(before, Date.now())
        expect(logger.errors).to.have.length(0)
        expect(logger.warnings).to.have.length(1)
        expect(logger.warnings[0]?.message).to.match(/^TELEMETRY_EMIT_FAILED: .*time/)
        expect(logger.warnings[0]?.error).to.include({ code: 'TELEMETRY_EMIT_FAILED' })
        expect(readTime(time)).to.equal(undefined)
      })
    }
  })

  describe('error', () => {
    it('the error of an envelope has the members of an Error', () => {
      const error = Object.assign(new RangeError('far'), { code: 'E_FAR' })
      expect(emitted({ error }).error).to.deep.equal({
        name: 'RangeError',
        message: 'far',
        code: 'E_FAR',
        stack: error.stack,
      })
    })

    it('the stack of an error contains the chain of causes', () => {
      const root = new Error('root')
      const error = new Error('top', { cause: new TypeError('middle', { cause: root }) })
      const { stack } = emitted({ error }).error as { stack: string }
      expect(stack.indexOf('Error: top')).to.equal(0)
      expect(stack.indexOf('\nCaused by: TypeError: middle')).to.be.greaterThan(0)
      expect(stack.indexOf('\nCaused by: Error: root')).to.be.greaterThan(stack.indexOf('middle'))
    })

    it('an endless chain of causes is cut, and causes that are not errors are described', () => {
      const error: Error & { cause?: unknown } = new Error('a')
      error.cause = error
      expect(emitted({ error }).error?.stack).to.match(/Caused by: \[Circular\]$/)
      expect(emitted({ error: new Error('a', { cause: 'text' }) }).error?.stack).to.match(/Caused by: text$/)
      expect(emitted({ error: new Error('a', { cause: { password: 'x' } }) }).error?.stack).to.match(
        /Caused by: \[object\]$/,
      )
      let deep: Error = new Error('0')
      for (let i = 1; i < 100; i++) deep = new Error(String(i), { cause: deep })
      expect(
        emitted({ error: deep }, (b) => b.withRedaction({ maxStringLength: 1e6 })).error?.stack?.match(
          /Caused by/g,
        ),
      ).to.have.length(16)
    })

    it('an error without a stack, a name, or a string as its code is accepted', () => {
      const error = Object.assign(
        new Error('m', { cause: Object.assign(new Error('c'), { stack: undefined }) }),
        { stack: undefined, name: '', code: 42 },
      )
      expect(emitted({ error }).error).to.deep.equal({
        name: 'Error',
        message: 'm',
        code: '42',
        stack: 'Error: m\nCaused by: Error: c',
      })
      const bare = Object.assign(new Error('m'), { stack: undefined })
      expect(emitted({ error: bare }).error).to.deep.equal({ name: 'Error', message: 'm' })
      expect(
        emitted({ error: { name: 'E', message: 'm', code: 7 as Wrong, other: 1 } as Wrong }).error,
      ).to.deep.equal({ name: 'E', message: 'm', code: '7', attributes: { other: 1 } })
    })

    const thrown: [string, unknown, object][] = [
      ['a string', 'no stock', { name: 'Error', message: 'no stock' }],
      ['a number', 404, { name: 'Error', message: '404' }],
      ['false', false, { name: 'Error', message: 'false' }],
      [
        'an object of a database client',
        { code: '42P01', details: null, table: 'x', message: 'no relation' },
        { name: 'Error', message: 'no relation', code: '42P01', attributes: { table: 'x' } },
      ],
      ['a code that is an object', { name: 'X', message: 'm', code: {} }, { name: 'X', message: 'm' }],
      ['an object that cannot be read', Proxy.revocable({}, {}), { name: 'Error', message: '[object]' }],
    ]
    for (const [what, error, info] of thrown) {
      it(`an event with ${what} as its error is delivered`, () =>
        expect(emitted({ error }).error).to.deep.equal(info))
    }

    it('at most 20 other members of an error are attributes, redacted by their keys', () => {
      const members = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`m${at}`, at]))
      const error = Object.assign(new Error('m'), { password: 'x', status: 402, body: {}, ...members })
      const { attributes } = emitted({ error }, (b) => b.withRedaction({ denylistKeys: ['password'] }))
        .error as Wrong
      expect(Object.keys(attributes)).to.have.length(19)
      expect(attributes).to.include({ status: 402, m0: 0 })
      expect(attributes).not.to.have.any.keys('password', 'body')
      expect(emitted({ error: new Error('m') }).error).not.to.have.property('attributes')
    })

    it('a stack keeps a frame of each error down to the root, however long the messages are', () => {
      const layer = (message: string, cause?: Error) =>
        Object.assign(new Error(message, { cause }), {
          stack: `Error: ${message}${Array.from({ length: 10 }, (_, at) => `\n    at method${at} (/srv/app/dist/services/module.js:${at}:17)`).join('')}`,
        })
      let error = layer('the root')
      for (const at of Array(15).keys()) error = layer(`layer ${at}`, error)
      for (const [given, errors] of [
        [error, 16],
        [layer('x'.repeat(9_000), layer('y'.repeat(9_000), layer('the root'))), 3],
      ] as const) {
        const { stack } = emitted({ error: given }, (b) => b.withRedaction({ maxStringLength: 2000 }))
          .error as { stack: string }
        expect(stack.length).to.be.at.most(2000)
        expect(stack).to.contain('Caused by: Error: the root')
        expect(stack.split('Caused by').filter((part) => part.includes('\n    at method0'))).to.have.length(
          errors,
        )
      }
    })

    it('the last of many causes stays in the stack', () => {
      let deep: Error = new Error('the root')
      for (const at of Array(50).keys()) deep = new Error(`layer ${at}`, { cause: deep })
      expect(emitted({ error: deep }).error?.stack).to.contain('Caused by: Error: the root')
    })

    it('members of an error that cannot be read are left out', () => {
      const refusing = (error: object, ...members: string[]) => {
        for (const member of members) Object.defineProperty(error, member, { get: hide })
        return error as Wrong
      }
      const read = { name: 'TypeError', message: 'm' }
      expect(emitted({ error: refusing(new TypeError('m'), 'stack', 'code', 'cause') }).error).to.deep.equal(
        read,
      )
      expect(emitted({ error: refusing({ ...read }, 'stack', 'code') }).error).to.deep.equal(read)
      const error = refusing(new TypeError('m'), 'stack')
      expect(emitted({ attributes: { error, kept: 1 } }).attributes).to.deep.equal({ error: read, kept: 1 })
      const cause = refusing(new RangeError('c'), 'stack', 'cause')
      expect(emitted({ error: new Error('a', { cause }) }).error?.stack).to.match(/Caused by: RangeError: c$/)
    })

    it('the message and the stack of an error are cut', () => {
      const error = { name: 'Errors', message: 'message', code: 'E_LONG', stack: 'stack-stack' }
      expect(emitted({ error }, (b) => b.withRedaction({ maxStringLength: 4 })).error).to.deep.equal({
        name: 'Errors',
        message: 'mes…',
        code: 'E_LONG',
        stack: 'sta…',
      })
    })
  })

  const ids: [unknown, string | undefined][] = [
    [7, '7'],
    [9n, '9'],
    [{ toString: () => 'abc' }, 'abc'],
    [{}, undefined],
    [['a'], undefined],
    [true, undefined],
  ]
  for (const [id, text] of ids) {
    it(`the ids ${typeof id === 'bigint' ? '9n' : JSON.stringify(id)} become strings, or are left out and reported once`, () => {
      const { builder, logger, events } = recording()
      const telemetry = builder.build()
      const input = {
        actor: { type: 'user', id },
        scope: { type: 'org', id },
        sessionId: id,
        level: 'WARN',
      } as Wrong
      telemetry.emit('x', input)
      telemetry.emit('x', input)
      const [event, second] = events()
      expect(second?.level).to.equal('info')
      expect(event?.level).to.equal('info')
      expect(event?.actor?.type).to.equal('user')
      expect(event?.actor?.id).to.equal(text)
      expect(event?.scope?.id).to.equal(text)
      if (text !== undefined) expect(event?.sessionId).to.equal(text)
      expect(logger.errors).to.deep.equal([])
      expect(logger.warnings).to.have.length(text === undefined ? 4 : 1)
    })
  }

  it('members of actor, scope, and source that cannot be read are left out', () => {
    const refusing = (given: object, member: string) =>
      Object.defineProperty(given, member, { get: hide, enumerable: true }) as Wrong
    expect(
      emitted({
        actor: refusing(refusing({ type: 'user' }, 'id'), 'tags'),
        scope: refusing({ type: 'org', id: 'o1' }, 'tags'),
        source: refusing({ line: 1 }, 'file'),
      }),
    ).to.deep.include({ actor: { type: 'user' }, scope: { type: 'org', id: 'o1' }, source: { line: 1 } })
  })

  it('a source line that is not a finite number becomes a string', () => {
    for (const line of [Number.NaN, Number.POSITIVE_INFINITY])
      expect(emitted({ source: { line } }).source).to.deep.equal({ line: String(line) })
  })

  it('numeric ids of actor and scope become strings', () => {
    expect(
      emitted({ actor: { type: 'user', id: 5 as Wrong }, scope: { type: 'org', id: 6n as Wrong } }),
    ).to.deep.include({
      actor: { type: 'user', id: '5' },
      scope: { type: 'org', id: '6' },
    })
  })

  it('an envelope has attributes only if some were given', () => {
    expect(emitted({})).not.to.have.property('attributes')
    expect(emitted({ attributes: () => undefined })).not.to.have.property('attributes')
    expect(emitted({ attributes: () => ({ a: 1 }) }).attributes).to.deep.equal({ a: 1 })
    expect(emitted({ attributes: {} }).attributes).to.deep.equal({})
  })

  it('a function that returns attributes is not called for an event that is sampled out', () => {
    const mock = MockTelemetryAdapter.create()
    const manager = KitTelemetry.create().withSampling({ infoRate: 0 }).addTransport(mock).build()
    manager.emit('x', { attributes: () => expect.fail('was called') })
    expect(mock.getLastEvent()).to.equal(undefined)
  })
})
