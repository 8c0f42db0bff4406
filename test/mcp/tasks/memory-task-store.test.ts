import { expect } from 'chai'
import { memoryTaskStore } from '../../../src/mcp/tasks/memory-task-store.ts'

/** A task takes 512 bytes and 2 for each character. */
const BYTES = 712
const TEXT = 'x'.repeat(100)

const key = (id: number) => ({ owner: 'ada', id: String(id) }) as never
const settings = (countedFor: string, expiresAtMs = Date.now() + 60_000) => ({
  expiresAtMs,
  countedFor,
  max: 9,
})

describe('memoryTaskStore()', () => {
  for (const [limit, options] of [
    ['maxBytes', { maxBytesPerOwner: 1_000_000 }],
    ['maxBytesPerOwner', { maxBytes: 1_000_000 }],
  ] as const) {
    it(`three tasks fit into ${limit} of exactly their size, and two into one byte less`, async () => {
      for (const [bytes, last] of [
        [3 * BYTES, 'added'],
        [3 * BYTES - 1, 'store-full'],
      ] as const) {
        const store = memoryTaskStore({ ...options, [limit]: bytes })
        for (const id of [1, 2]) expect(await store.add(key(id), TEXT, settings('ada'))).to.equal('added')
        expect(await store.add(key(3), TEXT, settings('ada'))).to.equal(last)
        const other = await store.add(key(4), TEXT, settings('bob'))
        expect(other).to.equal(limit === 'maxBytes' ? 'store-full' : 'added')
      }
    })

    it(`a longer value of a task fits into ${limit} of exactly its size, and not into one byte less`, async () => {
      for (const [bytes, outcome] of [
        [BYTES + 2, 'replaced'],
        [BYTES + 1, 'store-full'],
      ] as const) {
        const store = memoryTaskStore({ ...options, [limit]: bytes })
        await store.add(key(1), TEXT, settings('ada'))
        expect(await store.replace(key(1), 1, `${TEXT}x`)).to.equal(outcome)
        expect((await store.get(key(1)))?.version).to.equal(outcome === 'replaced' ? 2 : 1)
      }
    })

    it(`the memory of a task that has expired, or is replaced by a shorter one, is free for others within ${limit}`, async () => {
      const store = memoryTaskStore({ ...options, [limit]: 2 * BYTES })
      await store.add(key(1), TEXT, settings('ada', Date.now() - 1))
      for (const id of [2, 3]) expect(await store.add(key(id), TEXT, settings('ada'))).to.equal('added')
      expect(await store.replace(key(2), 1, TEXT.slice(1))).to.equal('replaced')
      expect(await store.replace(key(3), 1, `${TEXT}x`)).to.equal('replaced')
      expect(await store.replace(key(3), 2, `${TEXT}xx`)).to.equal('store-full')
    })
  }
})
