import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { pack } from '../support/packed.ts'
import type { InstrumentedReport, InstrumentedSetup, ReportedSpan } from './instrumented-program.ts'

const run = promisify(execFile)
const program = fileURLToPath(new URL('./instrumented-program.js', import.meta.url))

/** The newest versions that run on Node 20.19. They are not dependencies of this project. */
const PACKAGES = {
  sentry: ['@sentry/node@^11.12.0'],
  opentelemetry: [
    '@opentelemetry/api@~1.9.0',
    '@opentelemetry/sdk-trace-base@^2.12.0',
    '@opentelemetry/sdk-trace-node@^2.12.0',
    '@opentelemetry/instrumentation@^0.223.0',
    '@opentelemetry/instrumentation-http@^0.223.0',
    '@opentelemetry/instrumentation-express@~0.71.1',
  ],
} as const

const SENTRY = 'auto.function.mcp_server'
/** Spans of the API of OpenTelemetry have this origin at Sentry. */
const OWN = { sentry: 'manual', opentelemetry: 'mcp-gatekit' } as const
const HTTP = {
  sentry: 'auto.http.http_server',
  opentelemetry: '@opentelemetry/instrumentation-http',
} as const

const CALLER = { traceId: '1af7651916cd43dd8448eb211c80319c', spanId: 'c7ad6b7169203331' }
const traceparent = `00-${CALLER.traceId}-${CALLER.spanId}-01`
const withOtel = { enableOpenTelemetrySetup: true }

interface Case {
  readonly title: string
  readonly setup: InstrumentedSetup
  /** The instrumentations that have recorded a span of the call. */
  readonly recordedBy: readonly string[]
}

const CASES: readonly Case[] = [
  {
    title: 'Sentry without its setup of OpenTelemetry records no MCP span for a KitMcpRouter',
    setup: { instrumentation: 'sentry' },
    recordedBy: [],
  },
  {
    title: 'Sentry with its setup of OpenTelemetry shows the span of this package for a KitMcpRouter',
    setup: { instrumentation: 'sentry', sentry: withOtel },
    recordedBy: [OWN.sentry],
  },
  {
    title: 'Sentry without its setup of OpenTelemetry records the span of a server of the SDK itself',
    setup: { instrumentation: 'sentry', isFunction: true },
    recordedBy: [SENTRY],
  },
  {
    title: 'Sentry with its setup of OpenTelemetry shows both spans of a server of the SDK',
    setup: { instrumentation: 'sentry', sentry: withOtel, isFunction: true },
    recordedBy: [SENTRY, OWN.sentry],
  },
  {
    title: 'Sentry records the only span of a server of the SDK with recordSpans: false',
    setup: {
      instrumentation: 'sentry',
      sentry: withOtel,
      isFunction: true,
      adapter: { recordSpans: false },
    },
    recordedBy: [SENTRY],
  },
  {
    title: 'the instrumentations of OpenTelemetry leave one span for a KitMcpRouter',
    setup: { instrumentation: 'opentelemetry' },
    recordedBy: [OWN.opentelemetry],
  },
  {
    title: 'the instrumentations of OpenTelemetry leave one span for a server of the SDK',
    setup: { instrumentation: 'opentelemetry', isFunction: true },
    recordedBy: [OWN.opentelemetry],
  },
  {
    title: 'the instrumentations of OpenTelemetry leave no MCP span with recordSpans: false',
    setup: { instrumentation: 'opentelemetry', adapter: { recordSpans: false } },
    recordedBy: [],
  },
  {
    title: 'a caller that sends its trace does not replace the HTTP span with recordSpans: false',
    setup: { instrumentation: 'opentelemetry', adapter: { recordSpans: false }, traceparent },
    recordedBy: [],
  },
]

describe('a server next to another instrumentation', function () {
  this.timeout(300_000)
  let scratch: string
  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'instrumented-'))
    const { tarball } = await pack(scratch)
    for (const [name, packages] of Object.entries(PACKAGES)) {
      const folder = join(scratch, name)
      await mkdir(folder)
      await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}')
      const own = ['@modelcontextprotocol/server@^2.4.0', 'express@^5.0.0', 'zod@^4.0.0', tarball]
      await run('npm', ['install', '--no-audit', '--no-fund', ...own, ...packages], { cwd: folder })
      await copyFile(program, join(folder, 'program.js'))
    }
  })
  after(() => rm(scratch, { recursive: true, force: true }))

  /** Runs the program. Returns the spans of the call, and those around it. */
  async function report(setup: InstrumentedSetup) {
    const cwd = join(scratch, setup.instrumentation)
    const { stdout } = await run(process.execPath, ['program.js', JSON.stringify(setup)], { cwd })
    const { status, spans, sent }: InstrumentedReport = JSON.parse(stdout.trim().split('\n').at(-1) as string)
    expect(status).to.equal(200)
    const mcp = spans.filter(({ name }) => name === 'tools/call work')
    const http = spans.find(
      ({ by, parentId }) => by === HTTP[setup.instrumentation] && parentId === undefined,
    )
    const header = sent['sentry-trace'] ?? sent.traceparent?.slice(3) ?? ''
    const [, traceId, spanId] = /^(\w{32})-(\w{16})/.exec(header) ?? []
    const outgoing = spans.find((span) => span.spanId === spanId)
    expect(outgoing, 'the span that the upstream server receives').to.include({ traceId })
    return { spans, mcp, http: http as ReportedSpan, outgoing: outgoing as ReportedSpan }
  }

  /** Returns the ids of a span and of all spans above it. */
  function pathOf(span: ReportedSpan, spans: readonly ReportedSpan[]): string[] {
    const parent = spans.find(({ spanId }) => spanId === span.parentId)
    return [span.spanId, ...(parent === undefined ? [] : pathOf(parent, spans))]
  }

  for (const { title, setup, recordedBy } of CASES) {
    it(`${title}, below the HTTP span and above the outgoing call`, async () => {
      const { spans, mcp, http, outgoing } = await report(setup)
      expect(mcp.map(({ by }) => by)).to.have.members(recordedBy)
      const path = pathOf(outgoing, spans)
      expect(path.at(-1)).to.equal(http.spanId)
      for (const span of mcp) {
        expect(path).to.include(span.spanId)
        expect(span.linked).to.deep.equal([])
      }
    })
  }

  it('the span of this package belongs to the trace of the caller, and is linked to the span around it', async () => {
    const { spans, mcp, http, outgoing } = await report({ instrumentation: 'opentelemetry', traceparent })
    const [own, ...others] = mcp
    expect(others).to.deep.equal([])
    expect(own).to.include({ traceId: CALLER.traceId, parentId: CALLER.spanId })
    expect(outgoing).to.include({ traceId: CALLER.traceId, parentId: own?.spanId })
    const around = spans.find(({ spanId }) => spanId === own?.linked[0])
    expect(pathOf(around as ReportedSpan, spans).at(-1)).to.equal(http.spanId)
  })
})
