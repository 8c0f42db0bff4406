import { expect } from 'chai'
import { endOfCard, endOfIban } from '../../../src/telemetry/envelope/checksums.ts'

/** Returns a number of this length that begins with `prefix` and has a valid check digit (Luhn). */
function cardOf(prefix: string, length: number): string {
  const body = prefix.padEnd(length - 1, '0')
  const sum = [...body].reverse().reduce((total, digit, index) => {
    const value = Number(digit) * (index % 2 === 0 ? 2 : 1)
    return total + (value > 9 ? value - 9 : value)
  }, 0)
  return body + String((10 - (sum % 10)) % 10)
}

/** Returns an IBAN of this length with valid check digits (ISO 7064, MOD 97-10). */
function ibanOf(country: string, length: number, fill = '7'): string {
  const account = fill.repeat(length - 4)
  const digits = [...`${account}${country}00`]
    .map((character) => String(Number.parseInt(character, 36)))
    .join('')
  return `${country}${String(98n - (BigInt(digits) % 97n)).padStart(2, '0')}${account}`
}

const isCard = (text: string, start = 0, end = text.length): boolean => endOfCard(text, start, end) === end
const isIban = (text: string): boolean => endOfIban(text, 0, text.length) === text.length

describe('endOfCard()', () => {
  for (const [network, prefixes, lengths] of [
    ['Visa', ['4', '49'], [13, 16, 19]],
    ['Mastercard', ['51', '53', '55', '2221', '2229', '223', '229', '23', '26', '270', '271', '2720'], [16]],
    ['Mir', ['2200', '2204'], [16, 17, 18, 19]],
    ['American Express', ['34', '37'], [15]],
    ['Diners Club', ['300', '305', '36', '38', '39'], [14, 15, 16, 17, 18, 19]],
    ['JCB', ['35'], [16, 17, 18, 19]],
    [
      'Maestro, Discover, and UnionPay',
      ['50', '56', '57', '58', '6', '60', '62', '69'],
      [13, 14, 15, 16, 17, 18, 19],
    ],
    [
      'no network',
      ['0', '1', '7', '8', '9', '20', '21', '2205', '2220', '2721', '28', '306', '31', '33'],
      [],
    ],
  ] as const)
    it(`the lengths of the card numbers of ${network} are ${lengths.join(', ') || 'none'}`, () => {
      for (const prefix of prefixes)
        for (let length = 12; length <= 20; length++) {
          const number = cardOf(prefix, length)
          const isWhole = endOfCard(number, 0, length) === length
          expect(isWhole, number).to.equal((lengths as readonly number[]).includes(length))
        }
    })

  it('every check digit but one is wrong', () => {
    for (const body of ['411111111111111', '555555555555444', '999999999999999'].map((text) =>
      text.replace(/^9/, '4'),
    ))
      expect(
        Array.from({ length: 10 }, (_, digit) => isCard(`${body}${digit}`)).filter(Boolean),
      ).to.have.length(1)
  })
})

describe('endOfIban()', () => {
  for (const [length, countries] of Object.entries({
    15: 'NO',
    16: 'BE',
    18: 'DK NL',
    19: 'MK SI',
    20: 'AT XK',
    21: 'CH LV',
    22: 'DE GB',
    23: 'AE TL',
    24: 'ES VG',
    25: 'LY ST',
    26: 'IS TR',
    27: 'FR SM',
    28: 'AL SV',
    29: 'BR UA',
    30: 'JO YE',
    31: 'MT SC',
    32: 'LC',
    33: 'RU',
  }))
    it(`an IBAN of ${countries} has ${length} characters`, () => {
      for (const country of countries.split(' ')) {
        for (const fill of ['7', 'A', 'Z', '9'])
          expect(isIban(ibanOf(country, Number(length), fill)), country).to.equal(true)
        for (const wrong of [-1, 1])
          expect(isIban(ibanOf(country, Number(length) + wrong)), country).to.equal(false)
        expect(isIban(ibanOf(country, Number(length)).toLowerCase())).to.equal(true)
      }
    })

  it('every pair of check digits but one is wrong, and other countries have no IBAN', () => {
    const valid = ibanOf('DE', 22)
    const all = Array.from(
      { length: 97 },
      (_, check) => `DE${String(check + 2).padStart(2, '0')}${valid.slice(4)}`,
    )
    expect(all.filter(isIban)).to.deep.equal([valid])
    expect(isIban(ibanOf('US', 22))).to.equal(false)
  })
})
