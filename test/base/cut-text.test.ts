import { expect } from 'chai'
import fc from 'fast-check'
import { cutText } from '../../src/base/cut-text.ts'
import { anyCharacter } from '../support/any-character.ts'
import { collectedHeap } from '../support/telemetry/recording.ts'

describe('cutText()', () => {
  it('cutText() returns a prefix of at most the given length and does not split surrogate pairs', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: anyCharacter }),
        fc.nat(20),
        fc.constantFrom('', '…'),
        (text, max, end) => {
          const cut = cutText(text, max, end)
          if (text.length <= max) {
            expect(cut).to.equal(text)
            return
          }
          expect(cut.length).to.be.at.most(max)
          expect(cut.length).to.be.at.least(max - 1)
          const kept = max === 0 ? '' : cut.slice(0, cut.length - end.length)
          expect(text.startsWith(kept)).to.equal(true)
          expect(Buffer.from(kept).toString()).to.equal(kept)
        },
      ),
    )
  })

  it('cutText() does not keep the original string in memory', async function () {
    this.timeout(60_000)
    const before = await collectedHeap()
    const cuts = Array.from({ length: 50 }, (_, index) =>
      cutText(JSON.parse(JSON.stringify('x'.repeat(1_000_000) + index)), 5_000, '…'),
    )
    expect((await collectedHeap()) - before).to.be.below(10_000_000)
    expect(cuts).to.have.lengthOf(50)
  })
})
