import { spawnSync } from 'node:child_process'
import { expect } from 'chai'
import fc from 'fast-check'
import { pino } from 'pino'
import {
  KitTelemetry,
  LoggerTransportAdapter,
  type LoggerTransportOptions,
  type TelemetryEmitInput,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'
import { anyCharacter } from '../../support/any-character.ts'
import { runs } from '../../support/runs.ts'

/** For arguments that do not compile. */
type Wrong = any

class Lines {
  readonly lines: [string, string][] = []
  debug(line: string) {
    this.lines.push(['debug', line])
  }
  info(line: string) {
    this.lines.push(['info', line])
  }
  warn(line: string) {
    this.lines.push(['warn', line])
  }
  error(line: string) {
    this.lines.push(['error', line])
  }
}

function write(
  input: TelemetryEmitInput,
  options: Partial<LoggerTransportOptions> = {},
  logger: Lines = new Lines(),
) {
  const manager = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })
    .withLogger(false)
    .addTransport(LoggerTransportAdapter.create({ logger, ...options }))
    .build()
  manager.emit('billing.invoice.failed', { time: '2026-01-02T12:00:00Z', sessionId: 'ses_1', ...input })
  return { ...logger, stats: manager.stats().transports[0] }
}

const line = (input: TelemetryEmitInput, options?: Partial<LoggerTransportOptions>) =>
  write(input, options).lines[0]?.[1]

describe('LoggerTransportAdapter', () => {
  it('LoggerTransportAdapter writes the pretty line', () => {
    expect(
      line({
        level: 'error',
        actor: { type: 'user', id: 'u1' },
        scope: { type: 'org', id: 'o1' },
        attributes: {
          key: 'value',
          n: 5,
          b: true,
          nothing: null,
          text: 'two words',
          nested: { a: [1] },
          list: ['x y'],
        },
        error: Object.assign(new TypeError('message'), {
          stack: 'TypeError: message\n    at a (b.js:1:2)',
          cause: Object.assign(new Error('root\n12:00 INFO forged\u001b[2J'), { stack: undefined }),
        }),
      }),
    ).to.equal(
      '12:00:00.000 ERROR billing.invoice.failed actor=user:u1 scope=org:o1 session=ses_1 key=value n=5 b=true nothing=null text="two words" nested={"a":[1]} list=["x y"] TypeError: message\n      at a (b.js:1:2)\n  Caused by: Error: root\n  12:00 INFO forged\\u001b[2J',
    )
    expect(line({})).to.equal('12:00:00.000 INFO billing.invoice.failed session=ses_1')
    expect(line({ actor: { type: 'bot' } }, { includeTimestamp: false })).to.equal(
      'INFO billing.invoice.failed actor=bot session=ses_1',
    )
  })

  it('LoggerTransportAdapter writes the envelope as JSON, with and without its time', () => {
    const envelope = {
      name: 'billing.invoice.failed',
      time: '2026-01-02T12:00:00.000Z',
      level: 'info',
      service: 'kit-app',
      environment: 'development',
      sessionId: 'ses_1',
      attributes: { a: 'x\ny\u009b\u2028' },
    }
    const json = line({ attributes: envelope.attributes }, { format: 'json' }) as string
    expect(JSON.parse(json)).to.deep.equal(envelope)
    expect(json).not.to.match(/[\n\u009b\u2028]/)
    const { time: _, ...timeless } = envelope
    expect(
      JSON.parse(
        line({ attributes: envelope.attributes }, { format: 'json', includeTimestamp: false }) as string,
      ),
    ).to.deep.equal(timeless)
  })

  describe('as JSON, writes what JSON.stringify makes of the envelope', () => {
    const UNSAFE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g
    const safeJson = (value: unknown) =>
      JSON.stringify(value).replace(UNSAFE, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)

    /** The lines that adapters with and without the time make of envelopes, and those they should make. */
    function expectLines(envelopes: readonly TelemetryEnvelope[]) {
      const [timed, timeless] = [new Lines(), new Lines()]
      const adapters = [
        LoggerTransportAdapter.create({ logger: timed, format: 'json' }),
        LoggerTransportAdapter.create({ logger: timeless, format: 'json', includeTimestamp: false }),
      ]
      for (const envelope of envelopes) for (const adapter of adapters) adapter.handle(envelope)
      expect(timed.lines.map(([, text]) => text)).to.deep.equal(envelopes.map(safeJson))
      expect(timeless.lines.map(([, text]) => text)).to.deep.equal(
        envelopes.map(({ time: _, ...rest }) => safeJson(rest)),
      )
    }

    const text = fc.oneof(
      fc.string({ unit: anyCharacter }),
      fc.string({ minLength: 10, maxLength: 30 }),
      fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) }),
    )
    const values = fc.dictionary(
      text,
      fc.oneof(
        text,
        fc.double(),
        fc.boolean(),
        fc.object({ withNullPrototype: true }),
        fc.jsonValue() as never,
      ),
    )
    const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })

    it('JSON of LoggerTransportAdapter equals JSON.stringify for any event, in any order of sessions', () => {
      const inputs = fc.array(
        fc.record({
          session: fc.integer({ min: 0, max: 3 }),
          attributes: optional(values),
          error: optional(fc.record({ name: text, message: text, stack: text })),
          source: optional(fc.record({ file: text, line: fc.integer() })),
        }),
        { maxLength: 12 },
      )
      fc.assert(
        fc.property(inputs, fc.array(values, { maxLength: 3 }), text, (events, tags, version) => {
          const envelopes: TelemetryEnvelope[] = []
          const builder = KitTelemetry.create()
            .withSampling({ infoRate: 1 })
            .addTransport({ type: 'keep', handle: (envelope) => void envelopes.push(envelope) })
          const manager = (version.trim() === '' ? builder : builder.withVersion('1.0')).build()
          const sessions = [...tags, undefined].map((each, index) => {
            const session = manager.session()
            if (each !== undefined) session.actor('user', version, each)
            return index % 2 === 0 ? session : session.scope('org', 'o1', each)
          })
          for (const { session, ...input } of events) {
            const emitter = sessions[session] ?? manager
            emitter.emit('something.happened', input)
          }
          expect(envelopes).to.have.length(events.length)
          expectLines(envelopes)
        }),
        { numRuns: runs(300) },
      )
    })

    it('JSON of LoggerTransportAdapter escapes an envelope that a manager did not create', () => {
      const envelope: TelemetryEnvelope = {
        name: 'a.b',
        time: '2026-01-02T12:00:00.000Z',
        level: 'info',
        service: 's',
        environment: 'e',
        sessionId: 'ses_1',
      }
      const actor = { type: 'user', id: 'u1' }
      const foreign: Wrong[] = [
        { ...envelope, extra: 1 },
        { ...envelope, version: undefined },
        { ...envelope, attributes: { at: new Date(0), none: undefined, no: () => {}, zero: -0 } },
        { ...envelope, attributes: { list: [undefined, Number.NaN, { toJSON: () => 'x' }, [[]], {}] } },
        { ...envelope, attributes: { list: Object.assign([1], { toJSON: () => 'list' }) } },
        { ...envelope, attributes: new Map([['a', 1]]) },
        { ...envelope, attributes: { '\u007f': '\u007f' } },
        { level: 'info' },
        { ...envelope, service: { a: 1 } },
        Object.freeze({ ...envelope, actor }),
        Object.freeze({ ...envelope, actor }),
        Object.freeze({ ...envelope, actor }),
      ]
      expectLines(foreign)
      const lines = new Lines()
      const adapter = LoggerTransportAdapter.create({ logger: lines, format: 'json' })
      const changing = { ...envelope, actor: { type: 'user' } }
      for (const type of ['user', 'user', 'bot']) {
        changing.actor.type = type
        void adapter.handle(changing)
      }
      expect(lines.lines[2]?.[1]).to.include('"actor":{"type":"bot"}')
    })
  })

  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    it(`LoggerTransportAdapter calls the method ${level} for the level ${level}`, () =>
      expect(write({ level }).lines.map(([method]) => method)).to.deep.equal([level]))
  }

  it('LoggerTransportAdapter calls fatal for the level fatal if the logger has it, or else error, each on the logger itself', () => {
    expect(write({ level: 'fatal' }).lines[0]?.[0]).to.equal('error')
    class WithFatal extends Lines {
      fatal(text: string) {
        this.lines.push(['fatal', text])
      }
    }
    expect(write({ level: 'fatal' }, {}, new WithFatal()).lines).to.deep.equal([
      ['fatal', '12:00:00.000 FATAL billing.invoice.failed session=ses_1'],
    ])
  })

  it('LoggerTransportAdapter leaves out events below minLevel, and counts them as delivered', () => {
    for (const [level, written] of [
      ['debug', 0],
      ['info', 0],
      ['warn', 1],
      ['error', 1],
      ['fatal', 1],
    ] as const) {
      const { lines, stats } = write({ level }, { minLevel: 'warn' })
      expect(lines).to.have.length(written)
      expect(stats).to.deep.include({ accepted: 1, delivered: 1 })
    }
  })

  it('an event cannot forge a line of LoggerTransportAdapter', () => {
    const forged = line({
      sessionId: 's\n1',
      actor: { type: 'user', id: 'u\u001b[31m' },
      scope: { type: 'a b', id: 'x"y' },
      attributes: {
        'a b': 1,
        'c=d': 2,
        'e\r': 'x\u202ey',
        empty: '',
        quoted: 'say "hi"',
        deep: { '\u0085': '\u2029' },
      },
      error: { name: 'Error', message: 'one\ntwo\t\u0007' },
    }) as string
    expect(forged).to.equal(
      String.raw`12:00:00.000 INFO billing.invoice.failed actor=user:u\u001b[31m scope="a b:x\"y" session="s\n1" "a b"=1 "c=d"=2 "e\r"=x\u202ey empty="" quoted="say \"hi\"" deep={"\u0085":"\u2029"} Error: one\ntwo\t\u0007`,
    )
  })

  it('LoggerTransportAdapter counts an event as failed if the logger throws, and handles a rejection of the logger', async () => {
    const throwing = Object.assign(new Lines(), {
      info: () => {
        throw new Error('no')
      },
    })
    expect(write({}, {}, throwing).stats).to.deep.include({ failed: 1, delivered: 0 })
    const rejecting = Object.assign(new Lines(), { info: () => Promise.reject(new Error('no')) as Wrong })
    expect(write({}, {}, rejecting).stats).to.deep.include({ failed: 0, delivered: 1 })
  })

  it('LoggerTransportAdapter writes to pino with the levels of pino', () => {
    const written: string[] = []
    const logger = pino(
      { level: 'debug', base: null, timestamp: false },
      { write: (text) => void written.push(text) },
    )
    for (const level of ['debug', 'info', 'warn', 'error', 'fatal'] as const)
      write({ level }, { logger, includeTimestamp: false })
    expect(written.map((text) => JSON.parse(text))).to.deep.equal(
      [
        [20, 'DEBUG'],
        [30, 'INFO'],
        [40, 'WARN'],
        [50, 'ERROR'],
        [60, 'FATAL'],
      ].map(([level, name]) => ({ level, msg: `${name} billing.invoice.failed session=ses_1` })),
    )
  })

  it('LoggerTransportAdapter writes to console', async () => {
    const entry = new URL('../../../src/telemetry/index.js', import.meta.url).href
    const script = `
      const { KitTelemetry, LoggerTransportAdapter } = await import(${JSON.stringify(entry)})
      const transport = LoggerTransportAdapter.create({ logger: console, includeTimestamp: false })
      const manager = KitTelemetry.create().addTransport(transport).build()
      manager.emit('x.y', { level: 'warn', sessionId: 'ses_1' })
      manager.emit('x.y', { level: 'fatal', sessionId: 'ses_1' })`
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
    })
    expect(stderr.trim().split('\n')).to.deep.equal(['WARN x.y session=ses_1', 'FATAL x.y session=ses_1'])
  })
})
