import { expect } from 'chai'
import { LeakSearch } from '../../src/testing/leak-search.ts'
import { Needle } from '../../src/testing/secret-needle.ts'

const SECRET = 'S3cr3t-1'
const bytes = (text: string) => Buffer.from(text)
const CODES = [...bytes(SECRET)]

/** Returns the findings of a search, in order. */
function findingsOf(events: unknown, secrets: string[] = [SECRET]) {
  const search = new LeakSearch(secrets)
  search.search(events)
  return search.findings
}

const isFound = (events: unknown, secret = SECRET): boolean => findingsOf(events, [secret]).length > 0

/** Encodes a text several times. */
const encoded = (text: string, times: number): string =>
  Array.from({ length: times }).reduce<string>(
    (inner) => inner.replace(/[^\w]/g, encodeURIComponent).replace(/[-]/g, '%2D'),
    text,
  )

/** Returns an object with this number of accessors of classes on the way to a secret. */
function behindAccessors(count: number): object {
  class Holder {
    get held() {
      return count === 1 ? { token: SECRET } : behindAccessors(count - 1)
    }
  }
  return new Holder()
}

describe('LeakSearch', () => {
  for (const [what, value] of [
    ['codes of characters that are not bytes', CODES.map((code) => code + 256)],
    ['codes with one that is not a character', Float64Array.from([...CODES, 0x11_0000])],
    ['codes with a negative number', Int32Array.from([-1, ...CODES])],
    ['codes with a fraction', [...CODES, 0.5]],
    ['codes with a string', [...CODES, 'x']],
    ['a list of bytes whose first number is longer', `[1${CODES.join(',')}]`],
    ['a list of bytes whose last number is longer', `[${CODES.join(',')}1]`],
    ['half of the bytes in hex', bytes(SECRET).toString('hex').slice(2)],
    ['the end of the secret in base64', bytes(SECRET.slice(1)).toString('base64')],
    ['the secret without a character', SECRET.slice(1)],
  ] as const)
    it(`a search finds nothing in ${what}`, () => {
      expect(isFound([{ value }])).to.equal(false)
    })

  for (const [what, value] of [
    ['codes of characters with the last one', Float64Array.from([...CODES, 0x10_ffff])],
    ['codes with 0', [0, ...CODES]],
    ['codes with a character that is not a byte', [...CODES, 256]],
    ['hex with spaces', bytes(SECRET).toString('hex').replace(/../g, '$& ').trim()],
    [
      'hex with colons',
      bytes(SECRET)
        .toString('hex')
        .replace(/..(?!$)/g, '$&:'),
    ],
    ['a list of bytes next to other numbers', `1,${CODES.join(',')},1`],
    ['a list of bytes after one with a longer number', `1${CODES.join(',')} ${CODES.join(',')}`],
  ] as const)
    it(`a search finds a secret in ${what}`, () => {
      expect(isFound([{ value }])).to.equal(true)
    })

  for (const [secret, isLong] of [
    ['abc', false],
    ['abcd', true],
    ['äb', false],
    ['ää', true],
  ] as const)
    it(`a secret of ${bytes(secret).length} bytes is ${isLong ? 'found' : 'not searched for'} in hex, in base64, and as bytes`, () => {
      for (const text of [
        bytes(secret).toString('hex'),
        bytes(`xyz${secret}`).toString('base64'),
        `[${[...bytes(secret)]}]`,
      ])
        expect(isFound([text], secret), text).to.equal(isLong)
      expect(isFound([secret], secret)).to.equal(true)
    })

  it('a secret is found at each place that it can have in base64', () => {
    for (const secret of [SECRET, '>>>???>>>', 'a long secret of many words'])
      for (const before of ['', 'x', 'xx', 'xxx'])
        for (const after of ['', 'y', 'yy'])
          for (const encoding of ['base64', 'base64url'] as const)
            expect(
              new Needle(secret, 1).formIn(bytes(before + secret + after).toString(encoding)),
              before + after,
            ).to.match(/^in base64/)
  })

  for (const [times, isFoundThen] of [
    [8, true],
    [9, false],
  ] as const)
    it(`a secret that is percent-encoded ${times} times is ${isFoundThen ? 'found' : 'not found'}`, () => {
      expect(isFound([encoded(SECRET, times)])).to.equal(isFoundThen)
    })

  for (const [count, isFoundThen] of [
    [8, true],
    [9, false],
  ] as const)
    it(`a secret behind ${count} accessors is ${isFoundThen ? 'found' : 'not found'}`, () => {
      expect(isFound([behindAccessors(count)])).to.equal(isFoundThen)
    })

  it('findings are in the order in which values are printed, with their places and the number of the secret', () => {
    const events = [{ a: SECRET, b: [{ c: 'other-secret' }, SECRET] }, { d: { [SECRET]: 1 } }]
    expect(findingsOf(events, [SECRET, 'other-secret'])).to.deep.equal([
      { secret: 1, form: 'as it is', place: 'event 1 at a' },
      { secret: 2, form: 'as it is', place: 'event 1 at b[0].c' },
      { secret: 1, form: 'as it is', place: 'event 1 at b[1]' },
      { secret: 1, form: 'as it is', place: 'event 2 at d.(key 1), the key itself' },
    ])
  })

  it('a place in a finding has at most 200 characters', () => {
    const place = (length: number) => findingsOf([{ ['k'.repeat(length)]: SECRET }])[0]?.place
    const rest = 200 - 'event 1 at '.length
    expect(place(rest)).to.equal(`event 1 at ${'k'.repeat(rest)}`)
    expect(place(rest + 1)).to.equal(`event 1 at ${'k'.repeat(rest - 1)}…`)
  })
})
