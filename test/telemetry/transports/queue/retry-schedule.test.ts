import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import { type Batch, newBatch, type Queued } from '../../../../src/telemetry/transports/queue/batch.ts'
import { RetrySchedule } from '../../../../src/telemetry/transports/queue/retry-schedule.ts'

const queued = (item: number): Queued<number> => ({
  item,
  weight: 1,
  addedMs: 0,
  generation: {} as Queued<number>['generation'],
  outcome: { delivered: () => {}, failed: () => {} },
})

/** A batch of one item that has been tried once and waits for its retry. */
function waiting(
  schedule: RetrySchedule<number>,
  item: number,
  dueMs: number,
  deadlineMs: number,
): Batch<number> {
  const batch = newBatch([queued(item)], 0)
  schedule.begin(batch, deadlineMs)
  Object.assign(batch, { dueMs, flushingDueMs: dueMs })
  schedule.add(batch, false)
  return batch
}

const itemsOf = (batches: readonly Batch<number>[]) => batches.map(({ queued: [first] }) => first?.item)

describe('RetrySchedule', () => {
  for (const ordered of [false, true]) {
    const kind = ordered ? 'an ordered schedule' : 'a schedule'

    it(`${kind} counts the budget of a batch from its first attempt`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      const batch = waiting(schedule, 1, 10, 100)
      schedule.begin(batch, 200)
      expect(batch).to.include({ attempts: 2, deadlineMs: 100, state: 'under way' })
      expect(schedule.firstDeadlineMs()).to.equal(100)
    })

    it(`${kind} finds the waiting batches whose budget has ended, at the millisecond of its end`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      for (const [item, deadlineMs] of [100, 200, 300].entries()) waiting(schedule, item, 10, deadlineMs)
      expect(itemsOf(schedule.expired(99))).to.deep.equal([])
      expect(itemsOf(schedule.expired(100))).to.deep.equal([0])
      expect(itemsOf(schedule.expired(250))).to.deep.equal([0, 1])
    })

    it(`${kind} leaves batches that are under way or have settled out of the expired ones`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      const batches = [100, 100, 100].map((deadlineMs, item) => waiting(schedule, item, 10, deadlineMs))
      schedule.begin(batches[0] as Batch<number>, 0)
      schedule.remove(batches[1] as Batch<number>)
      expect(itemsOf(schedule.expired(100))).to.deep.equal([2])
      expect(schedule.firstDeadlineMs()).to.equal(100)
    })

    it(`${kind} divides a batch into halves that are due at once`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      schedule.addHalves(newBatch([1, 2, 3].map(queued), 0), 50)
      expect(schedule.dueMs(false)).to.equal(50)
      const halves = [schedule.take(), schedule.take()].map((half) => half?.queued.map(({ item }) => item))
      expect(halves).to.have.deep.members([[1], [2, 3]])
      expect(schedule.take()).to.equal(undefined)
    })

    it(`${kind} is empty after clear()`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      waiting(schedule, 1, 10, 100)
      schedule.clear()
      expect([schedule.dueMs(false), schedule.firstDeadlineMs()]).to.deep.equal([
        Number.POSITIVE_INFINITY,
        Number.POSITIVE_INFINITY,
      ])
      expect(schedule.takeAll()).to.deep.equal([])
      expect(schedule.holdsBack).to.equal(false)
    })

    it(`${kind} does not keep batches that have settled in memory`, async () => {
      setFlagsFromString('--expose-gc')
      const gc = runInNewContext('gc') as () => void
      const schedule = new RetrySchedule<number>(ordered)
      const settled = Array.from({ length: 5 }, (_, item) => {
        const batch = waiting(schedule, item, 10, 100)
        schedule.remove(schedule.take() as Batch<number>)
        return new WeakRef(batch)
      })
      // References of the current task end with it.
      await new Promise((resolve) => setImmediate(resolve))
      gc()
      expect(settled.map((reference) => reference.deref())).to.deep.equal(Array(5).fill(undefined))
      expect(schedule.firstDeadlineMs()).to.equal(Number.POSITIVE_INFINITY)
    })
  }

  it('an ordered schedule holds everything back while a batch waits', () => {
    const schedule = new RetrySchedule<number>(true)
    const batch = waiting(schedule, 1, 10, 100)
    expect(schedule.holdsBack).to.equal(true)
    schedule.remove(batch)
    expect(schedule.holdsBack).to.equal(false)
    expect(schedule.take()).to.equal(undefined)
  })

  it('hurry() shortens a back-off once, and does not lengthen one', () => {
    const schedule = new RetrySchedule<number>(false)
    const [long, short] = [waiting(schedule, 1, 5_000, 9_000), waiting(schedule, 2, 20, 9_000)]
    Object.assign(long, { flushingDueMs: 1_000 })
    Object.assign(short, { flushingDueMs: 30 })
    schedule.hurry()
    expect([long.dueMs, short.dueMs, schedule.dueMs(true)]).to.deep.equal([1_000, 20, 20])
    Object.assign(long, { flushingDueMs: 500 })
    schedule.hurry()
    expect(long.dueMs).to.equal(1_000)
    expect([schedule.take(), schedule.take(), schedule.take()]).to.deep.equal([short, long, undefined])
  })

  it('a batch that is added while a caller flushes has the short back-off', () => {
    const schedule = new RetrySchedule<number>(false)
    const batch = newBatch([queued(1)], 0)
    schedule.begin(batch, 9_000)
    Object.assign(batch, { dueMs: 5_000, flushingDueMs: 1_000 })
    schedule.add(batch, true)
    expect(schedule.dueMs(true)).to.equal(1_000)
  })
})
