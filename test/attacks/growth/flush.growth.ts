import { PendingWork } from '../../../src/telemetry/delivery/pending-work.ts'
import { BatchQueue } from '../../../src/telemetry/transports/queue/batch-queue.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'
import { ManualClock } from '../../support/manual-clock.ts'

/**
 * With four times as many callers, garbage collection takes more CPU time than the work, because all callers are kept until
 * the end: 126 of 60 ms (on several threads) for 20,000 callers, and none for 5,000.
 */
const CALLERS = 2_500

describe('flush', () => {
  it('a flush after each event costs linear time while no event settles', () =>
    expectLinearGrowth((size) => {
      const queue = new BatchQueue<number>(
        {
          type: 'test',
          maxItems: 512,
          backOff: { firstMs: 500, maxMs: 30_000 },
          send: () => new Promise(() => {}),
        },
        new ManualClock(),
      )
      for (let event = 0; event < size; event++) {
        void queue.add(event)
        void queue.flush()
      }
    }, CALLERS))

  for (const [order, at] of Object.entries({
    'in order': (index: number) => index,
    'latest first': (index: number, size: number) => size - 1 - index,
    'every other one first': (index: number, size: number) =>
      index < size / 2 ? 2 * index + 1 : 2 * index - size,
  })) {
    it(`events that settle ${order} cost linear time while a caller waits after each`, () =>
      expectLinearGrowth((size) => {
        const work = new PendingWork()
        const generations = Array.from({ length: size }, () => {
          const generation = work.add()
          void work.settled()
          return generation
        })
        for (let index = 0; index < size; index++) {
          const generation = generations[at(index, size)]
          if (generation !== undefined) work.settle(generation)
        }
      }, CALLERS))
  }
})
