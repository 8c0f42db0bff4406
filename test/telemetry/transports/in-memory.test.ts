import { expect } from 'chai'
import { InMemoryTransportAdapter, KitTelemetry, MockTelemetryAdapter } from '../../../src/telemetry/index.ts'

for (const [Adapter, type] of [
  [InMemoryTransportAdapter, 'in-memory'],
  [MockTelemetryAdapter, 'mock'],
] as const) {
  describe(Adapter.name, () => {
    it(`${Adapter.name} shows events at once, returns copies of its list, and can be cleared`, () => {
      const adapter = Adapter.create()
      const manager = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(adapter).build()
      expect(adapter.type).to.equal(type)
      manager.emit('a')
      manager.emit('b')
      expect(adapter.getEvents().map(({ name }) => name)).to.deep.equal(['a', 'b'])
      adapter.getEvents().pop()
      expect(adapter.getEvents()).to.have.length(2)
      if (adapter instanceof MockTelemetryAdapter) expect(adapter.getLastEvent()?.name).to.equal('b')
      adapter.clear()
      expect(adapter.getEvents()).to.deep.equal([])
      if (adapter instanceof MockTelemetryAdapter) expect(adapter.getLastEvent()).to.equal(undefined)
    })
  })
}
