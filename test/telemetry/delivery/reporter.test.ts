import { expect } from 'chai'
import { Reporter } from '../../../src/telemetry/delivery/reporter.ts'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  KitTelemetryError,
  LoggerTransportAdapter,
} from '../../../src/telemetry/index.ts'
import { RecordingLogger, settle } from '../../support/telemetry/recording.ts'

const SECRET = 'secret-of-the-target'

/** Returns the lines that are written to `console.error` while `work` runs. */
async function written(work: () => unknown): Promise<string[]> {
  const { error } = console
  const lines: string[] = []
  console.error = (...texts: unknown[]) => {
    expect(texts).to.have.lengthOf(1)
    lines.push(String(texts[0]))
  }
  try {
    await work()
  } finally {
    console.error = error
  }
  return lines
}

const failing = (type: string) => ({
  type,
  handle() {
    throw Object.assign(new Error(SECRET, { cause: SECRET }), { code: 'ECONNREFUSED' })
  },
})

/** A manager that keeps every event. */
const builder = () => KitTelemetry.create().withSampling({ debugRate: 1, infoRate: 1 })

describe('default diagnostics', () => {
  it('default diagnostics write each kind of problem once, by code and transport', async () => {
    const lines = await written(async () => {
      const manager = builder()
        .addTransport(failing('one'))
        .addTransport(failing('two'))
        .addTransport({
          type: 'three',
          init: () => Promise.reject(new Error(SECRET)),
          handle: () => undefined,
        })
        .addTransport({
          type: 'four',
          init: () => Promise.reject(new Error(SECRET)),
          handle: () => undefined,
        })
        .build()
      await settle()
      for (let index = 0; index < 10; index++) {
        manager.emit('x', { attributes: { secret: SECRET } })
        manager.emit('x', { level: 'none' as never })
        manager.emit('x', { time: SECRET })
      }
      await manager.shutdown()
      manager.emit('x')
      manager.emit('x')
    })
    const kinds = lines.map((line) => /^mcp-gatekit: (\S+): (?:transport "(\w+)")?/.exec(line)?.slice(1))
    expect(kinds).to.deep.equal([
      ['TELEMETRY_TRANSPORT_INIT_FAILED', 'three'],
      ['TELEMETRY_TRANSPORT_INIT_FAILED', 'four'],
      ['TELEMETRY_TRANSPORT_FAILED', 'one'],
      ['TELEMETRY_TRANSPORT_FAILED', 'two'],
      ['TELEMETRY_EMIT_FAILED', undefined],
      ['TELEMETRY_EMIT_FAILED', undefined],
      ['TELEMETRY_RUNTIME_NOT_INITIALIZED', undefined],
    ])
    expect(lines.join()).not.to.contain(SECRET)
    for (const line of lines) expect(line).to.contain('withLogger()').and.not.contain('\n')
  })

  it('default diagnostics write warnings of dropped and pending events once for each transport', async () => {
    const lines = await written(async () => {
      const stuck = (type: string) => ({ type, handle: () => new Promise<void>(() => undefined) })
      const manager = builder()
        .addTransport(stuck('one'), { maxPending: 1 })
        .addTransport(stuck('two'), { maxPending: 2 })
        .build()
      for (let index = 0; index < 10; index++) manager.emit('x', { level: 'error' })
      await manager.shutdown({ timeoutMs: 1 })
    })
    const kinds = lines.map((line) => line.replace(/^mcp-gatekit: transport "(\w+)" (.*?) \d.*$/, '$1 $2'))
    expect(kinds).to.have.members([
      'one has dropped',
      'two has dropped',
      'one was shut down with',
      'two was shut down with',
    ])
  })

  for (const [member, input, expected] of [
    ['level', { level: 'warning' }, "received 'warning', so it is info. Did you mean 'warn'?"],
    ['actor', { actor: 'u1' }, 'actor must be an object with a type; received a string of 2 characters.'],
    ['scope', { scope: 'o1' }, 'scope must be an object with a type; received a string of 2 characters.'],
    ['source', { source: SECRET }, 'source must be an object; received a string'],
  ] as const) {
    it(`an invalid ${member} is written once, although others are invalid`, async () => {
      const lines = await written(() => {
        const manager = KitTelemetry.create().withSampling({ infoRate: 1 }).build()
        manager.emit('x', { sessionId: true as never, level: 'fatal' })
        for (let index = 0; index < 5; index++) manager.emit('x', input as never)
        expect(manager.stats().emitted).to.equal(6)
      })
      expect(lines).to.have.lengthOf(2)
      expect(lines[1]).to.contain(expected).and.to.contain('npx mcp-gatekit explain telemetry_emit_failed')
      expect(lines[1]).not.to.contain(SECRET)
    })
  }

  it('default diagnostics are written anew for each manager', async () => {
    const lines = await written(() => {
      for (let index = 0; index < 3; index++) builder().addTransport(failing('one')).build().emit('x')
    })
    expect(lines).to.have.lengthOf(3)
  })

  it('default diagnostics are off after withLogger(false), and with a logger', async () => {
    const logger = new RecordingLogger()
    const lines = await written(async () => {
      for (const off of [false, logger] as const) {
        const manager = builder().withLogger(off).addTransport(failing('one')).build()
        manager.emit('x')
        manager.emit('x', { time: 'x' })
        await manager.shutdown()
      }
    })
    expect(lines).to.deep.equal([])
    expect(logger.codes).to.deep.equal(['TELEMETRY_TRANSPORT_FAILED'])
  })

  it('default diagnostics are on again after the logger is left out of a copy of the configuration', () => {
    expect(builder().buildConfig()).not.to.have.property('logger')
    expect(builder().withLogger(false).buildConfig().logger).to.equal(false)
    expect(builder().withLogger(false).withLogger(console).buildConfig().logger).to.equal(console)
  })

  it('default diagnostics write nothing while everything works', async () => {
    const lines = await written(async () => {
      const manager = builder().addTransport(InMemoryTransportAdapter.create()).build()
      await manager.session().run(() => manager.emit('x'))
      await manager.shutdown()
    })
    expect(lines).to.deep.equal([])
  })

  it('default diagnostics do not fail with a console that throws, or with one that is a transport itself', async () => {
    const { error } = console
    console.error = () => {
      throw new Error('no console')
    }
    try {
      builder().addTransport(failing('one')).build().emit('x')
      const transport = LoggerTransportAdapter.create({ logger: console })
      builder().addTransport(transport).build().emit('x', { level: 'error' })
    } finally {
      console.error = error
    }
  })

  it('the number of messages of default diagnostics is bounded', async () => {
    const lines = await written(() => {
      const reporter = new Reporter(undefined)
      for (let index = 0; index < 1_000; index++) reporter.warning(`warning ${index}`)
      for (let index = 0; index < 1_000; index++)
        reporter.error(new KitTelemetryError('TELEMETRY_TRANSPORT_FAILED', 'x'), {})
    })
    expect(lines).to.have.lengthOf(100)
  })
})
