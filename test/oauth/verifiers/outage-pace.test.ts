import { expect } from 'chai'
import { OutagePace } from '../../../src/oauth/verifiers/outage-pace.ts'
import { until } from '../../support/until.ts'

describe('OutagePace', () => {
  const failing = (made: string[], name: string) => async (): Promise<string> => {
    made.push(name)
    throw new Error(name)
  }
  const outcome = (attempt: Promise<string | undefined>): Promise<string> =>
    attempt.then(
      (value) => value ?? 'turned away',
      (error: Error) => `failed: ${error.message}`,
    )

  it('successful attempts may follow each other immediately', async () => {
    const pace = new OutagePace()
    for (let times = 0; times < 3; times++) expect(await pace.make(async () => 'keys')).to.equal('keys')
    expect(pace.postpones(async () => 'keys')).to.equal(false)
  })

  it('an attempt that fails postpones those that waited for it', async () => {
    const pace = new OutagePace()
    const made: string[] = []
    const outcomes = ['a', 'b', 'c'].map((name) => outcome(pace.make(failing(made, name))))
    expect(await Promise.all(outcomes)).to.deep.equal(['failed: a', 'turned away', 'turned away'])
    expect(made).to.deep.equal(['a'])
  })

  it('an attempt that has ended leaves no timer', async () => {
    const timers = () => process.getActiveResourcesInfo().filter((type) => type === 'Timeout').length
    // The test runner sets a timer of its own when the test first waits.
    await new Promise((resolve) => setImmediate(resolve))
    const before = timers()
    await new OutagePace().make(async () => 'keys')
    await new Promise((resolve) => setImmediate(resolve))
    expect(timers()).to.equal(before)
  })

  it('an attempt that hangs lets others begin after a second', async () => {
    const pace = new OutagePace()
    const began = performance.now()
    const hanging = pace.make(() => new Promise<string>(() => undefined))
    expect(await pace.make(async () => 'keys')).to.equal('keys')
    expect(performance.now() - began).to.be.at.least(990)
    expect(await Promise.race([hanging, 'still waiting'])).to.equal('still waiting')
  })

  it('postponed attempts are made in order, whichever attempt is requested next', async () => {
    const pace = new OutagePace()
    const made: string[] = []
    const [a, b, c] = ['a', 'b', 'c'].map((name) => failing(made, name)) as [
      () => Promise<string>,
      () => Promise<string>,
      () => Promise<string>,
    ]
    await outcome(pace.make(a))
    expect([await outcome(pace.make(b)), await outcome(pace.make(c))]).to.deep.equal([
      'turned away',
      'turned away',
    ])
    const times: number[] = [performance.now()]
    await until(async () => {
      await outcome(pace.make(a))
      if (made.length > times.length) times.push(performance.now())
      return made.length === 4
    }, 5)
    expect(made).to.deep.equal(['a', 'b', 'c', 'a'])
    for (const [index, time] of times.slice(1).entries())
      expect(time - (times[index] as number)).to.be.at.least(950)
  })
})
