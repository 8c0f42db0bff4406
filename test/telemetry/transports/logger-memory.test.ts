import { expect } from 'chai'
import { KitTelemetry, LoggerTransportAdapter } from '../../../src/telemetry/index.ts'
import { JsonLineWriter } from '../../../src/telemetry/transports/json-line.ts'
import { collectedHeap } from '../../support/telemetry/recording.ts'

describe('telemetry: memory of LoggerTransportAdapter', () => {
  it('LoggerTransportAdapter keeps the JSON of a limited number of keys in memory', async () => {
    const logger = { debug() {}, info() {}, warn() {}, error() {} }
    const adapter = LoggerTransportAdapter.create({ logger, format: 'json' })
    const manager = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(adapter).build()
    const before = await collectedHeap()
    for (let index = 0; index < 20; index++) {
      const keys = Array.from({ length: 1000 }, (_, key) => [`${index}-${key}-${'x'.repeat(200)}`, 1])
      manager.emit('x', { attributes: Object.fromEntries(keys) })
    }
    expect((await collectedHeap()) - before).to.be.below(4_000_000)
    expect(manager.stats().transports[0]?.delivered).to.equal(20)
  })

  it('JSON of LoggerTransportAdapter equals JSON.stringify for long keys, which are not cached', async () => {
    const lines: string[] = []
    const logger = { debug() {}, info: (line: string) => lines.push(line), warn() {}, error() {} }
    const adapter = LoggerTransportAdapter.create({ logger, format: 'json' })
    const manager = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(adapter).build()
    const before = await collectedHeap()
    for (let index = 0; index < 100; index++) {
      const long = `${'x'.repeat(100_000)}${index}`
      manager.emit('x', { attributes: { [long]: 1 } })
      expect(JSON.parse(lines.pop() as string).attributes).to.deep.equal({ [long]: 1 })
    }
    expect((await collectedHeap()) - before).to.be.below(25_000_000)
    expect(manager.stats().transports[0]?.delivered).to.equal(100)
  })

  it('JsonLineWriter keeps the JSON of a limited number of levels in memory', async () => {
    const writer = new JsonLineWriter(true)
    const about = { service: 's', environment: 'e', sessionId: 'ses' }
    const before = await collectedHeap()
    // A manager sets one of five levels. An envelope of another program may have any.
    for (let index = 0; index < 200; index++) {
      const level = `${'x'.repeat(200_000)}${index}` as never
      const envelope = { name: 'x', time: '2026-01-02T12:00:00.000Z', level, ...about }
      expect(JSON.parse(writer.write(envelope))).to.deep.equal(envelope)
    }
    expect((await collectedHeap()) - before).to.be.below(10_000_000)
  })
})
