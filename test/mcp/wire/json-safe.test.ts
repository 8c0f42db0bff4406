import { expect } from 'chai'
import fc from 'fast-check'
import { checkJson, plainCopy } from '../../../src/mcp/wire/json-safe.ts'

const jsonOf = (value: unknown) => JSON.stringify(value)

describe('plainCopy()', () => {
  const TABLE: readonly (readonly [what: string, value: unknown])[] = [
    ['primitive values', [1, 'x', true, null, undefined, Number.NaN]],
    ['members that JSON leaves out', { a: undefined, b: () => 1, c: Symbol('x'), d: 1 }],
    [
      'dates and other objects with toJSON',
      { date: new Date(0), own: { toJSON: (key: string) => `at ${key}` } },
    ],
    ['a toJSON that returns an object with a toJSON', { toJSON: () => ({ a: 1, toJSON: () => 2 }) }],
    ['a toJSON that returns its own object', Object.assign([1], { toJSON: () => [2] })],
    ['boxed values', [new String('x'), new Number(1), new Boolean(false)]],
    ['maps, sets, and class instances', [new Map([[1, 2]]), new Set([1]), new URL('http://x/')]],
    ['arrays with holes', Object.assign(new Array(3), { 1: 'x' })],
    ['an array with a method of its own', Object.assign([1], { map: () => 'not this' })],
    ['a key __proto__', JSON.parse('{"__proto__":{"a":1},"b":2}')],
    ['a proxy', new Proxy({ a: [1] }, {})],
  ]
  for (const [what, value] of TABLE) {
    it(`plainCopy() has the JSON form of ${what}`, () =>
      expect(jsonOf(plainCopy(value))).to.equal(jsonOf(value)))
  }

  it('plainCopy() has the JSON form of any JSON value, and shares no object with it', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        checkJson(value)
        const copy = plainCopy(value)
        // Compared as JSON, which writes -0 as 0.
        expect(JSON.stringify(copy)).to.equal(JSON.stringify(value))
        if (typeof value === 'object' && value !== null) expect(copy).not.to.equal(value)
      }),
    )
  })
})
