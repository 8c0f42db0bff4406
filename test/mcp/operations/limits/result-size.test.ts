import { expect } from 'chai'
import fc from 'fast-check'
import { bytesBeyond } from '../../../../src/mcp/operations/limits/limited-tool.ts'
import { runs } from '../../../support/runs.ts'

const text = fc.string({
  unit: fc.oneof(fc.constantFrom('a', '"', '\u0000', '\ud800', 'é', '中'), fc.string()),
})
const result = fc.oneof(
  text.map((one) => ({ content: [{ type: 'text', text: one }] })),
  text.map((one) => ({ content: [{ type: 'text', text: one }], isError: true })),
  fc.record({
    content: fc.array(
      text.map((one) => ({ type: 'text', text: one })),
      { maxLength: 3 },
    ),
  }),
  fc.record({ content: fc.constant([]), structuredContent: fc.dictionary(text, text) }),
  fc.record({ content: fc.constant([{ type: 'text', text: 'x' }]), _meta: fc.dictionary(text, text) }),
  fc.constant({ content: [{ type: 'image', data: 'a'.repeat(500), mimeType: 'image/png' }] }),
  fc.constant({ content: [{ type: 'text', text: 'x', annotations: { audience: ['user'] } }] }),
)

describe('mcp: the size of a result', () => {
  it('a result is too large exactly if its JSON has more UTF-8 bytes than the limit', () => {
    fc.assert(
      fc.property(result, fc.integer({ min: -150, max: 150 }), (one, difference) => {
        const bytes = Buffer.byteLength(JSON.stringify(one))
        const max = Math.max(1, bytes + difference)
        expect(bytesBeyond(one, max)).to.equal(bytes > max ? bytes : undefined)
      }),
      { numRuns: runs(500) },
    )
  })
})
