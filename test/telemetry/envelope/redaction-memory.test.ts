import { expect } from 'chai'
import { collectedHeap, recording } from '../../support/telemetry/recording.ts'

describe('telemetry: memory of redaction', () => {
  it('redaction keeps a limited number of keys in memory', async () => {
    for (const listed of ['password', 'a.password']) {
      const manager = recording()
        .builder.withRedaction({ denylistKeys: [listed] })
        .build()
      const before = await collectedHeap()
      for (let i = 0; i < 25; i++) {
        const keys = Array.from({ length: 1000 }, (_, j) => [`${i}-${j}-${'x'.repeat(240)}`, {}])
        manager.redact({ a: { password: 1 }, ...Object.fromEntries(keys) })
      }
      expect((await collectedHeap()) - before).to.be.below(3_000_000)
      expect(manager.redact({ a: { password: 1 } })).to.deep.equal({ a: {} })
    }
  })

  it('redaction applies to long keys, which are not cached', async () => {
    for (const listed of ['password', 'a.password']) {
      const { builder, memory, events } = recording()
      const manager = builder.withRedaction({ denylistKeys: [listed] }).build()
      const before = await collectedHeap()
      for (let i = 0; i < 100; i++) {
        memory.clear()
        const long = `${'x'.repeat(250_000)}${i}`
        manager.emit('x', {
          attributes: { [`${long}.${listed}`]: 1, [long]: { a: { password: 2, c: 3 } } },
        })
        expect(Object.values(events()[0]?.attributes ?? {})).to.deep.equal([{ a: { c: 3 } }])
      }
      memory.clear()
      expect((await collectedHeap()) - before).to.be.below(25_000_000)
      expect(manager.stats().emitted).to.equal(100)
    }
  })
})
