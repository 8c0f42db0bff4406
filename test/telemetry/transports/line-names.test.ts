import { expect } from 'chai'
import { KitTelemetry, LoggerTransportAdapter, type TelemetryEnvelope } from '../../../src/telemetry/index.ts'
import { expectCode } from '../../support/telemetry/recording.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

const TRACE = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), flags: 1 }
const EVENT: TelemetryEnvelope = {
  name: 'billing.failed',
  time: '2026-01-02T12:00:00.000Z',
  level: 'fatal',
  service: 'billing',
  environment: 'production',
  version: '1.4.0',
  sessionId: 'ses_1',
  actor: { type: 'user', id: 'u1' },
  attributes: { severity: 'forged', 'log.level': 'forged\u2028', message: 'forged' },
  error: {
    name: 'TypeError',
    message: 'no',
    code: 'E1',
    stack: 'TypeError: no\n    at a',
    attributes: { status: 5 },
  },
  source: { file: 'a.ts', line: 3, causer: 'pay' },
  trace: TRACE,
}

function lineOf(options: Wrong, envelope: TelemetryEnvelope = EVENT): string {
  const lines: string[] = []
  const write = (line: string) => void lines.push(line)
  const logger = { debug: write, info: write, warn: write, error: write }
  void LoggerTransportAdapter.create({ logger, format: 'json', ...options }).handle(envelope)
  return lines[0] as string
}

describe('LoggerTransportAdapter with names', () => {
  afterEach(() => {
    delete process.env.GOOGLE_CLOUD_PROJECT
  })

  it('LoggerTransportAdapter writes the fields of Google Cloud', () => {
    const { sessionId, actor, attributes, source, service, environment, version } = EVENT
    const line = lineOf({ names: 'google-cloud' })
    expect(line).not.to.match(/[\n\u2028]/)
    expect(JSON.parse(line)).to.deep.equal({
      severity: 'CRITICAL',
      message: 'billing.failed',
      time: EVENT.time,
      'logging.googleapis.com/trace': TRACE.traceId,
      'logging.googleapis.com/spanId': TRACE.spanId,
      'logging.googleapis.com/trace_sampled': true,
      ...{ service, environment, version, sessionId, actor, attributes, source },
      error: { name: 'TypeError', message: 'no', code: 'E1', attributes: { status: 5 } },
      stack_trace: 'TypeError: no\n    at a',
    })
    process.env.GOOGLE_CLOUD_PROJECT = 'shop'
    expect(JSON.parse(lineOf({ names: 'google-cloud' }))['logging.googleapis.com/trace']).to.equal(
      `projects/shop/traces/${TRACE.traceId}`,
    )
  })

  it('LoggerTransportAdapter writes the fields of the Elastic Common Schema', () => {
    const { sessionId, actor, attributes } = EVENT
    expect(JSON.parse(lineOf({ names: 'ecs' }))).to.deep.equal({
      '@timestamp': EVENT.time,
      'log.level': 'fatal',
      message: 'billing.failed',
      'ecs.version': '8.11.0',
      'service.name': 'billing',
      'service.environment': 'production',
      'service.version': '1.4.0',
      'trace.id': TRACE.traceId,
      'span.id': TRACE.spanId,
      'error.type': 'TypeError',
      'error.message': 'no',
      'error.code': 'E1',
      'error.stack_trace': 'TypeError: no\n    at a',
      'error.attributes': { status: 5 },
      'log.origin.file.name': 'a.ts',
      'log.origin.file.line': 3,
      'log.origin.function': 'pay',
      ...{ sessionId, actor, attributes },
    })
  })

  for (const [level, severity] of Object.entries({
    debug: 'DEBUG',
    info: 'INFO',
    warn: 'WARNING',
    error: 'ERROR',
  })) {
    it(`LoggerTransportAdapter writes the severity ${severity} for ${level}, without members that are missing`, () => {
      const { name, time, service, environment, sessionId } = EVENT
      const bare: Wrong = { name, time, level, service, environment, sessionId }
      expect(JSON.parse(lineOf({ names: 'google-cloud', includeTimestamp: false }, bare))).to.deep.equal({
        severity,
        message: name,
        ...{ service, environment, sessionId },
      })
      expect(Object.keys(JSON.parse(lineOf({ names: 'ecs', includeTimestamp: false }, bare)))).to.deep.equal([
        'log.level',
        'message',
        'ecs.version',
        'service.name',
        'service.environment',
        'sessionId',
      ])
    })
  }

  it('names is only for the format json, and not for an audit log', () => {
    for (const options of [
      { names: 'ecs', format: 'pretty' },
      { names: 'ecs', format: undefined },
    ])
      expect(expectCode('TELEMETRY_CONFIGURATION_INVALID', () => lineOf(options)).message).to.include(
        "can be used only with format: 'json'",
      )
    expect(
      expectCode('TELEMETRY_CONFIGURATION_INVALID', () => lineOf({ names: 'datadog' })).message,
    ).to.include("must be 'google-cloud' or 'ecs'")
    const transport = LoggerTransportAdapter.create({ logger: console, format: 'json', names: 'ecs' })
    expectCode('TELEMETRY_CONFIGURATION_INVALID', () =>
      KitTelemetry.create().withAudit({ transport, names: ['*'], secret: 'k'.repeat(32) }),
    )
  })

  for (const [what, isTTY, noColor, colored] of [
    ['a terminal', true, undefined, true],
    ['a terminal with an empty NO_COLOR', true, '', true],
    ['a terminal with NO_COLOR', true, '1', false],
    ['no terminal', undefined, undefined, false],
  ] as const) {
    it(`LoggerTransportAdapter writes pretty lines of console to ${what} ${colored ? 'with' : 'without'} colors`, () => {
      const written: string[] = []
      const { error } = console
      const before = { isTTY: process.stderr.isTTY, noColor: process.env.NO_COLOR }
      const set = (tty: Wrong, value: string | undefined) => {
        process.stderr.isTTY = tty
        delete process.env.NO_COLOR
        if (value !== undefined) process.env.NO_COLOR = value
      }
      try {
        set(isTTY, noColor)
        console.error = (line: string) => void written.push(line)
        void LoggerTransportAdapter.create({ logger: console }).handle(EVENT)
        written.push(lineOf({ format: 'pretty' }))
      } finally {
        console.error = error
        set(before.isTTY, before.noColor)
      }
      expect(written[0]?.includes('\u001b[35mFATAL\u001b[39m')).to.equal(colored)
      expect(written[0]?.includes('\u001b[90m\n      at a\u001b[39m')).to.equal(colored)
      expect(written[0]).to.include('TypeError: no').and.to.include('\n      at a')
      expect(written[1]).not.to.include('\u001b')
    })
  }
})
