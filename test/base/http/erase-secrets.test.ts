import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import fc from 'fast-check'
import { eraseSecrets } from '../../../src/base/http/erase-secrets.ts'
import { anyCharacter } from '../../support/any-character.ts'
import { runs } from '../../support/runs.ts'

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const base64url = (text: string): string => Buffer.from(text).toString('base64url')
/** Percent-encodes the bytes of a text for which `picks` has a true value. */
const percent = (text: string, picks: readonly boolean[] = [true], upper = true): string =>
  [...Buffer.from(text)]
    .map((byte, index) => {
      const hex = byte.toString(16).padStart(2, '0')
      const isPicked = byte > 127 || picks[index % picks.length]
      return isPicked ? `%${upper ? hex.toUpperCase() : hex}` : String.fromCharCode(byte)
    })
    .join('')

describe('eraseSecrets()', () => {
  const secret = 'very-Secret client_s3cret!~*ü%25/+='

  for (const [form, encode] of Object.entries<(text: string) => string>({
    'as it is': (text) => text,
    'as in a form': (text) => new URLSearchParams([['', text]]).toString().slice(1),
    'as a component of a URI': encodeURIComponent,
    'percent-encoded in lower case': (text) => percent(text, [true], false),
    'percent-encoded in part': (text) => percent(text, [true, false, false]),
    'percent-encoded three times': (text) => percent(percent(percent(text))),
    'in Base64': base64,
    'in Base64 without padding': (text) => base64(text).replaceAll('=', ''),
    'in base64url': base64url,
    'in percent-encoded Base64 of percent-encoded text': (text) =>
      percent(base64(percent(text, [false, true]))),
    'in Basic credentials': (text) => `Basic ${base64(`client:${text}`)}`,
    'in Basic credentials of a form': (text) => `Basic ${base64(`a%20b:${percent(text)}`)}`,
    'in Basic credentials with a letter in front': (text) => `x${base64(`client-1:${text}`)}`,
    'in Basic credentials with two letters in front': (text) => `xx${base64(`client-1:${text}`)}`,
    'in Basic credentials with three letters in front': (text) => `xxx${base64(`client-1:${text}`)}`,
  }))
    it(`eraseSecrets() finds a secret ${form}`, () => {
      const erased = eraseSecrets(`bad ${encode(secret)} here, ${encode(secret)}`, ['other', secret])
      expect(erased).to.match(/\[secret\]/)
      for (const round of [erased, ...erased.split(/[^\w+/-]+/).map((part) => atobOf(part))])
        expect(round).to.not.contain('s3cret')
    })

  it('eraseSecrets() finds any secret, however its bytes are encoded', () => {
    const codings = fc.array(
      fc.oneof(
        fc
          .array(fc.boolean(), { minLength: 1, maxLength: 5 })
          .map((picks) => (text: string) => percent(text, picks)),
        fc.constant((text: string) => text),
      ),
      { maxLength: 3 },
    )
    fc.assert(
      fc.property(
        fc.string({ minLength: 8, maxLength: 40, unit: 'grapheme' }),
        codings,
        fc.constantFrom(null, base64, base64url),
        fc.string({ maxLength: 5 }).map((text) => `${text.replace(/[^ -~]|%/g, '')} `),
        codings,
        (text, before, coding, around, after) => {
          const apply = (given: string, list: typeof before): string =>
            list.reduce((all, code) => code(all), given)
          const inner = apply(text, before)
          const sent = coding === null ? inner : apply(coding(`${around}:${inner}`), after)
          fc.pre(sent.length <= 8_192)
          expect(eraseSecrets(`${around}${sent} ${around}`, [text])).to.contain('[secret]')
        },
      ),
      { numRuns: runs(1_000) },
    )
  })

  it('eraseSecrets() returns other text unchanged', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 60 }), (text) => {
        fc.pre(!text.includes('unrelated-secret'))
        expect(eraseSecrets(text, ['unrelated-secret', ''])).to.equal(text)
      }),
      { numRuns: runs(500) },
    )
  })

  it('eraseSecrets() returns 8,192 characters, and no beginning of a secret that they cut', () => {
    for (const length of [8_180, 8_191, 8_192])
      expect(eraseSecrets(`${'x'.repeat(length)}secret-value`, ['secret-value'])).to.match(
        /^x+(?:\[[secrt]*\]?)?$/,
      )
    expect(eraseSecrets('x'.repeat(1_000_000), ['secret'])).to.have.length(8_192)
    expect(eraseSecrets('secret-value'.repeat(10_000), ['secret-value'])).to.equal('[secret]')
  })

  it('eraseSecrets() shows no beginning of a secret that ends beyond the searched part of a text', () => {
    const token = randomBytes(9_000).toString('base64url')
    for (const form of [token, Buffer.from(token).toString('base64'), token.replace(/./g, percentEncoded)])
      expect(eraseSecrets(`${'x'.repeat(6_000)}${form}`, [token])).to.equal('[secret]')
  })
})

function percentEncoded(character: string): string {
  return `%2525${character.charCodeAt(0).toString(16)}`
}

function atobOf(text: string): string {
  return [0, 1, 2, 3].map((offset) => Buffer.from(text.slice(offset), 'base64').toString('latin1')).join(' ')
}
