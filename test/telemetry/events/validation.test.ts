import { type } from 'arktype'
import { expect } from 'chai'
import * as v from 'valibot'
import { z } from 'zod'
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
    [1, /'a0'\. Run /],
    [5, /'a4'\. Run /],
    [6, /'a4', and 1 more\. Run /],
    [1_006, /'a4', and 1,001 more\. Run /],
  ] as const) {
    it(`an error with ${count} ${count === 1 ? 'issue' : 'issues'} names the first five and counts the others`, () => {
      expect(refusal(count)?.message).to.match(end)
    })
  }

  it('an event without attributes is valid if its schema accepts {}, although it throws for undefined', () => {
    const schema = z.preprocess((value) => Object.keys(value as object), z.array(z.string()))
    expect(attributesError('n.x', schema, undefined, false)).to.equal(undefined)
  })

  for (const [library, schema] of [
    ['zod', z.object({ cents: z.number(), note: z.string(), tags: z.array(z.string()) })],
    ['valibot', v.object({ cents: v.number(), note: v.string(), tags: v.array(v.string()) })],
    ['arktype', type({ cents: 'number', note: 'string', tags: 'string[]' })],
  ] as const) {
    it(`an error about a schema of ${library} names the expected types, but no value`, () => {
      const attributes = { cents: 'hunter2', note: 5, tags: 'hunter2' }
      const error = attributesError('n.x', schema, attributes, false)
      const places = ["'cents' (must be a number)", "'note' (must be a string)", "'tags' (must be an array)"]
      for (const place of places) expect(error?.message).to.contain(place)
      expect(error?.message).not.to.match(/hunter2/)
      expect(error?.details).to.deep.equal({
        issues: ['cents', 'note', 'tags'].map((key) => ({ path: [key] })),
      })
    })
  }

  it('an error names an expected type only if it is a known type, because an issue may quote a value', () => {
    for (const expected of ['hunter2', 'number hunter2', 'constructor', '__proto__', 5, null, {}]) {
      const issues = [{ message: 'm', path: ['a'], expected }]
      const schema = { '~standard': { version: 1, vendor: 'test', validate: () => ({ issues }) } }
      const error = attributesError('n.x', schema as unknown as TelemetryEventSchema, {}, false)
      expect(error?.message).to.match(/at 'a'\. Run /)
    }
  })
})
