import { expect } from 'chai'
import type { TelemetryEventSchema } from '../../../src/telemetry/events/schema.ts'
import { attributesError } from '../../../src/telemetry/events/validation.ts'

describe('attributesError()', () => {
  /** The error for attributes with so many issues. */
  function refusal(count: number) {
    const issues = Array.from({ length: count }, (_, index) => ({ message: 'm', path: [`a${index}`] }))
    const result = count === 0 ? { value: {} } : { issues }
    const schema = { '~standard': { version: 1, vendor: 'test', validate: () => result } }
    return attributesError('n.x', schema as unknown as TelemetryEventSchema, {}, false)
  }

  for (const [count, end] of [
    [1, /'a0'$/],
    [5, /'a4'$/],
    [6, /'a4', and 1 more$/],
    [1_006, /'a4', and 1,001 more$/],
  ] as const) {
    it(`attributesError() names the first five of ${count} issues, and counts the others`, () => {
      expect(refusal(count)?.message).to.match(end)
    })
  }

  it('attributesError() returns undefined for attributes that match their schema', () => {
    expect(refusal(0)).to.equal(undefined)
  })
})
