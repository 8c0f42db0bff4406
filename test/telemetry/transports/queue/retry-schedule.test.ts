import { expect } from 'chai'
import fc from 'fast-check'
import { type Batch, newBatch, type Queued } from '../../../../src/telemetry/transports/queue/batch.ts'
import { RetrySchedule } from '../../../../src/telemetry/transports/queue/retry-schedule.ts'

const queued = (item: number): Queued<number> => ({
  item,
  weight: 1,
  addedMs: 0,
  generation: {} as Queued<number>['generation'],
  outcome: { delivered: () => {}, failed: () => {} },
})

/** A batch of one item that waits for its retry. */
function waiting(
  schedule: RetrySchedule<number>,
  item: number,
  times: Partial<Batch<number>>,
): Batch<number> {
  const batch = newBatch([queued(item)], 0)
  Object.assign(batch, { flushingDueMs: times.dueMs ?? 0, ...times })
  schedule.add(batch)
  return batch
}

const itemsOf = (batches: readonly (Batch<number> | undefined)[]) =>
  batches.map((batch) => batch?.queued.map(({ item }) => item))

describe('RetrySchedule', () => {
  for (const ordered of [false, true]) {
    const kind = ordered ? 'an ordered schedule' : 'a schedule'

    it(`${kind} returns the waiting batches whose budget has ended once, at the millisecond of its end`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      for (const [item, deadlineMs] of [300, 200, 100].entries()) waiting(schedule, item, { deadlineMs })
      expect(itemsOf(schedule.takeExpired(99))).to.deep.equal([])
      expect(schedule.firstDeadlineMs()).to.equal(100)
      expect(itemsOf(schedule.takeExpired(100))).to.deep.equal([[2]])
      expect(itemsOf(schedule.takeExpired(250))).to.deep.equal([[1]])
      expect(schedule.firstDeadlineMs()).to.equal(300)
    })

    it(`${kind} divides a batch into halves that are due at once`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      schedule.addHalves(newBatch([1, 2, 3].map(queued), 0), 50)
      expect(schedule.dueMs(false)).to.equal(50)
      const halves = [schedule.take(false), schedule.take(false), schedule.take(false)]
      expect(itemsOf(halves)).to.have.deep.members([[1], [2, 3], undefined])
    })

    it(`${kind} is empty after takeAll()`, () => {
      const schedule = new RetrySchedule<number>(ordered)
      const batch = waiting(schedule, 1, { deadlineMs: 100 })
      expect(schedule.takeAll()).to.deep.equal([batch])
      expect([schedule.dueMs(false), schedule.firstDeadlineMs()]).to.deep.equal([
        Number.POSITIVE_INFINITY,
        Number.POSITIVE_INFINITY,
      ])
      expect([schedule.take(false), schedule.holdsBack]).to.deep.equal([undefined, false])
    })
  }

  it('an ordered schedule holds everything back while a batch waits, and returns the latest one first', () => {
    const schedule = new RetrySchedule<number>(true)
    for (const [item, dueMs] of [10, 30].entries()) waiting(schedule, item, { dueMs })
    expect([schedule.holdsBack, schedule.dueMs(false)]).to.deep.equal([true, 30])
    expect(itemsOf([schedule.take(false), schedule.take(false)])).to.deep.equal([[1], [0]])
    expect(schedule.holdsBack).to.equal(false)
  })

  it('a schedule returns the batches in the order of their times, added in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(50), { maxLength: 60 }), (times) => {
        const schedule = new RetrySchedule<number>(false)
        for (const [item, dueMs] of times.entries()) waiting(schedule, item, { dueMs })
        const taken: unknown[] = []
        for (let batch = schedule.take(false); batch !== undefined; batch = schedule.take(false))
          taken.push(batch.dueMs)
        expect(taken).to.deep.equal(times.toSorted((one, other) => one - other))
      }),
    )
  })

  it('a back-off is short while a caller flushes, and only then', () => {
    const schedule = new RetrySchedule<number>(false)
    waiting(schedule, 1, { dueMs: 5_000, flushingDueMs: 1_000 })
    waiting(schedule, 2, { dueMs: 2_000 })
    expect([schedule.dueMs(true), schedule.dueMs(false)]).to.deep.equal([1_000, 2_000])
    expect(itemsOf([schedule.take(true), schedule.take(false)])).to.deep.equal([[1], [2]])
  })
})
