import { createHash, createHmac } from 'node:crypto'
import { expect } from 'chai'
import fc from 'fast-check'
import type { TelemetryRedactionPolicy } from '../../../src/telemetry/index.ts'
import { runs } from '../../support/runs.ts'
import { emitted } from '../../support/telemetry/recording.ts'

const sha256 = (text: string) => createHash('sha256').update(text, 'utf8').digest('hex')
const redacted = (attributes: object, policy: TelemetryRedactionPolicy) =>
  emitted({ attributes }, (builder) => builder.withRedaction(policy)).attributes as Record<string, unknown>

describe('redaction', () => {
  describe('finds keys', () => {
    const table: [string, object, object][] = [
      [
        'password',
        { password: 1, Password: 2, PASSWORD: 3, user_password: 4, passwords: 5 },
        { user_password: 4, passwords: 5 },
      ],
      ['PassWord', { password: 1, a: 2 }, { a: 2 }],
      ['*ab*ab*', { ab: 1, abab: 2, xabyabz: 3, aab: 4 }, { ab: 1, aab: 4 }],
      ['a*a', { a: 1, aa: 2, aba: 3 }, { a: 1 }],
      ['a*bc*c', { abc: 1, abcc: 2, abxc: 3, axbcxc: 4 }, { abc: 1, abxc: 3 }],
      ['a*b*c', { abc: 1, ac: 2, acb: 3 }, { ac: 2, acb: 3 }],
      [
        'password',
        { 'ctx.password.hint': 1, 'ctx.password': 2, 'password.x': 3, 'ctx.passwordx': 4 },
        { 'ctx.passwordx': 4 },
      ],
      ['password', { a: { b: [{ password: 1, c: 2 }, [{ PASSWORD: 3 }]] } }, { a: { b: [{ c: 2 }, [{}]] } }],
      [
        'user.email',
        { user: { email: 1, name: 2 }, email: 3, 'user.email': 4, 'a.user.email.b': 5 },
        { user: { name: 2 }, email: 3 },
      ],
      [
        'user.email',
        { users: { email: 1 }, user: { x: { email: 2 } } },
        { users: { email: 1 }, user: { x: { email: 2 } } },
      ],
      ['user.email', { user: [{ email: 1, a: 2 }] }, { user: [{ a: 2 }] }],
      ['User.Email', { 'my.user': { 'email.home': 1, a: 2 } }, { 'my.user': { a: 2 } }],
      ['a.b.c', { a: { b: { c: 1, d: 2 } }, x: { a: { 'b.c': 3 } } }, { a: { b: { d: 2 } }, x: { a: {} } }],
      ['__proto__', JSON.parse('{"__proto__": 1, "a": 2}'), { a: 2 }],
      ['σς', { ΣΣ: 1, σσ: 2 }, {}],
      ['cookie', { raw: ['Cookie', 'x', 'Host', 'h'] }, { raw: ['Cookie', null, 'Host', 'h'] }],
      ['cookie', { raw: [':path', '/', 'cookie', 'x'] }, { raw: [':path', '/', 'cookie', null] }],
      [
        'user id',
        {
          pairs: [
            ['user id', { a: 1 }],
            ['b', 2],
          ],
        },
        {
          pairs: [
            ['user id', null],
            ['b', 2],
          ],
        },
      ],
      ['user.email', { pairs: [['user', { email: 1, a: 2 }]] }, { pairs: [['user', { a: 2 }]] }],
      [
        'cookie',
        { words: ['cookie', 'not a name', 'two words', 'x'] },
        { words: ['cookie', 'not a name', 'two words', 'x'] },
      ],
      [
        'pin',
        {
          list: [
            { value: 1, name: 'pin' },
            { key: 'PIN', value: 2, a: 3 },
          ],
        },
        { list: [{ name: 'pin' }, { key: 'PIN', a: 3 }] },
      ],
      [
        'pin',
        {
          list: [
            new Map<string, unknown>([
              ['name', 'pin'],
              ['value', 1],
            ]),
          ],
        },
        { list: [{ name: 'pin' }] },
      ],
      ['value', { list: [{ name: 'a', value: 1 }] }, { list: [{ name: 'a' }] }],
      [
        'pin',
        { list: [{ name: 'pins', value: 1 }], one: ['pin'] },
        { list: [{ name: 'pins', value: 1 }], one: ['pin'] },
      ],
      ['cookie', { headers: new Headers({ cookie: 'x', a: '1' }) }, { headers: { a: '1' } }],
      [
        '.password',
        { '': { password: 1, a: 2 }, password: 3, '.password': 4 },
        { '': { a: 2 }, password: 3 },
      ],
      [
        'a..b',
        { a: { '': { b: 1, c: 2 } }, 'a.': { b: 3 }, 'a..b': 4, a_: 5 },
        { a: { '': { c: 2 } }, 'a.': {}, a_: 5 },
      ],
      ['a.', { a: { '': 1, b: 2 }, 'a.': 3, ab: 4 }, { a: { b: 2 }, ab: 4 }],
      [
        '..',
        { '': { '': { '': 1, a: 2 } }, b: { '': { '': 3 } } },
        { '': { '': { a: 2 } }, b: { '': { '': 3 } } },
      ],
      [
        '*password*',
        { user_password: 1, PasswordHint: 2, 'a.x-password.b': 3, passwor: 4, a: { xPASSWORDx: 5 } },
        { passwor: 4, a: {} },
      ],
      ['*token', { token: 1, accessToken: 2, tokens: 3, 'token.b': 4 }, { tokens: 3 }],
      ['x*y*z', { xyz: 1, xaybz: 2, xyyz: 3, xz: 4, yxyz: 5, 'xy.z': 6 }, { xz: 4, yxyz: 5, 'xy.z': 6 }],
      ['a*a', { a: 1, aa: 2, aba: 3 }, { a: 1 }],
      [
        'user.*',
        { user: { a: 1, b: [{ c: 2 }] }, 'user.': 3, user_a: 4, 'users.a': 5 },
        { user: {}, user_a: 4, 'users.a': 5 },
      ],
      [
        '*.id*.x',
        { a: { id1: { x: 1, y: 2 } }, id: { x: 3 }, 'a.id.x': 4, b: { c: { ID: { x: 5 } } } },
        { a: { id1: { y: 2 } }, id: { x: 3 }, b: { c: { ID: {} } } },
      ],
      ['*', { a: 1, '': 2 }, {}],
      ['a?', { ab: 1, 'a?': 2 }, { ab: 1 }],
      ['.', { '': { '': 1 }, '.': 2, a: { '': { '': 3 } } }, { '': {}, a: { '': {} } }],
    ]
    for (const [key, given, expected] of table) {
      it(`redaction removes ${key} from ${JSON.stringify(given)}`, () => {
        expect(redacted(given, { denylistKeys: [key] })).to.deep.equal(expected)
      })
    }

    it('redaction removes keys in maps, errors, and results of toJSON', () => {
      const given = {
        map: new Map([['password', 1]]),
        json: { toJSON: () => ({ password: 1 }) },
        error: Object.assign(new Error('m'), { code: 'C' }),
      }
      const copy = redacted(given, { denylistKeys: ['password', 'stack', 'code'] })
      expect(copy).to.deep.equal({ map: {}, json: {}, error: { name: 'Error', message: 'm' } })
    })

    it('redaction removes keys in the tags of actor and scope', () => {
      const tags = { password: 1, deep: [{ password: 2, email: 'e' }], email: 'e' }
      const envelope = emitted(
        { actor: { type: 'user', tags }, scope: { type: 'org', id: 'o', tags } },
        (builder) => builder.withRedaction({ denylistKeys: ['password'], hashKeys: ['email'] }),
      )
      const expected = { deep: [{ email: sha256('e') }], email: sha256('e') }
      expect(envelope.actor?.tags).to.deep.equal(expected)
      expect(envelope.scope?.tags).to.deep.equal(expected)
    })

    it('redaction does not read values that it removes', () => {
      expect(
        redacted(
          {
            get password() {
              return expect.fail('was read')
            },
          },
          { denylistKeys: ['password'] },
        ),
      ).to.deep.equal({})
    })

    it('redaction continues for more keys than it caches', () => {
      for (const denylistKeys of [['password'], ['a.password']]) {
        const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, { x: 1 }]))
        const copy = redacted(
          { ...many, a: { password: 1 }, z: { a: { password: 2, c: 3 } } },
          { denylistKeys },
        )
        expect(copy.a).to.deep.equal({})
        expect(copy.z).to.deep.equal({ a: { c: 3 } })
      }
    })
  })

  describe('hashes', () => {
    const table: [string, unknown, string | null][] = [
      ['text', 'ada@example.org', sha256('ada@example.org')],
      ['text beyond ASCII', 'ådå 🎉', sha256('ådå 🎉')],
      ['empty text', '', sha256('')],
      ['a number', 42, sha256('42')],
      ['a boolean', false, sha256('false')],
      ['a bigint', 42n, sha256('42')],
      ['NaN', Number.NaN, sha256('NaN')],
      ['a date', new Date(0), sha256('1970-01-01T00:00:00.000Z')],
      ['an object', { b: 1, a: [2] }, sha256('{"b":1,"a":[2]}')],
      ['an array', [1, 'x', null], sha256('[1,"x",null]')],
      ['an object with a denied key', { password: 'p' }, sha256('{"password":"p"}')],
      ['null', null, null],
    ]
    for (const [what, value, expected] of table) {
      it(`redaction hashes ${what} in a key of hashKeys`, () => {
        const copy = redacted(
          { Email: value },
          { hashKeys: ['email'], denylistKeys: ['password'], maxStringLength: 3 },
        )
        expect(copy).to.deep.equal({ Email: expected })
      })
    }

    it('a value without a JSON form is not hashed but left out', () => {
      expect(redacted({ email: undefined, a: { email: () => {} } }, { hashKeys: ['email'] })).to.deep.equal({
        a: {},
      })
    })

    it('a hashed value with a hash secret is an HMAC', () => {
      expect(redacted({ email: 'e' }, { hashKeys: ['email'], hashSecret: 'päss' })).to.deep.equal({
        email: createHmac('sha256', 'päss').update('e').digest('hex'),
      })
    })

    it('a key that is both hashed and denied is removed', () => {
      expect(redacted({ email: 'e' }, { hashKeys: ['email'], denylistKeys: ['EMAIL'] })).to.deep.equal({})
    })
  })

  describe('cuts strings', () => {
    const table: [number, string, string][] = [
      [5, 'hello', 'hello'],
      [5, 'hello!', 'hell…'],
      [1, 'ab', '…'],
      [0, 'ab', ''],
      [0, '', ''],
      [3, 'a🎉b', 'a…'],
      [4, 'a🎉bc', 'a🎉…'],
      [2, '🎉🎉', '…'],
      [3, '🎉🎉', '🎉…'],
      [3, 'a\ud83cbc', 'a\ud83c…'],
    ]
    for (const [maxStringLength, given, expected] of table) {
      it(`redaction cuts ${JSON.stringify(given)} to ${maxStringLength} characters`, () => {
        expect(redacted({ given, deep: [{ given }] }, { maxStringLength })).to.deep.equal({
          given: expected,
          deep: [{ given: expected }],
        })
      })
    }

    it('redaction cuts strings to 5000 characters by default, in attributes and tags, but not in names', () => {
      const long = 'x'.repeat(6000)
      const envelope = emitted({
        attributes: { long, [long]: 1 },
        actor: { type: 'user', id: long, tags: { long } },
      })
      expect(envelope.attributes?.long).to.have.length(5000)
      expect(envelope.attributes).to.have.property(long)
      expect(envelope.actor?.tags?.long).to.have.length(5000)
      expect(envelope.actor?.id).to.have.length(6000)
    })
  })

  it('no denied key and no value of a hashed key appears in an event', () => {
    const key = fc.oneof(
      fc.constantFrom('password', 'PASSWORD', 'a.password.b', 'email', 'eMail', 'x.email', 'name', 'list'),
      fc.string({ maxLength: 4 }),
    )
    const secret = fc.stringMatching(/^secret-[0-9a-f]{6}$/)
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 5 },
        secret,
        fc.integer(),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(key, tie('tree'), { maxKeys: 5 }),
        fc.dictionary(key, tie('tree'), { maxKeys: 3 }).map((object) => new Map(Object.entries(object))),
      ),
    }))
    fc.assert(
      fc.property(fc.dictionary(key, tree), (attributes) => {
        const before = fc.stringify(attributes)
        const envelope = emitted({ attributes, actor: { type: 'a', tags: attributes } }, (builder) =>
          builder.withRedaction({ denylistKeys: ['password'], hashKeys: ['email'] }),
        )
        const check = (value: unknown, hashedHere: boolean): void => {
          if (typeof value === 'string' && hashedHere) expect(value).to.match(/^[0-9a-f]{64}$/)
          if (typeof value === 'number') expect(hashedHere).to.equal(false)
          if (typeof value !== 'object' || value === null) return
          expect(hashedHere).to.equal(false)
          for (const [name, member] of Object.entries(value)) {
            const parts = Array.isArray(value) ? [] : name.toLowerCase().split('.')
            expect(parts).not.to.include('password')
            check(member, parts.includes('email'))
          }
        }
        check(envelope.attributes, false)
        check(envelope.actor?.tags, false)
        expect(JSON.parse(JSON.stringify(envelope))).to.deep.equal(envelope)
        expect(fc.stringify(attributes)).to.equal(before)
      }),
      { numRuns: runs(500) },
    )
  })
})
