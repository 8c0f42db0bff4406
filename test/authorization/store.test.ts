import { expect } from 'chai'
import { memoryStore, redisStore } from '../../src/authorization/index.ts'

const MINUTE_MS = 60_000

describe('memoryStore', () => {
  it('removes the oldest values of a kind that has 64 MiB, and none of another kind', async () => {
    const store = memoryStore()
    const large = 'x'.repeat(1_048_576)
    await store.set('Grant:a', 'kept', MINUTE_MS)
    for (let index = 0; index < 70; index++) await store.set(`NewClient:${index}`, large, MINUTE_MS)
    expect(await store.get('NewClient:0')).to.equal(undefined)
    expect(await store.get('NewClient:69')).to.equal(large)
    expect(await store.get('Grant:a')).to.equal('kept')
  })
})

describe('redisStore', () => {
  for (const [reply, isAdded] of [
    ['OK', true],
    [Buffer.from('OK'), true],
    [null, false],
    [undefined, false],
    ['QUEUED', false],
  ] as const)
    it(`add resolves with ${isAdded} if the client replies with ${String(reply)}`, async () => {
      const client = {
        get: async () => null,
        set: async () => reply,
        del: async () => 0,
        getdel: async () => null,
      }
      expect(await redisStore(client).add('Used:a', '1', MINUTE_MS)).to.equal(isAdded)
    })
})
