import { mock } from 'node:test'
import { expect } from 'chai'
import { within } from '../../src/base/within.ts'

const late = () => new Error('late')

describe('within()', () => {
  afterEach(() => mock.timers.reset())

  it('a promise that settles in time settles within(), and stops the timer', async () => {
    mock.timers.enable({ apis: ['setTimeout'] })
    let isLate = false
    const noted = () => {
      isLate = true
      return late()
    }
    expect(await within(Promise.resolve('value'), 10, noted)).to.equal('value')
    const error = new Error('of the promise')
    expect(await within(Promise.reject(error), 10, noted).catch((caught) => caught)).to.equal(error)
    mock.timers.tick(1_000)
    expect(isLate).to.equal(false)
  })

  it('a promise that settles after its time is ignored', async () => {
    let settle: (value: string) => void = () => undefined
    const promise = new Promise<string>((resolve) => {
      settle = resolve
    })
    const error = await within(promise, 10, late).catch((caught) => caught)
    settle('too late')
    expect(error).to.have.property('message', 'late')
  })

  it('a thenable that throws, or that resolves to a promise, settles like that', async () => {
    const thenable = (then: (resolve: (value: unknown) => void) => void) =>
      Object.defineProperty({}, 'then', { value: then }) as PromiseLike<unknown>
    const throwing = thenable(() => {
      throw new Error('of the thenable')
    })
    expect(await within(throwing, 60_000, late).catch(({ message }) => message)).to.equal('of the thenable')
    expect(
      await within(
        thenable((resolve) => resolve(Promise.resolve(1))),
        60_000,
        late,
      ),
    ).to.equal(1)
  })
})
