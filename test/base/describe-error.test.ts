import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import { describeThrown, isError } from '../../src/base/describe-error.ts'
import { runs } from '../support/runs.ts'

const fail = (): never => {
  throw new Error('This object must not be read.')
}

/** Returns a proxy whose traps all throw. */
const hostile = (target: object): object =>
  new Proxy(target, {
    get: fail,
    has: fail,
    ownKeys: fail,
    getPrototypeOf: fail,
    getOwnPropertyDescriptor: fail,
  })

function revoked(target: object): object {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

/** Returns an error with one member that throws when it is read. */
const unreadable = (member: string): Error => Object.defineProperty(new Error('boom'), member, { get: fail })

const describe_ = (thrown: unknown) =>
  describeThrown(
    thrown,
    (text) => text,
    (object) => {
      try {
        return JSON.stringify(object)
      } catch {
        return undefined
      }
    },
  )

describe('describeThrown()', () => {
  const TABLE: readonly (readonly [what: string, thrown: unknown, name: string, message: string])[] = [
    ['a string', 'text', 'Error', 'text'],
    ['an empty string', '', 'Error', ''],
    ['undefined', undefined, 'Error', 'undefined'],
    ['null', null, 'Error', 'null'],
    ['a number', -0.5, 'Error', '-0.5'],
    ['a bigint', 5n, 'Error', '5'],
    ['a boolean', false, 'Error', 'false'],
    ['a symbol', Symbol('sign'), 'Error', 'Symbol(sign)'],
    ['a function', () => 1, 'Error', '[function]'],
    ['a frozen object', Object.freeze({ reason: 'full' }), 'Error', '{"reason":"full"}'],
    [
      'an object with the members of an error',
      { name: 'HttpError', message: 'gone', code: 410 },
      'HttpError',
      'gone',
    ],
    ['an object without a prototype', Object.assign(Object.create(null), { a: 1 }), 'Error', '{"a":1}'],
    ['an array', ['a', 1], 'Error', '["a",1]'],
    [
      'a cycle',
      (() => {
        const one: { self?: unknown } = {}
        one.self = one
        return one
      })(),
      'Error',
      '[object]',
    ],
    ['a proxy that throws', hostile({}), 'Error', '[object]'],
    ['a proxy of a function that throws', hostile(() => 1), 'Error', '[function]'],
    ['a revoked proxy', revoked({}), 'Error', '[object]'],
    ['an error of another realm', runInNewContext('new RangeError("far")'), 'RangeError', 'far'],
    ['an error whose message throws', unreadable('message'), 'Error', ''],
    ['an error whose name throws', unreadable('name'), 'Error', 'boom'],
    ['an error whose stack throws', unreadable('stack'), 'Error', 'boom'],
    ['an error whose code throws', unreadable('code'), 'Error', 'boom'],
    ['an error whose cause throws', unreadable('cause'), 'Error', 'boom'],
    [
      'an error whose message has no string form',
      Object.assign(new Error(), { message: hostile({}) }),
      'Error',
      '',
    ],
  ]
  for (const [what, thrown, name, message] of TABLE) {
    it(`describeThrown() returns the name and the message of ${what}`, () => {
      const { name: actualName, message: actualMessage } = describe_(thrown)
      expect({ name: actualName, message: actualMessage }).to.deep.equal({ name, message })
    })
  }

  it('describeThrown() adds the errors of an AggregateError to the stack', () => {
    const aggregate = new AggregateError([new TypeError('one'), 'two', { secret: 3 }], 'all failed')
    const { stack } = describe_(aggregate)
    expect(stack).to.match(/^AggregateError: all failed\n/)
    expect(stack).to.match(/\nError 1 of 3: TypeError: one\n/)
    expect(stack).to.match(/\nError 2 of 3: two\nError 3 of 3: \[object\]$/)
  })

  it('describeThrown() stops at a cyclic cause', () => {
    const [one, two] = [new Error('one'), new Error('two')]
    one.cause = two
    two.cause = one
    expect(describe_(one).stack).to.match(/Caused by: Error: two\n[\s\S]*\nCaused by: \[Circular\]$/)
  })

  it('describeThrown() reads at most 16 causes of a long chain', () => {
    let error = new Error('0')
    for (let index = 1; index <= 10_000; index++) error = new Error(String(index), { cause: error })
    expect(describe_(error).stack?.match(/Caused by/g)).to.have.lengthOf(16)
  })

  it('describeThrown() reads at most 16 errors of nested AggregateErrors', () => {
    const wide = () =>
      new AggregateError(
        Array.from({ length: runs(100_000) }, () => new Error('x')),
        'wide',
      )
    const { stack } = describe_(new AggregateError([wide(), wide()], 'outer'))
    expect(stack?.match(/\nError \d+ of/g)).to.have.lengthOf(16)
  })

  it('describeThrown() does not add causes to a stack of a megabyte', () => {
    let error = new Error('x'.repeat(1_200_000))
    for (let index = 1; index <= 16; index++) error = new Error('x'.repeat(1_200_000), { cause: error })
    expect(describe_(error).stack?.match(/Caused by/g)).to.have.lengthOf(1)
  })

  it('describeThrown() cuts a name and a code at 256 characters', () => {
    const { name, code } = describe_(
      Object.assign(new Error('x'), { name: 'n'.repeat(1e6), code: 'c'.repeat(1e6) }),
    )
    expect([name.length, code?.length]).to.deep.equal([256, 256])
  })
})

describe('describeThrown() with its defaults', () => {
  it('describeThrown() returns no stack if the error has neither a stack nor a cause', () => {
    expect(describeThrown(Object.assign(new Error('x'), { stack: undefined }))).to.deep.equal({
      name: 'Error',
      message: 'x',
    })
  })
})

describe('isError()', () => {
  it('isError() recognizes errors of another realm, and never throws', () => {
    expect(isError(runInNewContext('new Error()'))).to.equal(true)
    for (const value of [revoked({}), hostile({}), 'x', undefined, {}]) expect(isError(value)).to.equal(false)
  })
})
