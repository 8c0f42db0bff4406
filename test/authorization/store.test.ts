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
  const clientWith = (reply: unknown) =>
    Object.fromEntries(['get', 'set', 'del', 'getdel'].map((name) => [name, async () => reply])) as never

  for (const [reply, isAdded] of [
    ['OK', true],
    [Buffer.from('OK'), true],
    [null, false],
  ] as const)
    it(`add resolves with ${isAdded} if the client replies with ${String(reply)}`, async () => {
      expect(await redisStore(clientWith(reply)).add('Used:a', '1', MINUTE_MS)).to.equal(isAdded)
    })

  for (const reply of [undefined, 'QUEUED', '', 0, 1, true, false, ['OK'], {}])
    it(`add rejects if the client replies with ${JSON.stringify(reply)}`, async () => {
      const store = redisStore(clientWith(reply))
      const outcome = await store.add('Used:a', '1', MINUTE_MS).catch((error: unknown) => error)
      expect(outcome).to.be.an.instanceof(Error)
    })

  for (const method of ['get', 'take'] as const)
    it(`${method} resolves with the value or with undefined, and rejects for any other reply`, async () => {
      const replyTo = (reply: unknown) =>
        redisStore(clientWith(reply))
          [method]('Grant:a')
          .catch(() => 'rejected')
      for (const [reply, value] of [
        ['value', 'value'],
        [Buffer.from('value'), 'value'],
        [null, undefined],
        [0, 'rejected'],
        [true, 'rejected'],
        [['value'], 'rejected'],
      ] as const)
        expect(await replyTo(reply), JSON.stringify(reply)).to.equal(value)
    })
})
