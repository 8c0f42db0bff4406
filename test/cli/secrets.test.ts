import { expect } from 'chai'
import { Secrets } from '../../cli/doctor/quote.ts'

/** Returns a text without these secrets. */
function erased(text: string, ...secrets: (string | undefined)[]): string {
  const all = new Secrets()
  for (const secret of secrets) all.add(secret)
  return all.erase(text)
}

const [HEADER, SHORT] = ['h'.repeat(16), 'p'.repeat(15)]

describe('Secrets', () => {
  for (const [what, text, secret, expected] of [
    ['a secret of four characters', 'the abcd here', 'abcd', 'the [secret] here'],
    ['a secret of three characters, which is kept', 'the abc here', 'abc', 'the abc here'],
    ['no secret', 'the abc here', undefined, 'the abc here'],
    ['a part of 16 characters of a JWT', `x ${HEADER} y`, `${HEADER}.${SHORT}.s`, 'x [secret] y'],
    [
      'a part of 15 characters of a JWT, which is kept',
      `x ${SHORT} y`,
      `${HEADER}.${SHORT}.s`,
      `x ${SHORT} y`,
    ],
    ['the fifth part', `x ${HEADER}5 y`, `a.b.c.d.${HEADER}5`, 'x [secret] y'],
    ['a sixth part, which is kept', `x ${HEADER}6 y`, `a.b.c.d.e.${HEADER}6`, `x ${HEADER}6 y`],
    ['a percent-encoded secret', 'x a%20b%2Fc y', 'a b/c', 'x [secret] y'],
    ['the beginning of four characters before a cut', 'x abcd… y', 'abcdefgh', 'x [secret]… y'],
    ['the beginning of three characters before a cut, which is kept', 'x abc… y', 'abcdefgh', 'x abc… y'],
    ['the longest beginning before a cut', 'aaaaa…', 'aaaaaaaa', '[secret]…'],
    ['two cuts', 'abcd… and abcde… z', 'abcdefgh', '[secret]… and [secret]… z'],
    ['a cut of other text', 'abxx… y', 'abcdefgh', 'abxx… y'],
    ['a long beginning', `${'a'.repeat(320)}…`, 'a'.repeat(400), '[secret]…'],
  ] as const)
    it(`a text with ${what} becomes "${expected.slice(0, 40)}"`, () => {
      expect(erased(text, secret)).to.equal(expected)
    })

  it('a secret that contains another one is replaced as a whole', () => {
    expect(erased('x abcdefgh y cdef', 'cdef', 'abcdefgh')).to.equal('x [secret] y [secret]')
  })

  it('half of a surrogate pair in a secret does no harm', () => {
    expect(erased('text', 'abcd\ud800')).to.equal('text')
  })
})
