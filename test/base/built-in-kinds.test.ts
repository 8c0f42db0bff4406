import { types as nodeTypes } from 'node:util'
import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import { kindsWithoutNode } from '../../src/base/built-in-kinds.ts'
import { thenable } from '../support/telemetry/recording.ts'

const portable = kindsWithoutNode()
const methods = Object.keys(portable) as (keyof typeof portable)[]

function forged(prototype: object, tag?: string): object {
  return Object.create(prototype, tag === undefined ? {} : { [Symbol.toStringTag]: { value: tag } })
}

/** Values by a description of them. `new` makes those of this realm, and of another one. */
const VALUES: Readonly<Record<string, string>> = {
  'a date': 'new Date(0)',
  'an invalid date': 'new Date(NaN)',
  'a map': 'new Map()',
  'a set': 'new Set()',
  'a weak map': 'new WeakMap()',
  'an object': '({})',
  'an object without a prototype': 'Object.create(null)',
  'an array': '[]',
  'a function': '(() => {})',
  'typed bytes': 'new Uint8Array(1)',
  'typed floats': 'new Float64Array(1)',
  'a data view': 'new DataView(new ArrayBuffer(1))',
  'an array buffer': 'new ArrayBuffer(1)',
  'a boxed string': 'Object("a")',
  'a boxed number': 'Object(1)',
  'a boxed boolean': 'Object(false)',
  'a boxed bigint': 'Object(1n)',
  'a boxed symbol': 'Object(Symbol())',
  'an error': 'new TypeError("x")',
  'an aggregate error': 'new AggregateError([])',
  'a subclass of Date': 'new (class extends Date {})()',
  null: 'null',
  undefined: 'undefined',
  'a string': '"a"',
  'a number': '1',
  'a bigint': '1n',
  'a symbol': 'Symbol()',
}

describe('the kinds of built-in objects without node:util', () => {
  for (const [what, code] of Object.entries(VALUES)) {
    for (const [realm, value] of [
      ['this realm', runInNewContext(`(global) => global.eval(${JSON.stringify(`(${code})`)})`)(globalThis)],
      ['another realm', runInNewContext(`(${code})`)],
    ] as const) {
      it(`${what} of ${realm} is of the same kinds without node:util as with it`, () => {
        for (const method of methods)
          expect(portable[method](value), method).to.equal(nodeTypes[method](value))
      })
    }
  }

  for (const [what, value] of [
    ['Date', forged(Date.prototype, 'Date')],
    ['Map', forged(Map.prototype, 'Map')],
    ['Set', forged(Set.prototype, 'Set')],
    ['Uint8Array', forged(Uint8Array.prototype)],
    ['String', forged(String.prototype, 'String')],
  ] as const) {
    it(`an object with the prototype of ${what} is of no built-in kind without node:util`, () => {
      for (const method of methods) expect(portable[method](value), method).to.equal(false)
    })
  }

  it('a promise of this realm is recognized without node:util, and a thenable is not', () => {
    expect(portable.isPromise(Promise.resolve())).to.equal(true)
    expect(portable.isPromise(thenable({ value: () => {} }))).to.equal(false)
  })

  it('a proxy of a date is of no built-in kind without node:util', () => {
    const proxy = new Proxy(new Date(0), {})
    for (const method of methods) expect(portable[method](proxy), method).to.equal(false)
  })
})
