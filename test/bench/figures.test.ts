import { expect } from 'chai'
import { confirmedFalls, type Fall, fallsOf, newFiguresOf, tableOfFalls } from '../../bench/figures.ts'

const COMMITTED = { gate: { accepted: { ours: 1 } }, emit: { events: { ours: 3, other: 2 } } }

const fall = (measured: number | undefined): Fall => ({
  section: 'gate',
  table: 'accepted',
  contestant: 'ours',
  committed: 1,
  measured,
})

describe('fallsOf', () => {
  const cases: readonly [title: string, measured: number | undefined, falls: boolean][] = [
    ['a ratio that rose is not a fall', 1.5, false],
    ['an equal ratio is not a fall', 1, false],
    ['a ratio that fell by exactly 10 % is not a fall', 0.9, false],
    ['a ratio that fell by more than 10 % is a fall', 0.89, true],
    ['a contestant of a measured section that was not measured is a fall', undefined, true],
    ['a ratio that is not a number is a fall', Number.NaN, true],
  ]
  for (const [title, measured, falls] of cases) {
    it(title, () => {
      const figures = { gate: { accepted: measured === undefined ? {} : { ours: measured } } }
      expect(fallsOf(COMMITTED, figures)).to.deep.equal(falls ? [fall(measured)] : [])
    })
  }

  it('a table of a measured section that was not measured is a fall', () => {
    expect(fallsOf(COMMITTED, { gate: {} })).to.deep.equal([fall(undefined)])
  })

  it('a section that was not measured is not compared', () => {
    expect(fallsOf(COMMITTED, {})).to.deep.equal([])
  })

  it('a measured contestant without a committed ratio is not a fall', () => {
    expect(fallsOf(COMMITTED, { gate: { accepted: { ours: 1, added: 0.1 } } })).to.deep.equal([])
  })
})

describe('confirmedFalls', () => {
  it('a fall that the second run does not have is dropped', () => {
    expect(confirmedFalls([fall(0.5)], [])).to.deep.equal([])
  })

  it('a fall that only the second run has is dropped', () => {
    expect(confirmedFalls([], [fall(0.5)])).to.deep.equal([])
  })

  it('a fall of another contestant does not confirm a fall', () => {
    expect(confirmedFalls([fall(0.5)], [{ ...fall(0.5), contestant: 'other' }])).to.deep.equal([])
  })

  it('a fall of both runs is reported with the better ratio', () => {
    expect(confirmedFalls([fall(0.5)], [fall(0.7)])).to.deep.equal([fall(0.7)])
  })

  it('a contestant that neither run measured is reported without a ratio', () => {
    expect(confirmedFalls([fall(undefined)], [fall(undefined)])).to.deep.equal([fall(undefined)])
  })
})

describe('newFiguresOf', () => {
  it('measured ratios without a committed one are listed with section, table, and contestant', () => {
    const measured = { gate: { accepted: { ours: 1, added: 1 }, refused: { ours: 1 } }, emit: {} }
    expect(newFiguresOf(COMMITTED, measured)).to.deep.equal(['gate, accepted, added', 'gate, refused, ours'])
  })
})

describe('tableOfFalls', () => {
  it('the table has a line for each fall, with the change in percent', () => {
    const lines = tableOfFalls([fall(0.75), fall(undefined)]).split('\n')
    expect(lines).to.deep.equal([
      '| section | table | contestant | committed | measured | change |',
      '|---|---|---|---|---|---|',
      '| gate | accepted | ours | 1 | 0.75 | -25 % |',
      '| gate | accepted | ours | 1 | not measured | – |',
    ])
  })
})
