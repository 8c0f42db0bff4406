import { getEventListeners } from 'node:events'
import { expect } from 'chai'
import type { KitTelemetryError } from '../../../../src/telemetry/errors.ts'
import { BatchQueue } from '../../../../src/telemetry/transports/queue/batch-queue.ts'
import type {
  Attempt,
  BatchQueueOptions,
  Outcome,
} from '../../../../src/telemetry/transports/queue/batch-queue-options.ts'
import { ManualClock } from '../../../support/manual-clock.ts'

const failure = { reason: 'the target responded with 503' }
const down: Outcome = { result: 'retry', failure, targetDown: true }
const delivered: Outcome = { result: 'delivered' }

interface Sent {
  readonly atMs: number
  readonly items: readonly number[]
  readonly attempt: Attempt
}

/** A queue, its clock, what it sent, and how its items ended. */
function start(
  answer: (items: readonly number[], attempt: Attempt) => Outcome | Promise<Outcome>,
  options: Partial<BatchQueueOptions<number>> = {},
  clock = new ManualClock(),
) {
  const sent: Sent[] = []
  const ends = new Map<number, 'delivered' | KitTelemetryError>()
  const queue = new BatchQueue<number>(
    {
      type: 'test',
      backOff: { firstMs: 500, maxMs: 30_000 },
      ...options,
      send: (items, attempt) => {
        sent.push({ atMs: clock.now() - 1_000, items, attempt })
        return answer(items, attempt)
      },
    },
    clock,
  )
  const add = (item: number, weight?: number) => {
    queue.add(item, weight).then(
      () => ends.set(item, 'delivered'),
      (error) => ends.set(item, error),
    )
  }
  const addAll = (count: number, weight?: number) => {
    for (let item = 0; item < count; item++) add(item, weight)
  }
  const flush = () => {
    const call = { settled: false }
    void queue.flush().then(() => {
      call.settled = true
    })
    return call
  }
  const messageOf = (item: number) => (ends.get(item) as KitTelemetryError | undefined)?.message
  return { queue, clock, sent, ends, add, addAll, flush, messageOf }
}

describe('BatchQueue', () => {
  describe('batches', () => {
    it('flush of BatchQueue sends a partial batch at once, but not items that are added afterwards', async () => {
      const { add, clock, sent, flush } = start(() => delivered, { maxItems: 9, delayMs: 1_000 })
      add(0)
      const call = flush()
      await clock.settle()
      add(1)
      await clock.settle()
      expect(call.settled).to.equal(true)
      expect(sent.map(({ items }) => items)).to.deep.equal([[0]])
    })
  })

  describe('while the target is down', () => {
    it('BatchQueue doubles its back-off while the target is down, sends one batch at a time, and opens all lanes when one arrives', async () => {
      let up = false
      const { addAll, clock, sent, ends } = start(() => (up ? delivered : down), { lanes: 4, maxItems: 1 })
      addAll(8)
      await clock.advance(500 + 1_000 + 2_000)
      expect(sent.map(({ atMs }) => atMs)).to.deep.equal([0, 0, 0, 0, 500, 1_500, 3_500])
      up = true
      await clock.advance(4_000)
      expect(ends.size).to.equal(8)
      expect(new Set(ends.values())).to.deep.equal(new Set(['delivered']))
      expect(new Set(sent.slice(7).map(({ atMs }) => atMs))).to.deep.equal(new Set([7_500]))
    })

    it('BatchQueue does not wait for an attempt that hangs, and keeps the attempts a back-off apart', async () => {
      const clock = new ManualClock()
      const { addAll, sent, ends, flush } = start(
        () => new Promise((resolve) => clock.after(() => resolve(down), 10_000)),
        { lanes: 4, maxItems: 1, retryBudgetMs: 5_000 },
        clock,
      )
      addAll(12)
      flush()
      await clock.advance(60_000)
      expect(ends.size).to.equal(12)
      const gaps = sent.slice(4).map(({ atMs }, index) => atMs - (sent[index + 3]?.atMs ?? 0))
      expect(Math.min(...gaps)).to.be.at.least(500)
    })

    it('flush of BatchQueue shortens a back-off to a second, however often it is called', async () => {
      const { add, clock, sent, flush } = start(() => down)
      add(0)
      await clock.advance(500 + 1_000 + 2_000)
      expect(sent.map(({ attempt }) => attempt.flushing)).to.deep.equal([false, false, false, false])
      await clock.advance(100)
      for (let call = 0; call < 100; call++) flush()
      await clock.advance(899)
      expect(sent).to.have.length(4)
      await clock.advance(1)
      expect(sent).to.have.length(5)
      await clock.advance(10_000)
      expect(sent).to.have.length(15)
    })

    for (const ordered of [false, true])
      for (const targetDown of [false, true])
        it(`flush of ${ordered ? 'an ordered' : 'a'} BatchQueue waits at most a second before it sends a batch again, if the target is ${targetDown ? 'down' : 'not down'}`, async () => {
          const { add, clock, sent, flush } = start(
            () => (sent.length > 9 ? delivered : { result: 'retry', failure, targetDown }),
            { ordered },
          )
          flush()
          add(0)
          flush()
          await clock.advance(3_500)
          expect(sent.map(({ atMs }) => atMs)).to.deep.equal([0, 500, 1_500, 2_500, 3_500])
        })

    for (const ordered of [false, true]) {
      it(`flush of ${ordered ? 'an ordered' : 'a'} BatchQueue ends at its deadline, and shortens no pause afterwards`, async () => {
        const { queue, add, clock, sent } = start(() => down, { ordered })
        add(0)
        await clock.advance(500 + 1_000 + 2_000 + 4_000)
        const deadline = new AbortController()
        let settled = false
        void queue.flush(deadline.signal).then(() => {
          settled = true
        })
        await clock.advance(10)
        expect(settled).to.equal(false)
        deadline.abort()
        await clock.settle()
        expect(settled).to.equal(true)
        const before = sent.length
        await clock.advance(60_000)
        // The back-off has grown to at least 8 s.
        expect(sent.length - before).to.be.at.most(5)
      })
    }

    it('flush of BatchQueue whose deadline has passed sends a partial batch at once, and does not wait', async () => {
      const { queue, add, clock, sent } = start(() => new Promise<never>(() => {}), { delayMs: 1_000 })
      add(0)
      await queue.flush(AbortSignal.abort())
      await clock.settle()
      expect(sent).to.have.length(1)
    })

    it('flush of BatchQueue does not listen to its deadline after it has ended', async () => {
      const { queue, add } = start(() => ({ result: 'delivered' }))
      const { signal } = new AbortController()
      for (let item = 0; item < 3; item++) {
        add(item)
        await queue.flush(signal)
      }
      expect(getEventListeners(signal, 'abort')).to.have.length(0)
    })

    it('close of BatchQueue shortens no pause after its deadline', async () => {
      const { queue, add, clock, sent } = start(() => down, { sendsAfterDeadline: true })
      add(0)
      await clock.advance(500 + 1_000 + 2_000 + 4_000)
      await queue.close(AbortSignal.abort())
      const before = sent.length
      await clock.advance(60_000)
      expect(sent.length - before).to.be.at.most(5)
    })

    it('BatchQueue sends another batch before the one that failed, so that one batch cannot block the others', async () => {
      const { addAll, clock, ends } = start(([first]) => ((first as number) < 4 ? down : delivered), {
        lanes: 4,
        maxItems: 1,
      })
      addAll(40)
      await clock.advance(20_000)
      expect([...ends.keys()].toSorted((a, b) => a - b)).to.deep.equal(
        Array.from({ length: 36 }, (_, index) => index + 4),
      )
    })

    it('a batch of BatchQueue fails at its last attempt when its retry budget is spent', async () => {
      const { add, clock, sent, messageOf } = start(() => down, { retryBudgetMs: 4_000 })
      add(0)
      await clock.advance(3_999)
      expect(messageOf(0)).to.equal(undefined)
      await clock.advance(1)
      expect(sent.map(({ atMs }) => atMs)).to.deep.equal([0, 500, 1_500, 3_500, 4_500].slice(0, sent.length))
      await clock.advance(500)
      expect(messageOf(0)).to.equal(
        'transport "test": the target responded with 503, 5 times until retryBudgetMs was spent; 1 event is lost',
      )
    })
  })

  describe('waits that the target asks for', () => {
    const asked = (waitMs: number): Outcome => ({ result: 'retry', failure, waitMs })

    it('BatchQueue supports a wait of more than 2^31 - 1 ms', async () => {
      const askedMs = 2 ** 32
      const { add, clock, sent } = start(() => asked(askedMs))
      add(0)
      await clock.advance(askedMs - 1)
      expect(sent).to.have.length(1)
      await clock.advance(1)
      expect(sent).to.have.length(2)
      expect(clock.timers).to.equal(1)
    })

    it('flush of BatchQueue cuts a wait to maxFlushingWaitMs', async () => {
      const { add, clock, sent, flush } = start(() => asked(60_000), { maxFlushingWaitMs: 10_000 })
      add(0)
      await clock.advance(1_000)
      flush()
      await clock.advance(8_999)
      expect(sent).to.have.length(1)
      await clock.advance(1)
      expect(sent).to.have.length(2)
    })

    it('a wait of BatchQueue ends with the retry budget, without another attempt', async () => {
      const { add, clock, sent, messageOf } = start(() => asked(60_000), { retryBudgetMs: 2_000 })
      add(0)
      await clock.advance(2_000)
      expect(sent).to.have.length(1)
      expect(messageOf(0)).to.match(/1 time until retryBudgetMs was spent/)
    })
  })

  describe('outcomes', () => {
    it('a batch of BatchQueue that waits for its retry does not occupy a lane', async () => {
      const { addAll, clock, sent, ends } = start(
        ([first]) => ((first as number) < 2 ? { result: 'retry', failure } : delivered),
        { lanes: 2, maxItems: 1 },
      )
      addAll(20)
      await clock.settle()
      expect(ends.size).to.equal(18)
      expect(sent.filter(({ items: [first] }) => (first as number) < 2)).to.have.length(2)
    })

    it('an ordered BatchQueue sends nothing before the batch that waits', async () => {
      const { addAll, clock, sent } = start(
        () => (sent.length % 2 === 1 ? { result: 'retry', failure } : delivered),
        { ordered: true, maxItems: 2 },
      )
      addAll(4)
      await clock.advance(10_000)
      expect(sent.map(({ items }) => items)).to.deep.equal([
        [0, 1],
        [0, 1],
        [2, 3],
        [2, 3],
      ])
    })

    it('a send that throws or rejects fails its batch, and the error of the batch does not quote it', async () => {
      for (const send of [
        () => {
          throw new Error('secret')
        },
        () => Promise.reject(new Error('secret')),
      ]) {
        const { add, clock, ends, messageOf } = start(send)
        add(0)
        await clock.settle()
        expect(messageOf(0)).to.equal(
          'transport "test": the request body could not be serialized; 1 event is lost',
        )
        expect((ends.get(0) as Error).cause).to.equal(undefined)
      }
    })
  })

  describe('close', () => {
    it('close of BatchQueue sends the items that are left, and rejects later ones', async () => {
      const { queue, add, clock, ends, messageOf } = start(() => delivered, { delayMs: 1_000 })
      add(0)
      const closing = queue.close()
      add(1)
      await clock.settle()
      await closing
      expect(ends.get(0)).to.equal('delivered')
      expect(messageOf(1)).to.equal('transport "test": it is shut down; 1 event is lost')
      expect(clock.timers).to.equal(0)
    })

    it('close of BatchQueue ends at its deadline, starts no timer and no attempt afterwards, and aborts the signal of send', async () => {
      const deadline = new AbortController()
      const { queue, add, clock, sent, ends } = start(() => down)
      add(0)
      await clock.advance(100)
      const closing = queue.close(deadline.signal)
      expect(sent[0]?.attempt.signal.aborted).to.equal(false)
      deadline.abort()
      await closing
      expect(sent[0]?.attempt.signal.aborted).to.equal(true)
      expect(clock.timers).to.equal(0)
      await clock.advance(100_000)
      expect([sent.length, ends.size]).to.deep.equal([1, 0])
    })

    it('BatchQueue continues after the deadline of close if the option allows it', async () => {
      let up = false
      const { queue, add, clock, ends } = start(() => (up ? delivered : down), { sendsAfterDeadline: true })
      add(0)
      await clock.advance(100)
      await queue.close(AbortSignal.abort())
      up = true
      await clock.advance(1_000)
      expect(ends.get(0)).to.equal('delivered')
    })

    it('close, flush, and add of BatchQueue can be called within send', async () => {
      let calls = 0
      const { queue, add, clock, ends, flush } = start(() => {
        if (calls++ === 0) {
          add(1)
          flush()
          void queue.close()
        }
        return delivered
      })
      add(0)
      await clock.advance(0)
      expect([...ends]).to.deep.equal([
        [0, 'delivered'],
        [1, 'delivered'],
      ])
    })
  })

  it('BatchQueue counts the attempts of a batch whose weight is exactly maxWeight', async () => {
    const { add, clock, ends, sent } = start(() => ({ result: 'retry', failure, maxAttempts: 2 }), {
      maxWeight: 10,
    })
    for (const [item, weight] of [4, 6].entries()) add(item, weight)
    await clock.advance(60_000)
    expect(sent.map(({ items }) => items)).to.deep.equal([
      [0, 1],
      [0, 1],
    ])
    expect(ends.size).to.equal(2)
  })
})
