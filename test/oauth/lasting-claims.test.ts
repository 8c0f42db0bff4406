import { expect } from 'chai'
import fc from 'fast-check'
import { lastingClaims } from '../../src/oauth/lasting-claims.ts'

describe('lastingClaims', () => {
  const user = { id: 'ada', claims: { sub: 'ada', roles: ['a', 'b'], address: { city: 'x', zip: 1 } } }

  for (const [what, other] of [
    ['an equal value', structuredClone(user)],
    [
      'members in another order',
      { claims: { address: { zip: 1, city: 'x' }, roles: ['a', 'b'], sub: 'ada' }, id: 'ada' },
    ],
    ['other times and another id of the token', { ...user, exp: 1, iat: 2, nbf: 3, jti: '4', auth_time: 5 }],
    [
      'other times at any depth',
      { id: 'ada', claims: { ...user.claims, exp: 9, address: { city: 'x', zip: 1, iat: 5 } } },
    ],
    ['members that JSON leaves out', { ...user, none: undefined, method() {} }],
  ] as const)
    it(`two values are equal: ${what}`, () => expect(lastingClaims(other)).to.equal(lastingClaims(user)))

  for (const [what, other] of [
    ['another member', { ...user, admin: true }],
    ['a member less', { id: 'ada' }],
    ['another value at depth 3', { id: 'ada', claims: { ...user.claims, address: { city: 'y', zip: 1 } } }],
    [
      'a number instead of a string',
      { id: 'ada', claims: { ...user.claims, address: { city: 'x', zip: '1' } } },
    ],
    ['a list in another order', { id: 'ada', claims: { ...user.claims, roles: ['b', 'a'] } }],
    ['a member named __proto__', JSON.parse('{"id":"ada","__proto__":{"admin":true}}')],
    ['null', null],
    ['its own JSON', JSON.stringify(user)],
  ] as const)
    it(`two values are different: ${what}`, () =>
      expect(lastingClaims(other)).not.to.equal(lastingClaims(user)))

  it('the entries of a Map and of a Set count', () => {
    for (const Collection of [Map, Set] as const) {
      const made = (name: string) => lastingClaims({ roles: new (Collection as MapConstructor)([[name, 1]]) })
      expect(made('a')).to.equal(made('a'))
      expect(made('a')).not.to.equal(made('b'))
    }
  })

  const cycle: Record<string, unknown> = {}
  cycle.one = cycle
  cycle.other = [cycle, cycle]
  let tree: unknown = 'leaf'
  for (let level = 0; level < 40; level++) tree = { a: tree, b: tree }
  let deep: unknown = {}
  for (let level = 0; level < 100_000; level++) deep = { deep }
  for (const [what, value] of [
    ['a cycle', cycle],
    ['an object that is shared a trillion times', tree],
    ['100,000 levels', deep],
    ['2 MB of text', { text: 'x'.repeat(2_000_000) }],
    [
      '2 MB of names',
      Object.fromEntries(Array.from({ length: 20_000 }, (_, id) => [`${id}`.padEnd(100, 'x'), 1])),
    ],
    ['a BigInt', { id: 1n }],
    ['a function', () => 'x'],
    [
      'a getter that throws',
      {
        get id() {
          throw new Error('x')
        },
      },
    ],
    [
      'a toJSON that throws',
      {
        toJSON() {
          throw new Error('x')
        },
      },
    ],
    [
      'a Proxy that throws',
      new Proxy(
        {},
        {
          ownKeys() {
            throw new Error('x')
          },
        },
      ),
    ],
  ] as const)
    it(`a value with ${what} equals no value, not even itself`, function () {
      this.timeout(5_000)
      expect(lastingClaims(value)).not.to.equal(lastingClaims(value))
      expect(lastingClaims(value)).to.have.length.at.most(100)
    })

  /** The size is 1 for each value, and the characters of strings and names. */
  for (const [what, made] of [
    ['a string', (size: number) => 'x'.repeat(size - 1)],
    ['a name', (size: number) => ({ ['x'.repeat(size - 2)]: 1 })],
    ['names and strings', (size: number) => ({ id: 'x'.repeat(size - 6), a: 1 })],
    ['an array of strings', (size: number) => ['x'.repeat(size - 6), 'y']],
  ] as const)
    it(`${what} of size 1,048,576 equals itself, and one of size 1,048,577 does not`, () => {
      expect(lastingClaims(made(1_048_576))).to.equal(lastingClaims(made(1_048_576)))
      expect(lastingClaims(made(1_048_577))).not.to.equal(lastingClaims(made(1_048_577)))
    })

  it('a number that JSON.parse may have rounded equals itself, unless exact numbers are asked for', () => {
    expect(lastingClaims({ id: 2 ** 53 })).to.equal(lastingClaims({ id: 2 ** 53 }))
    expect(lastingClaims({ id: 2 ** 53 }, true)).not.to.equal(lastingClaims({ id: 2 ** 53 }, true))
    expect(lastingClaims({ id: 2 ** 53 - 1 }, true)).to.equal(lastingClaims({ id: 2 ** 53 - 1 }, true))
  })

  it('two JSON values are equal if and only if their canonical JSON is equal', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (one, other) => {
        expect(lastingClaims(JSON.parse(JSON.stringify(one)))).to.equal(lastingClaims(one))
        if (lastingClaims(one) === lastingClaims(other)) expect(other).to.deep.equal(one)
      }),
    )
  })

  it('the result for a long value is short, and differs for another long value', () => {
    const long = (last: string) => lastingClaims({ text: 'x'.repeat(100_000) + last })
    expect(long('a')).to.equal(long('a'))
    expect(long('a')).not.to.equal(long('b'))
    expect(long('a')).to.have.length.at.most(100)
  })
})
