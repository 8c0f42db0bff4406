import { expect } from 'chai'
import fc from 'fast-check'
import { type Generation, PendingWork } from '../../../src/telemetry/delivery/pending-work.ts'

describe('PendingWork', () => {
  it('PendingWork calls back at once if no work is pending', () => {
    let called = false
    new PendingWork().whenSettled(() => {
      called = true
    })
    expect(called).to.equal(true)
  })

  it('PendingWork calls back when everything added before has settled, in any order, unless canceled', () => {
    const step = fc.oneof(
      { weight: 3, arbitrary: fc.constant('add' as const) },
      { weight: 3, arbitrary: fc.nat().map((settle) => ({ settle })) },
      { weight: 2, arbitrary: fc.constant('wait' as const) },
      { weight: 1, arbitrary: fc.nat().map((cancel) => ({ cancel })) },
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const work = new PendingWork()
        const pending = new Map<number, Generation>()
        let added = 0
        const calls: { before: number; called: number; canceled: boolean; cancel: () => void }[] = []
        const pick = <T>(all: readonly T[], at: number): T | undefined => all[at % Math.max(all.length, 1)]
        for (const one of steps) {
          if (one === 'add') {
            pending.set(added++, work.add())
          } else if (one === 'wait') {
            const call = { before: added, called: 0, canceled: false, cancel: () => {} }
            calls.push(call)
            call.cancel = work.whenSettled(() => {
              call.called++
            })
          } else if ('settle' in one) {
            const index = pick([...pending.keys()], one.settle)
            if (index === undefined) continue
            const generation = pending.get(index) as Generation
            pending.delete(index)
            work.settle(generation)
          } else {
            const call = pick(calls, one.cancel)
            if (call === undefined) continue
            call.cancel()
            if (call.called === 0) call.canceled = true
          }
          expect(work.count).to.equal(pending.size)
          for (const { before, called, canceled } of calls) {
            const settled = ![...pending.keys()].some((index) => index < before)
            expect(called).to.equal(settled && !canceled ? 1 : 0)
          }
        }
      }),
      { numRuns: 500 },
    )
  })

  it('PendingWork accepts new work from within a callback', () => {
    const work = new PendingWork()
    const calls: string[] = []
    const first = work.add()
    work.whenSettled(() => {
      calls.push('first')
      const second = work.add()
      work.whenSettled(() => calls.push('second'))
      work.settle(second)
    })
    work.whenSettled(() => calls.push('third'))
    work.settle(first)
    expect(calls).to.deep.equal(['first', 'second', 'third'])
  })
})
