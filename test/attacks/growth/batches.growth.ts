import { FreshItems, type Queued } from '../../../src/telemetry/transports/queue/batch.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

function queued(item: number): Queued<number> {
  const generation = { number: 0, count: 1 }
  return { item, weight: 1, addedMs: 0, generation, outcome: { delivered() {}, failed() {} } }
}

describe('the batches of a queue', () => {
  it('items that are sent one at a time leave the queue in linear time', () =>
    expectLinearGrowth((size) => {
      const fresh = new FreshItems<number>()
      for (let item = 0; item < size; item++) fresh.add(queued(item))
      while (fresh.take(1, 1).length > 0);
    }, 20_000))
})
