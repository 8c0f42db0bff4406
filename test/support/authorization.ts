import fc from 'fast-check'
import { anyCharacter } from './any-character.ts'

/** Returns the token that RFC 6750 §2.1 finds in `text`. It reads character by character, independently of the gate. */
export function allowedToken(text: string): string | undefined {
  if (text.slice(0, 6).toLowerCase() !== 'bearer' || text[6] !== ' ') return undefined
  let start = 6
  while (text[start] === ' ') start++
  let end = text.length
  while (text[end - 1] === '=') end--
  const characters = [...text.slice(start, end)]
  const allowed = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/'
  return characters.length > 0 && characters.every((one) => allowed.includes(one))
    ? text.slice(start)
    : undefined
}

const piece = fc.constantFrom(
  ...['Bearer', 'bearer', 'BEARER', 'DPoP', 'dpop', 'Basic', 'bEaReR', 'Bear', 'er'],
  ...[' ', '  ', '\t', ',', ', ', '=', '==', '"', '\\', ';', '\u00e9', '\u00a0', '\u2028', '\0', '\r\n', ''],
  ...[
    'abc',
    'good',
    'eyJhbGciOiJub25lIn0.e30.',
    'a.b.c',
    '~',
    '-._~+/',
    '%20',
    'realm="x"',
    'token=abc',
    '__proto__',
  ],
)

/** One value of an `Authorization` header, well-formed or not. */
const value: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')) },
  { weight: 2, arbitrary: fc.array(piece, { maxLength: 4 }).map((pieces) => `Bearer ${pieces.join('')}`) },
  { weight: 2, arbitrary: fc.string({ unit: anyCharacter, maxLength: 20 }) },
  { weight: 1, arbitrary: fc.base64String({ maxLength: 60 }).map((token) => `Bearer ${token}`) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('Bearer ', 'DPoP ', '').map((scheme) => scheme + 'a'.repeat(16_385)),
  },
)

/** The `Authorization` headers of a request: none, one value, or several values. */
export const authorizations: fc.Arbitrary<string | readonly string[] | undefined> = fc.oneof(
  { weight: 1, arbitrary: fc.constant(undefined) },
  { weight: 12, arbitrary: value },
  { weight: 3, arbitrary: fc.array(value, { minLength: 2, maxLength: 3 }) },
)
