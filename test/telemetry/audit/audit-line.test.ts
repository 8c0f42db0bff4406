import { expect } from 'chai'
import fc from 'fast-check'
import { CanonicalForm, messageOf } from '../../../src/telemetry/audit/audit-line.ts'
import { anyCharacter } from '../../support/any-character.ts'
import { runs } from '../../support/runs.ts'

const canonical = (value: unknown): string => new CanonicalForm().of({ value })

describe('the canonical form of an audited line', () => {
  it('only the MAC of the attributes is left out, and it counts as a member', () => {
    const form = new CanonicalForm()
    const mac = { 'kit.audit.mac': 'x' }
    const line = { attributes: { ...mac, nested: { attributes: mac } }, error: { attributes: mac } }
    expect(form.of(line)).to.equal(
      '{"attributes":{"nested":{"attributes":{"kit.audit.mac":"x"}}},"error":{"attributes":{"kit.audit.mac":"x"}}}',
    )
    expect(form.members).to.equal(8)
  })

  it('it is printable ASCII and the same after the JSON was written and read again', () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: anyCharacter }), (value) => {
        const form = canonical(value)
        expect(form).to.match(/^[ -~]*$/)
        expect(canonical(JSON.parse(JSON.stringify(value)))).to.equal(form)
      }),
      { numRuns: runs(1000) },
    )
  })

  it('two values have the same form only if they are the same JSON', () => {
    const sorted = (value: unknown): unknown => {
      if (Array.isArray(value)) return { array: value.map(sorted) }
      if (typeof value !== 'object' || value === null) return { value: Object.is(value, -0) ? 0 : value }
      return {
        members: Object.entries(value)
          .map(([key, member]) => JSON.stringify([key, sorted(member)]))
          .sort(),
      }
    }
    const value = fc.jsonValue({ maxDepth: 2 })
    fc.assert(
      fc.property(value, value, (one, other) => {
        const same = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other))
        expect(canonical(one) === canonical(other)).to.equal(same)
      }),
      { numRuns: runs(1000) },
    )
  })

  it('a value of 65 levels is rejected', () => {
    const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels))
    expect(canonical(nested(64))).to.have.length.above(64)
    expect(() => canonical(nested(65))).to.throw(RangeError)
  })

  it('a message begins with the format and the previous MAC', () => {
    expect(messageOf('ab', '{}')).to.equal('kit.audit.1\nab\n{}')
  })
})
