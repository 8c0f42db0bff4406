import { expect } from 'chai'
import fc from 'fast-check'
import { isTooDeepValue, MAX_JSON_DEPTH, parsedBytes } from '../../../src/mcp/wire/json-rpc.ts'

const wrapped = (levels: number, open: string, close: string, inner = '1'): string =>
  open.repeat(levels) + inner + close.repeat(levels)

function isTooDeepText(text: string): boolean {
  const bytes = parsedBytes(text)
  if (bytes !== 'too-deep') expect(bytes).to.be.a('number')
  return bytes === 'too-deep'
}

/** The definition, without regard for its cost. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  return 1 + Math.max(0, ...Object.values(value).map(depthOf))
}

describe('JSON depth', () => {
  for (const [what, open, close] of [
    ['arrays', '[', ']'],
    ['objects', '{"a":', '}'],
    ['spaced arrays', ' [ ', ' ] '],
    ['objects whose keys hold brackets and quotation marks', '{"}]\\"":', '}'],
    ['objects whose keys end with a backslash', '{"\\\\":', '}'],
    ['members after strings that hold brackets', '["[[[",1,', ']'],
  ] as const) {
    it(`JSON may have ${MAX_JSON_DEPTH} levels of ${what}, and not more`, () => {
      for (const levels of [1, MAX_JSON_DEPTH - 1, MAX_JSON_DEPTH, MAX_JSON_DEPTH + 1, 20_000]) {
        const text = wrapped(levels, open, close)
        const isTooDeep = levels > MAX_JSON_DEPTH
        expect(isTooDeepText(text), `text of ${levels}`).to.equal(isTooDeep)
        expect(isTooDeepValue(JSON.parse(text)), `value of ${levels}`).to.equal(isTooDeep)
      }
    })
  }

  it('the depth of JSON includes neither brackets in strings nor consecutive values', () => {
    const strings = JSON.stringify(['['.repeat(1_000), '\\"{'.repeat(1_000), '"['.repeat(1_000)])
    const siblings = JSON.stringify(Array.from({ length: 1_000 }, () => [{}]))
    for (const text of [strings, siblings]) {
      expect(isTooDeepText(text)).to.equal(false)
      expect(isTooDeepValue(JSON.parse(text))).to.equal(false)
    }
  })

  for (const [what, text] of [
    ['brackets that never close', '['.repeat(1_000)],
    ['brackets that close too often', `${wrapped(1_000, '[', ']')}]`],
    ['a string that never ends', `${'['.repeat(1_000)}"${']'.repeat(1_000)}`],
  ] as const) {
    it(`the depth of a string that is not JSON is not counted: ${what}`, () =>
      expect(parsedBytes(text)).to.equal('not-json'))
  }

  it('the depth is the same for JSON and for its parsed value', () => {
    const json = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 4, withCrossShrink: true },
        fc.oneof(fc.string({ unit: fc.constantFrom('[', '{', '"', '\\', '}', ']', 'a') }), fc.integer()),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(fc.string({ unit: fc.constantFrom('[', '"', '\\', 'a') }), tie('value'), {
          maxKeys: 3,
        }),
      ),
    })).value
    fc.assert(
      fc.property(json, fc.integer({ min: MAX_JSON_DEPTH - 6, max: MAX_JSON_DEPTH }), (inner, levels) => {
        const text = wrapped(levels, '[', ']', JSON.stringify(inner))
        const expected = levels + depthOf(inner) > MAX_JSON_DEPTH
        expect(isTooDeepText(text)).to.equal(expected)
        expect(isTooDeepValue(JSON.parse(text))).to.equal(expected)
      }),
    )
  })

  it('the depth of a value that contains itself is not accepted', () => {
    const value: Record<string, unknown> = {}
    value.self = [value]
    expect(isTooDeepValue(value)).to.equal(true)
  })
})
