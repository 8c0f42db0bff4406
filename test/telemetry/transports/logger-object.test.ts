import { expect } from 'chai'
import { pino } from 'pino'
import { prettyFactory } from 'pino-pretty'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  LoggerTransportAdapter,
  type ObjectLogger,
  type ObjectLoggerTransportOptions,
  type TelemetryEmitInput,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'
import { expectNoSecret } from '../../support/expect-no-secret.ts'
import { auditBuilder } from '../../support/telemetry/audit.ts'
import { expectCode } from '../../support/telemetry/recording.ts'

const INPUT: TelemetryEmitInput = {
  level: 'error',
  time: '2026-01-02T12:00:00Z',
  sessionId: 'ses_1',
  actor: { type: 'user', id: 'u1' },
  scope: { type: 'org', id: 'o1' },
  attributes: { level: 'mine', msg: 'mine', password: 'hunter2', list: [{ password: 'hunter2' }] },
  error: Object.assign(new TypeError('no password hunter2'), { code: 'E_NO', password: 'hunter2' }),
  source: { causer: 'job' },
}

/** Emits an event to a logger with `format: 'object'`. */
function write(logger: ObjectLogger, input = INPUT, options: Partial<ObjectLoggerTransportOptions> = {}) {
  const memory = InMemoryTransportAdapter.create()
  const manager = KitTelemetry.create()
    .withService('shop')
    .withVersion('1.0.0')
    .withSampling({ debugRate: 1, infoRate: 1 })
    .withRedaction({ denylistKeys: ['password'], patterns: [{ name: 'word', pattern: /hunter2/ }] })
    .withLogger(false)
    .addTransport(memory)
    .addTransport(LoggerTransportAdapter.create({ logger, format: 'object', ...options }))
    .build()
  manager.emit('billing.failed', input)
  const [envelope] = memory.getEvents() as [TelemetryEnvelope]
  return { envelope, stats: manager.stats().transports[1] }
}

/** A logger without `fatal` that keeps its calls. */
function recorder() {
  const calls: { method: string; fields: Record<string, any>; name: string }[] = []
  const method = (method: string) => (fields: object, name: string) =>
    void calls.push({ method, fields, name })
  return {
    calls,
    logger: { debug: method('debug'), info: method('info'), warn: method('warn'), error: method('error') },
  }
}

/** Returns the lines that pino writes. */
function pinoLines(options: object, work: (logger: ReturnType<typeof pino>) => void): string[] {
  const lines: string[] = []
  work(pino({ level: 'debug', ...options }, { write: (line) => void lines.push(line) }))
  return lines
}

describe("LoggerTransportAdapter with format: 'object'", () => {
  it('a logger gets the members of the envelope, the error as err, and the name as the message', () => {
    const { calls, logger } = recorder()
    const { envelope } = write(logger)
    const { name, level: _level, time: _time, error, ...rest } = envelope
    expect(calls).to.have.length(1)
    const { err, ...fields } = calls[0]?.fields ?? {}
    expect([calls[0]?.method, calls[0]?.name]).to.deep.equal(['error', name])
    expect(fields).to.deep.equal(rest)
    expect({ ...err }).to.deep.equal(error)
    expect(Object.isFrozen(err)).to.equal(false)
  })

  it('the object has the time of the event with includeTimestamp: true', () => {
    const { calls, logger } = recorder()
    write(logger, INPUT, { includeTimestamp: true })
    expect(calls[0]?.fields.time).to.equal('2026-01-02T12:00:00.000Z')
  })

  for (const [level, method] of [
    ['debug', 'debug'],
    ['info', 'info'],
    ['warn', 'warn'],
    ['error', 'error'],
    ['fatal', 'error'],
  ] as const) {
    it(`an event of level ${level} goes to the method ${method} of a logger without fatal`, () => {
      const { calls, logger } = recorder()
      expect(write(logger, { level }).stats).to.include({ delivered: 1, failed: 0 })
      expect(calls.map((call) => call.method)).to.deep.equal([method])
      expect(calls[0]?.fields).not.to.have.property('err')
    })
  }

  it('an event below minLevel is not passed to the logger', () => {
    const { calls, logger } = recorder()
    write(logger, { level: 'info' }, { minLevel: 'warn' })
    expect(calls).to.deep.equal([])
  })

  it('pino writes one line with its own level, time, and message, each once, and the error with its type', () => {
    const lines = pinoLines({ name: 'api' }, (logger) => void write(logger, { ...INPUT, level: 'fatal' }))
    expect(lines).to.have.length(1)
    for (const member of ['level', 'time', 'msg', 'name']) {
      const top = lines[0]?.replace(/"(?:attributes|err)":\{.*?\}(?=,"|\})/g, '')
      expect(top?.split(`"${member}":`), member).to.have.length(2)
    }
    const line = JSON.parse(lines[0] as string)
    expect(line).to.include({
      level: 60,
      name: 'api',
      msg: 'billing.failed',
      service: 'shop',
      version: '1.0.0',
    })
    expect(line).to.include({ sessionId: 'ses_1', environment: 'development' })
    expect(line.actor).to.deep.equal({ type: 'user', id: 'u1' })
    expect(line.attributes).to.deep.equal({ level: 'mine', msg: 'mine', list: [{}] })
    expect(line.err).to.include({ type: 'TypeError', message: 'no password [word]', code: 'E_NO' })
    expect(line.err.stack).to.contain('TypeError: no password [word]\n    at ')
    expectNoSecret(lines, ['hunter2'])
  })

  it('the redaction of pino applies to the attributes of an event, which stay unchanged', () => {
    const lines = pinoLines({ redact: ['attributes.msg', 'attributes.list[*].card'] }, (logger) => {
      const { envelope, stats } = write(logger, { attributes: { msg: 'x', list: [{ card: 1 }] } })
      expect(stats).to.include({ delivered: 1, failed: 0 })
      expect(envelope.attributes).to.deep.equal({ msg: 'x', list: [{ card: 1 }] })
    })
    expect(JSON.parse(lines[0] as string).attributes).to.deep.equal({
      msg: '[Redacted]',
      list: [{ card: '[Redacted]' }],
    })
  })

  it('pino-pretty shows the level, the name, the fields, and the stack of an event', () => {
    const lines = pinoLines({}, (logger) => void write(logger))
    const text = prettyFactory({ colorize: false })(lines[0] as string)
    expect(text).to.match(/ERROR \(\d+\): billing\.failed\n/)
    expect(text).to.contain('service: "shop"').and.contain('TypeError: no password [word]')
    expectNoSecret(text, ['hunter2'])
  })

  it('an audit log does not accept a logger that receives objects', () => {
    const { logger } = recorder()
    const { message } = expectCode('TELEMETRY_CONFIGURATION_INVALID', () =>
      auditBuilder(LoggerTransportAdapter.create({ logger, format: 'object' })),
    )
    expect(message).to.contain("Set format: 'json'")
  })

  it('a logger of lines does not compile with format: object, and one of objects does not without it', () => {
    const lines = { debug(_: string) {}, info(_: string) {}, warn(_: string) {}, error(_: string) {} }
    // @ts-expect-error
    LoggerTransportAdapter.create({ logger: lines, format: 'object' })
    // @ts-expect-error
    LoggerTransportAdapter.create({ logger: recorder().logger })
    LoggerTransportAdapter.create({ logger: pino({ enabled: false }), format: 'object' })
    LoggerTransportAdapter.create({ logger: console, format: 'object' })
  })
})
