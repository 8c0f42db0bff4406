import { expect } from 'chai'
import fc from 'fast-check'
import { OwnerSlots } from '../../../../src/mcp/wire/owner-slots.ts'

describe('mcp: OwnerSlots', () => {
  it('OwnerSlots returns the limit that an owner has reached', () => {
    const slots = new OwnerSlots({ max: 3, maxPerOwner: 2 })
    slots.take('a')
    const giveBack = slots.take('a')
    expect(slots.exhausted('a')).to.equal('owner')
    expect(slots.exhausted('b')).to.equal(undefined)
    slots.take('b')
    expect(slots.exhausted('b')).to.equal('all')
    expect(slots.exhausted(undefined)).to.equal('all')
    giveBack()
    giveBack()
    expect(slots.exhausted('a')).to.equal(undefined)
    slots.take(undefined)
    expect(slots.exhausted('a')).to.equal('all')
  })

  it('OwnerSlots forgets every owner once all slots are given back, in any order', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom('a', 'b', undefined), fc.nat())), (takes) => {
        const slots = new OwnerSlots({ max: 1, maxPerOwner: 1 })
        const held = takes.map(([owner, order]) => ({ giveBack: slots.take(owner), order }))
        for (const { giveBack } of held.sort((one, other) => one.order - other.order)) giveBack()
        expect(slots.owners).to.equal(0)
        expect(slots.exhausted('a')).to.equal(undefined)
      }),
    )
  })
})
