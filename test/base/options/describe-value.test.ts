import { expect } from 'chai'
import { describeKind, describeValue, quotedName } from '../../../src/base/options/describe-value.ts'

class Client {}

/** Returns a class with a name that can be anything. */
function named(name: unknown): new () => object {
  return Object.defineProperty(class {}, 'name', { value: name }) as new () => object
}

/** A proxy that does not want to be looked at. */
const hostile = new Proxy(
  {},
  {
    ownKeys() {
      throw new Error('no')
    },
    getPrototypeOf() {
      throw new Error('no')
    },
  },
)

const TABLE: readonly (readonly [given: unknown, description: string, kind: string])[] = [
  [undefined, 'undefined', 'undefined'],
  [null, 'null', 'null'],
  [true, 'true', 'a boolean'],
  [5, '5', 'a number'],
  [-0, '-0', 'a number'],
  [Number.NaN, 'NaN', 'a number'],
  [12n, 'a bigint', 'a bigint'],
  [Symbol('s'), 'a symbol', 'a symbol'],
  ['', 'an empty string', 'an empty string'],
  ['x', "'x'", 'a string of 1 character'],
  ['mcp:read mcp:write', "'mcp:read mcp:write'", 'a string of 18 characters'],
  ['a\r\nb\u202e', "'a\\u{d}\\u{a}b\\u{202e}'", 'a string of 5 characters'],
  ['x'.repeat(33), 'a string of 33 characters', 'a string of 33 characters'],
  ['ada:pw@host', 'a string of 11 characters', 'a string of 11 characters'],
  ['/path?key=1', 'a string of 11 characters', 'a string of 11 characters'],
  ['http://a.test:8080', "'http://a.test:8080'", 'a string of 18 characters'],
  ['HTTPS://ada:pw@a.test/x?y#z', "'https://a.test/…'", 'a string of 27 characters'],
  [`https://${'a'.repeat(59)}.test`, `'https://${'a'.repeat(51)}…'`, 'a string of 72 characters'],
  [[], 'an empty array', 'an empty array'],
  [['x'], 'an array of 1 item', 'an array of 1 item'],
  [{}, 'an empty object', 'an empty object'],
  [{ a: 1, b: 2 }, 'an object with 2 members', 'an object with 2 members'],
  [Object.create(null), 'an empty object', 'an empty object'],
  [{ constructor: { name: 'S3cr3t' } }, 'an object with 1 member', 'an object with 1 member'],
  [new Client(), 'a Client', 'a Client'],
  [new Error('S3cr3t'), 'an Error', 'an Error'],
  [Promise.resolve(), 'a Promise', 'a Promise'],
  [Buffer.from('S3cr3t'), 'a Buffer of 6 bytes', 'a Buffer of 6 bytes'],
  [new Uint8Array(0), 'an empty Uint8Array', 'an empty Uint8Array'],
  [() => 'S3cr3t', 'a function', 'a function'],
  [Client, 'the class Client', 'the class Client'],
  [hostile, 'an object', 'an object'],
  ['x'.repeat(32), `'${'x'.repeat(32)}'`, 'a string of 32 characters'],
  [new (named('A'.repeat(60)))(), `an ${'A'.repeat(60)}`, `an ${'A'.repeat(60)}`],
  [new (named('A'.repeat(61)))(), 'an empty object', 'an empty object'],
  [new (named(['S3cr3t']))(), 'an empty object', 'an empty object'],
]

describe('the description of an option value', () => {
  for (const [given, description, kind] of TABLE) {
    it(`an option value is described as: ${description}`, () => {
      expect(describeValue(given)).to.equal(description)
      expect(describeKind(given)).to.equal(kind)
    })
  }

  it('a quoted name has at most 60 characters', () => {
    expect(quotedName('a'.repeat(60))).to.equal(`'${'a'.repeat(60)}'`)
    expect(quotedName('a'.repeat(61))).to.equal(`'${'a'.repeat(59)}…'`)
  })
})
