import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import { abortedWithin, untilAborted } from '../../../src/base/http/until-aborted.ts'

describe('untilAborted()', () => {
  const reason = new Error('aborted')

  it('untilAborted() returns the outcome of the work, and then does not listen to the signal', async () => {
    const { signal } = new AbortController()
    expect(await untilAborted(Promise.resolve('done'), signal)).to.equal('done')
    const failure = new Error('failed')
    expect(await untilAborted(Promise.reject(failure), signal).catch((error) => error)).to.equal(failure)
    await new Promise(setImmediate)
    expect(getEventListeners(signal, 'abort')).to.deep.equal([])
  })

  for (const when of ['before', 'during'] as const)
    it(`untilAborted() rejects with the reason of a signal that aborts ${when} work that never ends`, async () => {
      const abort = new AbortController()
      if (when === 'before') abort.abort(reason)
      const waiting = untilAborted(new Promise(() => undefined), abort.signal).catch((error) => error)
      if (when === 'during') abort.abort(reason)
      expect(await waiting).to.equal(reason)
    })
})

describe('abortedWithin()', () => {
  it('abortedWithin() keeps its time limit when garbage is collected', async () => {
    setFlagsFromString('--expose-gc')
    const gc = runInNewContext('gc') as () => void
    const late = new Promise<Event>((resolve) => {
      const listener = { once: true }
      abortedWithin(100, new AbortController().signal).signal.addEventListener('abort', resolve, listener)
    })
    await new Promise(setImmediate)
    gc()
    expect(((await late).target as AbortSignal).reason).to.have.property('name', 'TimeoutError')
  })

  for (const when of ['before', 'after'] as const)
    it(`abortedWithin() takes the reason of a signal that aborts ${when} the call`, () => {
      const reason = new Error('aborted')
      const abort = new AbortController()
      if (when === 'before') abort.abort(reason)
      const { signal } = abortedWithin(60_000, abort.signal)
      abort.abort(reason)
      expect(signal.reason).to.equal(reason)
      expect(getEventListeners(abort.signal, 'abort')).to.deep.equal([])
    })
})
