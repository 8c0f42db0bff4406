import { expect } from 'chai'
import fc from 'fast-check'
import { ScopeHierarchy, unionOfScopes } from '../../src/oauth/scope.ts'

const scope = fc.constantFrom('a', 'b', 'c', 'd', 'e', '__proto__', 'constructor')
const scopes = fc.uniqueArray(scope)

describe('scopes', () => {
  it('scopes satisfy exactly the scopes that they imply transitively, in every hierarchy', () => {
    const hierarchy = fc.dictionary(scope, scopes, { noNullPrototype: false })
    fc.assert(
      fc.property(hierarchy, scopes, scopes, (implies, granted, required) => {
        const reached = new Set(granted)
        for (let size = -1; size !== reached.size; ) {
          size = reached.size
          for (const one of [...reached]) {
            if (!Object.hasOwn(implies, one)) continue
            for (const narrower of implies[one] ?? []) reached.add(narrower)
          }
        }
        expect(new ScopeHierarchy(implies).satisfies(granted, required)).to.equal(
          required.every((one) => reached.has(one)),
        )
      }),
      { numRuns: 1_000 },
    )
  })

  it('unionOfScopes joins lists in order, each scope once', () => {
    expect(unionOfScopes()).to.deep.equal([])
    expect(unionOfScopes([], ['b', 'a'], [])).to.deep.equal(['b', 'a'])
    expect(unionOfScopes(['b', 'a'], ['a', 'c'], ['b'])).to.deep.equal(['b', 'a', 'c'])
  })

  it('unionOfScopes returns the only list that has scopes, without a copy', () => {
    const list = ['b', 'a']
    expect(unionOfScopes([], list, [])).to.equal(list)
  })
})
