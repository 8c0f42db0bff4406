import { expect } from 'chai'
import { InMemoryTransportAdapter, KitTelemetry } from '../../src/telemetry/index.ts'
import { lineTransport } from '../support/telemetry/audit.ts'
import { RecordingLogger } from '../support/telemetry/recording.ts'

const SECRET = 'S3cr3t-0123456789-0123456789-012'

describe('a manager that was built without withSampling', () => {
  const { random } = Math
  afterEach(() => {
    Math.random = random
  })

  /** Emits 20 events of each level, with a draw that drops each event that can be dropped. */
  function warningsOf(shape: (builder: KitTelemetry) => KitTelemetry, levels = ['debug', 'info'] as const) {
    Math.random = () => 0.999
    const logger = new RecordingLogger()
    const manager = shape(
      KitTelemetry.create().withLogger(logger).addTransport(InMemoryTransportAdapter.create()),
    ).build()
    for (let time = 0; time < 20; time++) for (const level of levels) manager.emit('a.b', { level })
    return {
      warnings: logger.warnings.map(({ message }) => message),
      errors: logger.errors,
      stats: manager.stats(),
    }
  }

  it('reports the first event that sampling drops, once, with the name of the option', () => {
    const { warnings, errors, stats } = warningsOf((builder) => builder)
    expect(stats.sampledOut).to.equal(40)
    expect(errors).to.deep.equal([])
    expect(warnings).to.have.length(1)
    expect(warnings[0]).to.contain('sampling').and.contain('withSampling({ infoRate: 1, debugRate: 1 })')
  })

  it('reports it once for each manager', () => {
    const logger = new RecordingLogger()
    Math.random = () => 0.999
    const builder = KitTelemetry.create().withLogger(logger)
    builder.build().emit('a.b')
    builder.build().emit('a.b')
    expect(logger.warnings).to.have.length(2)
  })

  it('reports it to the console without a logger, and does not report it with withLogger(false)', () => {
    Math.random = () => 0.999
    const { error } = console
    const lines: unknown[] = []
    console.error = (line: unknown) => void lines.push(line)
    try {
      for (const builder of [KitTelemetry.create(), KitTelemetry.create().withLogger(false)]) {
        const manager = builder.build()
        for (let time = 0; time < 5; time++) manager.emit('a.b')
      }
    } finally {
      console.error = error
    }
    expect(lines).to.have.length(1)
    expect(lines[0]).to.contain('mcp-gatekit: sampling has dropped an event')
  })

  it('reports an event that only the audit log gets', () => {
    const { warnings } = warningsOf((builder) =>
      builder.withAudit({ transport: lineTransport().transport, names: ['a.*'], secret: SECRET }),
    )
    expect(warnings).to.have.length(1)
  })

  it('reports nothing if sampling drops nothing', () => {
    Math.random = () => 0
    const logger = new RecordingLogger()
    const manager = KitTelemetry.create().withLogger(logger).build()
    for (const level of ['debug', 'info', 'warn', 'error', 'fatal'] as const) manager.emit('a.b', { level })
    expect(logger.warnings).to.deep.equal([])
  })

  for (const [what, policy] of [
    ['an empty policy', {}],
    ['rates', { infoRate: 0.5 }],
    ['the unit session', { unit: 'session' }],
    ['undefined rates', { infoRate: undefined }],
  ] as const) {
    it(`withSampling with ${what} turns the report off`, () => {
      const { warnings, stats } = warningsOf((builder) => builder.withSampling(policy))
      expect(stats.sampledOut).to.be.above(0)
      expect(warnings).to.deep.equal([])
    })
  }
})
