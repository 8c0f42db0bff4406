import { expect } from 'chai'
import { StoreGuard } from '../../src/oauth/store-guard.ts'
import { type FakeTime, fakeTime } from '../support/fake-time.ts'

const TIMEOUT_MS = 500
const MIB = 1_048_576

/** A command that reached the store. */
interface Sent {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** Lets the handlers of settled promises run. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('StoreGuard', () => {
  const unhandled: unknown[] = []
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason)
  let time: FakeTime
  let guard: StoreGuard
  /** The commands in order. The store answers only when a test does. */
  let sent: Sent[]
  /** The outcomes of the commands, in order. */
  let outcomes: string[]
  beforeEach(() => {
    unhandled.length = 0
    process.on('unhandledRejection', onUnhandled)
    time = fakeTime()
    guard = new StoreGuard(TIMEOUT_MS)
    sent = []
    outcomes = []
  })
  afterEach(async () => {
    time.restore()
    await settled()
    process.off('unhandledRejection', onUnhandled)
    expect(unhandled).to.deep.equal([])
  })

  /** Asks the store, and resolves when the outcomes that are known at once are recorded. */
  async function ask(count = 1, bytes?: number): Promise<void> {
    for (let index = 0; index < count; index++) {
      const command = () => new Promise((resolve, reject) => sent.push({ resolve, reject }))
      guard.ask(command, bytes).then(
        (value) => outcomes.push(String(value)),
        (error: Error) => outcomes.push(error.name),
      )
    }
    await settled()
  }
  async function advance(ms: number): Promise<void> {
    time.advance(ms)
    await settled()
  }
  /** Makes the store miss the timeout of one command. */
  async function leave(): Promise<void> {
    await ask()
    await advance(TIMEOUT_MS)
    expect(outcomes).to.deep.equal(['TimeoutError'])
  }

  it('a store that answers gets every command, and its answers and errors are passed on', async () => {
    await ask(3)
    sent[0]?.resolve('a')
    sent[1]?.reject(new TypeError('b'))
    sent[2]?.resolve(undefined)
    await settled()
    expect(outcomes).to.deep.equal(['a', 'TypeError', 'undefined'])
    expect(await guard.ask(() => 'at once')).to.equal('at once')
    const thrown = new RangeError('thrown')
    expect(await guard.ask(() => Promise.reject(thrown)).catch((error) => error)).to.equal(thrown)
    const throws = (): never => {
      throw thrown
    }
    expect(await guard.ask(throws).catch((error) => error)).to.equal(thrown)
    await ask(2)
    expect(sent).to.have.length(5)
  })

  it('a store that missed a timeout gets one command per second, and the others are rejected at once', async () => {
    await leave()
    await ask(1_000)
    expect(sent).to.have.length(1)
    expect(outcomes).to.deep.equal(Array(1_001).fill('TimeoutError'))
    for (let second = 1; second <= 5; second++) {
      await advance(1_000)
      await ask(100)
      expect(sent).to.have.length(1 + second)
    }
  })

  it('a store that is away for long gets fewer commands, and at least one in 30 s', async () => {
    await leave()
    const asked: number[] = []
    for (let minute = 0; minute < 20; minute++) {
      const before = sent.length
      for (let second = 0; second < 60; second++) {
        await advance(1_000)
        await ask()
      }
      asked.push(sent.length - before)
    }
    expect(asked[0]).to.be.within(15, 40)
    expect(asked.slice(-10)).to.deep.equal(Array(10).fill(2))
  })

  it('a store that was away gets every command again after half a minute without one', async () => {
    await leave()
    await advance(29_000)
    await ask(3)
    expect(sent).to.have.length(2)
    await advance(34_000)
    await ask(3)
    expect(sent).to.have.length(5)
  })

  it('the answer to one command ends the outage, in time or late', async () => {
    await leave()
    sent[0]?.resolve('late')
    await settled()
    await ask(3)
    expect(sent).to.have.length(4)
    await advance(TIMEOUT_MS)
    await ask()
    expect(sent).to.have.length(4)
    await advance(1_000)
    await ask()
    sent[4]?.resolve('in time')
    await settled()
    await ask(2)
    expect(sent).to.have.length(7)
  })

  it('an error in time ends the outage, and a late error does not', async () => {
    await leave()
    sent[0]?.reject(new Error('the connection was closed'))
    await settled()
    await ask()
    expect(sent).to.have.length(1)
    await advance(1_000)
    await ask()
    sent[1]?.reject(new Error('OOM'))
    await settled()
    await ask(2)
    expect(sent).to.have.length(4)
  })

  it('a command whose client gives up is a store that does not answer', async () => {
    await ask()
    sent[0]?.reject(new Error('Command timed out'))
    await settled()
    await ask(10)
    expect(sent).to.have.length(1)
    expect(outcomes.slice(1)).to.deep.equal(Array(10).fill('TimeoutError'))
  })

  it('the commands that wait have at most 64 MiB, and one command may have more', async () => {
    await ask(20_000)
    expect(sent).to.have.length(8_192)
    for (const { resolve } of sent.splice(0)) resolve('')
    await settled()
    await ask(100, MIB)
    expect(sent).to.have.length(63)
    for (const { resolve } of sent.splice(0)) resolve('')
    await settled()
    await ask(2, 100 * MIB)
    expect(sent).to.have.length(1)
  })
})
