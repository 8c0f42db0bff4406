import { expect } from 'chai'

const KINDS = ['isBoxedPrimitive', 'isStringObject', 'isDate', 'isMap', 'isTypedArray', 'isNativeError']

describe('built-in kinds in a runtime without node:util', () => {
  it('recognize objects of their kind only', async () => {
    const { getBuiltinModule } = process
    process.getBuiltinModule = () => undefined as never
    try {
      const { href } = new URL('../../src/base/built-in-kinds.js?without-node-util', import.meta.url)
      const { types } = await import(href)
      const kindsOf = (value: unknown) => KINDS.filter((kind) => types[kind](value))
      expect(kindsOf(Object('a'))).to.deep.equal(['isBoxedPrimitive', 'isStringObject'])
      expect([new Date(0), new Map(), new Uint8Array(), new TypeError()].map(kindsOf)).to.deep.equal(
        KINDS.slice(2).map((kind) => [kind]),
      )
      expect(['a', 5, null, {}, new WeakMap(), { name: 'Error' }].flatMap(kindsOf)).to.deep.equal([])
    } finally {
      process.getBuiltinModule = getBuiltinModule
    }
  })
})
