import { getEventListeners } from 'node:events'
import { expect } from 'chai'
import { untilAborted } from '../../../src/base/http/until-aborted.ts'

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
