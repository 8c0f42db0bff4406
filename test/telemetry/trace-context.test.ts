import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { context, type Span, TraceFlags, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { AlwaysOffSampler, BasicTracerProvider } from '@opentelemetry/sdk-trace-base'
import { expect } from 'chai'
import {
  auditFile,
  HttpTransportAdapter,
  KitTelemetry,
  LoggerTransportAdapter,
  StoreStreamTransportAdapter,
  verifyAudit,
} from '../../src/telemetry/index.ts'
import { listen } from '../support/listen.ts'
import { recording } from '../support/telemetry/recording.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

const SECRET = 'k'.repeat(32)

function linesOf(options: Wrong, work: (manager: Wrong) => void): Wrong[] {
  const lines: Wrong[] = []
  const write = (line: Wrong) => void lines.push(line)
  const logger = { debug: write, info: write, warn: write, error: write }
  work(
    KitTelemetry.create()
      .withSampling({ infoRate: 1 })
      .withTraceContext()
      .addTransport(LoggerTransportAdapter.create({ logger, ...options }))
      .build(),
  )
  return lines
}

describe('withTraceContext', () => {
  before(() => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  })
  after(() => {
    context.disable()
    trace.disable()
  })

  const inSpan = (work: (span: Span) => void, options = {}) =>
    new BasicTracerProvider(options).getTracer('test').startActiveSpan('work', (span) => {
      // Without a registered provider, the active span is set by hand.
      context.with(trace.setSpan(context.active(), span), () => work(span))
      span.end()
    })
  const expected = (span: Span) => ({
    traceId: span.spanContext().traceId,
    spanId: span.spanContext().spanId,
    flags: span.spanContext().traceFlags,
  })

  it('withTraceContext adds the ids of the active span, also to events of a session and in a task', () => {
    const { builder, events } = recording()
    const manager = builder.withTraceContext().build()
    inSpan((span) => {
      manager.emit('a')
      manager.session().emit('b', { attributes: { n: 1 }, error: new Error('x') })
      expect(events().map((event) => event.trace)).to.deep.equal([expected(span), expected(span)])
      expect(events().every((event) => Object.isFrozen(event.trace))).to.equal(true)
      expect(events()[0]?.trace?.flags).to.equal(TraceFlags.SAMPLED)
    })
  })

  const without: readonly (readonly [what: string, work: (emit: () => void) => void])[] = [
    ['without a span', (emit) => emit()],
    [
      'with a span whose ids are zeros',
      (emit) =>
        context.with(
          trace.setSpan(
            context.active(),
            trace.wrapSpanContext({ traceId: '0'.repeat(32), spanId: '0'.repeat(16), traceFlags: 0 }),
          ),
          emit,
        ),
    ],
    [
      'with a span whose ids are not hexadecimal',
      (emit) =>
        context.with(
          trace.setSpan(
            context.active(),
            trace.wrapSpanContext({ traceId: 'x'.repeat(32), spanId: '1'.repeat(16), traceFlags: 0 }),
          ),
          emit,
        ),
    ],
    [
      'with a span that throws',
      (emit) =>
        context.with(trace.setSpan(context.active(), { spanContext: () => JSON.parse('{') } as Wrong), emit),
    ],
  ]
  for (const [what, work] of without) {
    it(`withTraceContext leaves trace out ${what}`, () => {
      const { builder, logger, events } = recording()
      const manager = builder.withTraceContext().build()
      work(() => manager.emit('a'))
      expect(events().map((event) => 'trace' in event)).to.deep.equal([false])
      expect(logger.codes).to.deep.equal([])
    })
  }

  it('without withTraceContext, events have no trace', () => {
    const { builder, events } = recording()
    const manager = builder.build()
    inSpan(() => manager.emit('a'))
    expect('trace' in (events()[0] as object)).to.equal(false)
  })

  for (const format of ['json', 'pino', 'object']) {
    it(`withTraceContext writes the ids at the top level of a line in the format ${format}`, () => {
      inSpan((span) => {
        const [line] = linesOf({ format }, (manager) =>
          manager.emit('a', { attributes: { trace_id: 'forged' } }),
        )
        const fields = typeof line === 'string' ? JSON.parse(line) : line
        expect(fields).to.deep.include({
          trace_id: span.spanContext().traceId,
          span_id: span.spanContext().spanId,
          trace_flags: '01',
        })
        expect(fields).not.to.have.property('trace')
      })
    })
  }

  it('withTraceContext writes the ids in a pretty line, and the flags of a span that is not sampled', () => {
    inSpan(
      (span) => {
        const { traceId, spanId } = span.spanContext()
        const [line] = linesOf({ format: 'pretty' }, (manager) => manager.emit('a', { sessionId: 's' }))
        expect(line)
          .to.match(/ INFO a session=s /)
          .and.to.include(`trace_id=${traceId} span_id=${spanId} trace_flags=00`)
      },
      { sampler: new AlwaysOffSampler() },
    )
  })

  it('withTraceContext gives trace to HTTP, to Redis, and to an audit log that verifies', async () => {
    const bodies: Wrong[] = []
    const { origin } = await listen((req, res) => {
      let body = ''
      req.on('data', (chunk) => {
        body += chunk
      })
      req.on('end', () => {
        bodies.push(JSON.parse(body))
        res.end()
      })
    })
    const added: Wrong[] = []
    const folder = mkdtempSync(join(tmpdir(), 'tele-'))
    const lines: string[] = []
    const write = (line: string) => void lines.push(line)
    const logger = { debug: write, info: write, warn: write, error: write }
    const audits = {
      logger: LoggerTransportAdapter.create({ logger, format: 'json' }),
      file: auditFile(join(folder, 'audit.log')),
    }
    for (const transport of Object.values(audits)) {
      const manager = KitTelemetry.create()
        .withSampling({ infoRate: 1 })
        .withTraceContext()
        .addTransport(HttpTransportAdapter.create({ url: origin }))
        .addTransport(
          StoreStreamTransportAdapter.create({
            store: { xadd: async (...args: Wrong[]) => void added.push(JSON.parse(args.at(-1))) },
          }),
        )
        .withAudit({ transport, names: ['a'], secret: SECRET })
        .build()
      inSpan(() => manager.emit('a'))
      await manager.shutdown()
    }
    for (const event of [...bodies, ...added])
      expect(event.trace).to.have.keys(['traceId', 'spanId', 'flags'])
    expect(bodies.length + added.length).to.equal(4)
    expect(JSON.parse(lines[1] as string).trace).to.have.keys(['traceId', 'spanId', 'flags'])
    expect(await verifyAudit(lines, SECRET)).to.deep.equal({ valid: true, events: 1 })
    const { readFileSync } = await import('node:fs')
    expect(
      await verifyAudit(readFileSync(join(folder, 'audit.log'), 'utf8').trimEnd().split('\n'), SECRET),
    ).to.deep.equal({ valid: true, events: 1 })
    rmSync(folder, { recursive: true })
  })

  it('withTraceContext without @opentelemetry/api is a configuration error with the command that installs it', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tele-'))
    const root = fileURLToPath(new URL('../../', import.meta.url))
    try {
      cpSync(join(root, 'src'), join(folder, 'kit', 'src'), { recursive: true })
      mkdirSync(join(folder, 'kit', 'node_modules', '@standard-schema'), { recursive: true })
      writeFileSync(join(folder, 'kit', 'package.json'), '{"type":"module","version":"0.0.0"}')
      for (const name of ['jose', 'lru-cache', 'fastest-levenshtein'])
        symlinkSync(
          fileURLToPath(new URL(`../../../node_modules/${name}`, import.meta.url)),
          join(folder, 'kit', 'node_modules', name),
        )
      const program = `
        const { KitTelemetry } = await import('./src/telemetry/index.js')
        try { KitTelemetry.create().withTraceContext() } catch (error) { console.log(error.code, error.message) }`
      const output = execFileSync(process.execPath, ['--input-type=module', '--eval', program], {
        cwd: join(folder, 'kit'),
        encoding: 'utf8',
      })
      expect(output).to.match(
        /^TELEMETRY_CONFIGURATION_INVALID withTraceContext\(\) needs @opentelemetry\/api, which is not installed\. Run npm install @opentelemetry\/api\./,
      )
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
