import { expect } from 'chai'
import { KitTelemetry, LoggerTransportAdapter } from '../../../src/telemetry/index.ts'
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
})
