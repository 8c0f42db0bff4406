import { expect } from 'chai'
import { type RunResult, runWeek } from '../week/shrink.ts'

const DENSE = ['--hours', '0.7', '--act-every', '7', '--fault-every', '3']
const SEEDS = [1, 2, 3, 4, 5]

describe('a simulated server with three nodes, people, and faults', function () {
  this.timeout(600_000)
  const results = new Map<number, Promise<RunResult>>()

  before(() => {
    // Two at a time.
    const last: Promise<unknown>[] = [Promise.resolve(), Promise.resolve()]
    for (const [index, seed] of SEEDS.entries()) {
      const result = (last[index % 2] as Promise<unknown>).then(() =>
        runWeek(['--seed', String(seed), ...DENSE]),
      )
      last[index % 2] = result
      results.set(seed, result)
    }
  })

  for (const seed of SEEDS)
    it(`holds all invariants with seed ${seed}`, async () => {
      const { invariant, output } = (await results.get(seed)) as RunResult
      expect(invariant, output.slice(-6_000)).to.equal(undefined)
    })

  it('is the same for the same seed', async () => {
    const { digest } = await runWeek(['--seed', '1', ...DENSE])
    expect(digest).to.match(/^[\da-f]{16}$/)
    expect(digest).to.equal((await results.get(1))?.digest)
  })
})
