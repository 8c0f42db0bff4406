import { expect } from 'chai'
import fc from 'fast-check'
import { DueHeap, type Waiting } from '../../../../src/telemetry/transports/queue/due-heap.ts'

const waiting = (dueMs: number): Waiting => ({ dueMs, state: 'waiting' })

/** Takes all items, and returns their times. */
function timesOf(heap: DueHeap<Waiting>): number[] {
  const times: number[] = []
  for (let item = heap.take(); item !== undefined; item = heap.take()) times.push(item.dueMs)
  return times
}

describe('DueHeap', () => {
  it('DueHeap returns items in the order of their times, added in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(50), { maxLength: 60 }), (times) => {
        const heap = new DueHeap<Waiting>()
        for (const time of times) heap.add(waiting(time))
        expect(timesOf(heap)).to.deep.equal(times.toSorted((one, other) => one - other))
      }),
    )
  })

  it('DueHeap has no time while it is empty, and the earliest time otherwise', () => {
    const heap = new DueHeap<Waiting>()
    expect(heap.dueMs).to.equal(Number.POSITIVE_INFINITY)
    for (const time of [7, 3, 5]) heap.add(waiting(time))
    expect(heap.dueMs).to.equal(3)
  })

  it('DueHeap leaves out an item that does not wait any more', () => {
    const heap = new DueHeap<Waiting>()
    const items = [3, 1, 2].map(waiting)
    for (const item of items) heap.add(item)
    Object.assign(items[1] as Waiting, { state: 'sent' })
    expect(heap.dueMs).to.equal(2)
    expect(timesOf(heap)).to.deep.equal([2, 3])
  })

  it('DueHeap returns an item that was added again with an earlier time only once, at that time', () => {
    const heap = new DueHeap<Waiting>()
    const item = waiting(9)
    heap.add(item)
    heap.add(waiting(5))
    item.dueMs = 1
    heap.add(item)
    expect(timesOf(heap)).to.deep.equal([1, 5])
  })

  it('DueHeap returns every waiting item once if all are taken, and is empty afterwards', () => {
    const heap = new DueHeap<Waiting>()
    const items = [4, 2, 6].map(waiting)
    for (const item of items) heap.add(item)
    const [first] = items as [Waiting]
    first.dueMs = 1
    heap.add(first)
    Object.assign(items[1] as Waiting, { state: 'sent' })
    expect(heap.takeAll()).to.have.members([first, items[2] as Waiting])
    expect(heap.take()).to.equal(undefined)
  })
})
