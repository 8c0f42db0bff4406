import { expect } from 'chai'
import { isServed, methodNamed, SERVED_METHODS } from '../../src/mcp/methods.ts'

describe('the table of methods', () => {
  it('a method of the prototype of objects is unknown', () => {
    for (const name of [
      '__proto__',
      'constructor',
      'toString',
      'hasOwnProperty',
      ['tools/call'],
      undefined,
    ]) {
      expect(methodNamed(name), String(name)).to.equal(undefined)
      expect(isServed(name), String(name)).to.equal(false)
    }
  })

  it('the policy decides about each method that may be public and names one operation, except completions', () => {
    for (const name of SERVED_METHODS) {
      const { names, anonymous, hasPolicy = false } = methodNamed(name) ?? {}
      if (anonymous !== 'public' || names === 'skills' || names === 'reference')
        expect(hasPolicy, name).to.equal(false)
      else expect(hasPolicy, name).to.equal(true)
    }
  })

  it('a method that names an operation is never open to all requests without a token', () => {
    for (const name of SERVED_METHODS) {
      const { names, anonymous } = methodNamed(name) ?? {}
      if (names !== undefined) expect(anonymous, name).to.not.equal('all')
    }
  })
})
