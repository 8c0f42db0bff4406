import { mock } from 'node:test'
import { expect } from 'chai'
import { Places } from '../../../../src/mcp/events/webhooks/places.ts'

describe('Places', () => {
  it('messages without a place come back one after the other, as fast as places become free', () => {
    const now = mock.method(performance, 'now', () => 5_000)
    try {
      const places = new Places()
      const waits = Array.from({ length: 11 }, () => places.enter('host', 'owner'))
      expect(waits).to.deep.equal([0, 0, 0, 0, 0, 0, 0, 0, 1.25, 2.5, 3.75])
    } finally {
      now.mock.restore()
    }
  })

  it('the last quarter of the places is for owners with nothing under way', () => {
    const places = new Places()
    for (let index = 0; index < 48; index++) places.enter(`host ${index}`, `owner ${index}`)
    expect(places.enter('host', 'owner 1')).to.be.above(0)
    expect(places.enter('host', 'another owner')).to.equal(0)
  })
})
