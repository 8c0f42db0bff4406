import { setTimeout } from 'node:timers/promises'
import { expect } from 'chai'
import { Deadlines } from '../../src/oauth/deadlines.ts'

const never = new Promise<never>(() => undefined)

describe('Deadlines', () => {
  it('a promise that is added while the timer idles is rejected in time', async () => {
    const deadlines = new Deadlines(40)
    await deadlines.within(Promise.resolve(), 'first')
    // The timer has fired once, and waits for the next promise.
    await setTimeout(60)
    const settled: string[] = []
    await Promise.all([
      deadlines.within(never, 'second').catch(() => settled.push('second')),
      setTimeout(75).then(() => settled.push('a timer of 75 ms')),
    ])
    expect(settled).to.deep.equal(['second', 'a timer of 75 ms'])
  })

  it('promises are rejected in the order in which they were added, whichever settle in between', async () => {
    const deadlines = new Deadlines(20)
    const rejected: string[] = []
    const added = ['a', 'b', 'c', 'd', 'e'].map((name) =>
      deadlines
        .within('bd'.includes(name) ? Promise.resolve() : never, name)
        .catch(({ message }: Error) => rejected.push(message)),
    )
    await Promise.all(added)
    expect(rejected).to.deep.equal(['a', 'c', 'e'].map((name) => `${name} did not settle within 20 ms`))
  })

  it('a promise that settles after its timeout is ignored', async () => {
    const deadlines = new Deadlines(10)
    const calls: unknown[] = []
    let resolve: (value: string) => void = () => undefined
    const late = new Promise<string>((settle) => {
      resolve = settle
    })
    await new Promise<void>((done) =>
      deadlines.watch(
        late,
        'late',
        (value) => calls.push(value),
        (error) => {
          calls.push((error as Error).name)
          done()
        },
      ),
    )
    resolve('too late')
    await late
    expect(calls).to.deep.equal(['VerifierUnavailableError'])
  })
})
