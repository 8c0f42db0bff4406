import { expect } from 'chai'
import { type AuthorizationStore, memoryStore } from '../../src/authorization/index.ts'
import { Records } from '../../src/authorization/records.ts'

describe('Records', () => {
  const minute = 60

  it('add removes a record that the store stores after it was given up', async function () {
    this.timeout(60_000)
    const inner = memoryStore()
    let applied: (() => void) | undefined
    const hung = new Promise<void>((resolve) => {
      applied = resolve
    })
    const deleted: string[] = []
    const store: AuthorizationStore = {
      ...inner,
      add: async (...args) => {
        await hung
        return await inner.add(...args)
      },
      delete: async (key) => {
        await inner.delete(key)
        deleted.push(key)
      },
    }
    const records = new Records(store, ['x'.repeat(32)])
    const error = await records.add('UsedCode', 'a', true, minute).catch((reason: Error) => reason)
    expect((error as Error).message).to.equal('temporarily_unavailable')
    applied?.()
    while (deleted.length === 0) await new Promise(setImmediate)
    expect(await new Records(inner, ['x'.repeat(32)]).add('UsedCode', 'a', true, minute)).to.equal(true)
  })

  it('add resolves with false if another record is stored, also if the reply of the store was lost', async () => {
    const inner = memoryStore()
    const records = new Records(inner, ['x'.repeat(32)])
    await records.add('UsedCode', 'a', true, minute)
    expect(await records.add('UsedCode', 'a', true, minute)).to.equal(false)
  })

  it('add resolves with true if the client sent the command again after its reply was lost', async () => {
    const inner = memoryStore()
    const store = {
      ...inner,
      add: async (...args: Parameters<AuthorizationStore['add']>) => {
        await inner.add(...args)
        return await inner.add(...args)
      },
    }
    expect(await new Records(store, ['x'.repeat(32)]).add('UsedCode', 'a', true, minute)).to.equal(true)
  })
})
