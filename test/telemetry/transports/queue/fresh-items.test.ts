import { expect } from 'chai'
import type { Queued } from '../../../../src/telemetry/transports/queue/batch.ts'
import { FreshItems } from '../../../../src/telemetry/transports/queue/fresh-items.ts'

const failure = { reason: 'it is too large' }

const queued = (item: number, weight: number, addedMs = 0): Queued<number> => ({
  item,
  weight,
  addedMs,
  generation: {} as Queued<number>['generation'],
  outcome: { delivered: () => {}, failed: () => {} },
})

/** Takes a batch. Returns its items, and those that were rejected. */
function take(fresh: FreshItems<number>, nowMs = 0) {
  const rejected: number[] = []
  const batch = fresh.take(nowMs, ({ item }) => rejected.push(item))
  return { batch, items: batch?.queued.map(({ item }) => item), rejected }
}

describe('FreshItems', () => {
  it('a batch is full at maxItems or at maxWeight, and not below', () => {
    const byItems = new FreshItems<number>({ maxItems: () => 2 })
    const byWeight = new FreshItems<number>({ maxWeight: 10 })
    for (const [fresh, weights] of [
      [byItems, [1, 1]],
      [byWeight, [4, 6]],
    ] as const) {
      fresh.add(queued(0, weights[0]))
      expect(fresh.isFull).to.equal(false)
      fresh.add(queued(1, weights[1]))
      expect(fresh.isFull).to.equal(true)
      expect(take(fresh).items).to.deep.equal([0, 1])
      expect([fresh.count, fresh.isFull]).to.deep.equal([0, false])
      fresh.add(queued(2, 1))
      expect(fresh.isFull).to.equal(false)
    }
  })

  it('a batch is due delayMs after its first item, at once if it is full, and never without items', () => {
    const fresh = new FreshItems<number>({ maxItems: 2, delayMs: 1_000 })
    expect(fresh.readyMs).to.equal(Number.POSITIVE_INFINITY)
    fresh.add(queued(0, 1, 500))
    expect(fresh.readyMs).to.equal(1_500)
    fresh.add(queued(1, 1, 600))
    expect(fresh.readyMs).to.equal(Number.NEGATIVE_INFINITY)
  })

  it('hurry() makes the items that are there due, and no later ones', () => {
    const fresh = new FreshItems<number>({ maxItems: 3, delayMs: 1_000 })
    fresh.add(queued(0, 1, 500))
    fresh.hurry()
    expect(fresh.readyMs).to.equal(Number.NEGATIVE_INFINITY)
    take(fresh)
    fresh.add(queued(1, 1, 700))
    expect(fresh.readyMs).to.equal(1_700)
  })

  it('a batch that is put back comes before the others, due at once', () => {
    const fresh = new FreshItems<number>({ maxItems: 2, maxWeight: 10, delayMs: 1_000 })
    for (const item of [0, 1, 2]) fresh.add(queued(item, 1))
    const { batch } = take(fresh)
    if (batch === undefined) throw new Error('a batch is missing')
    fresh.hurry()
    fresh.putBack(batch)
    expect([fresh.count, fresh.readyMs]).to.deep.equal([3, Number.NEGATIVE_INFINITY])
    expect([take(fresh).items, take(fresh).items, take(fresh).items]).to.deep.equal([[0, 1], [2], undefined])
    expect(fresh.isFull).to.equal(false)
  })

  it('an item as large as eight refused ones is rejected for a minute', () => {
    const fresh = new FreshItems<number>({})
    for (const weight of [12, 10, 11, 12, 12, 12, 12, 12]) {
      fresh.add(queued(0, 20))
      expect(take(fresh).rejected).to.deep.equal([])
      fresh.rejectFrom(weight, failure, 0)
    }
    for (const [nowMs, isRejected] of [
      [59_999, true],
      [60_000, false],
    ] as const) {
      fresh.add(queued(0, 9))
      fresh.add(queued(1, 10))
      const { items, rejected } = take(fresh, nowMs)
      expect([items, rejected]).to.deep.equal(isRejected ? [[0], [1]] : [[0, 1], []])
    }
  })

  it('an item as large as refused ones is not rejected after one of that size was delivered', () => {
    for (const [weight, isRejected] of [
      [9, true],
      [10, false],
    ] as const) {
      const fresh = new FreshItems<number>({})
      for (let refusal = 0; refusal < 8; refusal++) fresh.rejectFrom(10, failure, 0)
      fresh.delivered([queued(0, 1), queued(1, weight)])
      fresh.add(queued(2, 10))
      expect(take(fresh).rejected).to.deep.equal(isRejected ? [2] : [])
    }
  })

  it('batches have at most half of the weight of a refused one, for ten minutes', () => {
    const fresh = new FreshItems<number>({ maxWeight: 100 })
    fresh.shrink(20, 0)
    const sizes = (nowMs: number) => {
      fresh.restoreWeight(nowMs)
      for (let item = 0; item < 20; item++) fresh.add(queued(item, 1))
      const lengths: unknown[] = []
      for (let { items } = take(fresh); items !== undefined; { items } = take(fresh))
        lengths.push(items.length)
      return lengths
    }
    expect(sizes(599_999)).to.deep.equal([10, 10])
    expect(sizes(600_000)).to.deep.equal([20])
  })

  it('takeAll() returns every item, and leaves none', () => {
    const fresh = new FreshItems<number>({ maxItems: 2, maxWeight: 10 })
    for (const item of [0, 1, 2]) fresh.add(queued(item, 5))
    take(fresh)
    fresh.hurry()
    expect(fresh.takeAll().map(({ item }) => item)).to.deep.equal([2])
    expect([fresh.count, fresh.isFull, fresh.readyMs]).to.deep.equal([0, false, Number.POSITIVE_INFINITY])
    fresh.add(queued(3, 1, 100))
    expect(fresh.readyMs).to.equal(100)
  })
})
