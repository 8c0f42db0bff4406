import { expect } from 'chai'
import { Entries } from '../../../src/mcp/router/entries.ts'

describe('Entries', () => {
  const one = Entries.empty<string>().with(['a'], 'A')
  const two = one.with(['b', 'c'], 'B')

  it('Entries has the entries of its chain in the order in which they were added', () => {
    expect(Entries.empty<string>().toArray()).to.deep.equal([])
    expect(one.toArray()).to.deep.equal(['A'])
    expect(two.with(['d'], 'C').with(['e'], 'D').toArray()).to.deep.equal(['A', 'B', 'C', 'D'])
  })

  it('Entries has every key of its entries, and no key that was added later', () => {
    expect(['a', 'b', 'c', 'd'].filter((key) => two.has(key))).to.deep.equal(['a', 'b', 'c'])
    expect(['a', 'b', 'c', 'd'].filter((key) => one.has(key))).to.deep.equal(['a'])
  })

  it('Entries is not changed by a second branch of its chain', () => {
    const branch = one.with(['d'], 'C')
    expect(branch.toArray()).to.deep.equal(['A', 'C'])
    expect(['a', 'b', 'd'].filter((key) => branch.has(key))).to.deep.equal(['a', 'd'])
    expect(two.toArray()).to.deep.equal(['A', 'B'])
    expect(two.has('d')).to.equal(false)
  })
})
