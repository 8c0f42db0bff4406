import { expect } from 'chai'
import { problemIn } from '../../../src/mcp/wire/schema-issues.ts'

describe('problemIn()', () => {
  it('a report names the path of each issue', () => {
    expect(
      problemIn([
        { message: 'Required', path: ['user', { key: 'name' }, 0] },
        { message: 'Too old' },
        { message: 'Unknown', path: [] },
      ]),
    ).to.equal('user.name.0: Required; Too old; Unknown')
  })

  it('a report names the first 20 issues, and counts the others', () => {
    const issues = Array.from({ length: 1_500 }, (_, index) => ({ message: `m${index}` }))
    const parts = problemIn(issues).split('; ')
    expect(parts).to.have.length(21)
    expect(parts.slice(-2)).to.deep.equal(['m19', 'and 1,480 more'])
    expect(problemIn(issues.slice(0, 20)).split('; ')).to.have.length(20)
  })

  it('a report names an issue if it fits exactly', () => {
    const room = 3_800 - '; and 9,007,199,254,740,991 more'.length
    const reportOf = (last: number) => {
      const issues = [1_000, 1_000, 1_000, last].map((length) => ({ message: 'x'.repeat(length) }))
      return problemIn(issues)
        .split('; ')
        .map(({ length }) => length)
    }
    const left = room - 3 * 1_002
    expect(reportOf(left)).to.deep.equal([1_000, 1_000, 1_000, left])
    expect(reportOf(left + 1)).to.deep.equal([1_000, 1_000, 1_000, 'and 1 more'.length])
  })

  it('a report has at most 3,800 characters', () => {
    for (const length of [10, 100, 500, 900, 1_000, 5_000]) {
      const issues = Array.from({ length: 20 }, () => ({ message: 'x'.repeat(length) }))
      const report = problemIn(issues)
      expect(report.length).to.be.at.most(3_800)
      const named = Math.min(20, Math.floor(3_800 / (Math.min(length, 1_000) + 2)))
      expect(report.split('; ').filter((part) => part.startsWith('x'))).to.have.length.within(
        named - 1,
        named,
      )
    }
  })

  it('a long path is cut to 500 characters, and a long issue to 1,000', () => {
    const report = problemIn([{ message: 'y'.repeat(2_000), path: ['x'.repeat(2_000)] }])
    expect(report).to.have.length(1_000)
    const [path = '', message] = report.split(': ')
    expect(path).to.have.length(500)
    expect(message).to.match(/^y+…?$/)
    expect(problemIn([{ message: 'm', path: Array(5_000).fill('a') }])).to.have.length(503)
  })
})
