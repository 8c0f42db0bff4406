import { spawnSync } from 'node:child_process'
import { expect } from 'chai'
import { pino } from 'pino'
import {
  KitTelemetry,
  LoggerTransportAdapter,
  type LoggerTransportOptions,
  type TelemetryEmitInput,
} from '../../../src/telemetry/index.ts'
import { expectCode } from '../recording.ts'

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
    .addTransport(LoggerTransportAdapter.create({ logger, ...options }))
    .build()
  manager.emit('billing.invoice.failed', { time: '2026-01-02T12:00:00Z', sessionId: 'ses_1', ...input })
  return { ...logger, stats: manager.stats().transports[0] }
}

const line = (input: TelemetryEmitInput, options?: Partial<LoggerTransportOptions>) =>
  write(input, options).lines[0]?.[1]

describe('LoggerTransportAdapter', () => {
  it('writes the pretty line', () => {
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
        error: new TypeError('message'),
      }),
    ).to.equal(
      '12:00:00.000 ERROR billing.invoice.failed actor=user:u1 scope=org:o1 session=ses_1 key=value n=5 b=true nothing=null text="two words" nested={"a":[1]} list=["x y"] TypeError: message',
    )
    expect(line({})).to.equal('12:00:00.000 INFO billing.invoice.failed session=ses_1')
    expect(line({ actor: { type: 'bot' } }, { includeTimestamp: false })).to.equal(
      'INFO billing.invoice.failed actor=bot session=ses_1',
    )
  })

  it('writes the envelope as JSON, with and without its time', () => {
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

  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    it(`calls ${level} for ${level}`, () =>
      expect(write({ level }).lines.map(([method]) => method)).to.deep.equal([level]))
  }

  it('calls fatal for fatal where there is one, else error, each on the logger itself', () => {
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

  it('leaves out what is below minLevel, as delivered', () => {
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

  it('lets no event forge a line', () => {
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

  it('counts a throwing logger as failed, and swallows what a logger rejects', async () => {
    const throwing = Object.assign(new Lines(), {
      info: () => {
        throw new Error('no')
      },
    })
    expect(write({}, {}, throwing).stats).to.deep.include({ failed: 1, delivered: 0 })
    const rejecting = Object.assign(new Lines(), { info: () => Promise.reject(new Error('no')) as Wrong })
    expect(write({}, {}, rejecting).stats).to.deep.include({ failed: 0, delivered: 1 })
  })

  const logger = new Lines()
  const wrong: [string, Wrong][] = [
    ['logger', undefined],
    ['logger', {}],
    ['logger', { logger: { info() {}, warn() {}, error() {} } }],
    ['format', { logger, format: 'xml' }],
    ['minLevel', { logger, minLevel: 'trace' }],
    ['includeTimestamp', { logger, includeTimestamp: 1 }],
  ]
  for (const [option, options] of wrong) {
    it(`refuses a wrong ${option} by its name`, () => {
      expect(
        expectCode('TELEMETRY_CONFIGURATION_INVALID', () => LoggerTransportAdapter.create(options)).message,
      ).to.include(option)
    })
  }

  it('writes to pino, whose levels it uses', () => {
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

  it('writes to console', async () => {
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
