/** The numbers of digits of payment cards. */
const MIN_CARD = 13
const MAX_CARD = 19

/** The first digits of card networks, and the numbers of digits of their cards. */
const NETWORKS: readonly (readonly [prefix: RegExp, lengths: readonly number[]])[] = [
  [/^4/, [13, 16, 19]],
  [/^5[1-5]/, [16]],
  [/^2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)/, [16]],
  [/^220[0-4]/, [16, 17, 18, 19]],
  [/^3[47]/, [15]],
  [/^3(?:0[0-5]|[689])/, [14, 15, 16, 17, 18, 19]],
  [/^35/, [16, 17, 18, 19]],
  [/^(?:5[06-8]|6)/, [13, 14, 15, 16, 17, 18, 19]],
]

/** A UUID, or a trace context of the W3C. */
const IDENTIFIER =
  /(?<![\dA-Z])(?:[\dA-F]{8}(?:-[\dA-F]{4}){3}-[\dA-F]{12}|[\dA-F]{2}-[\dA-F]{32}-[\dA-F]{16}-[\dA-F]{2})(?![\dA-Z])/gi
const MAX_IDENTIFIER = 55

/** Returns `true` if a part of a string is a part of an identifier. */
function isInIdentifier(text: string, start: number, end: number): boolean {
  const from = Math.max(0, start - MAX_IDENTIFIER)
  for (const { index, 0: found } of text.slice(from, end + MAX_IDENTIFIER).matchAll(IDENTIFIER)) {
    if (from + index <= start && end <= from + index + found.length) return true
  }
  return false
}

/**
 * Returns the end of the longest payment card number that starts at `start`: a known prefix, a length that fits it, and a
 * valid check digit (Luhn). No letter or digit is next to it, and it is not a part of an identifier or of a decimal number.
 * @param end the end of a sequence of digits with single spaces or hyphens between them.
 */
export function endOfCard(text: string, start: number, end: number): number | undefined {
  // No network starts with another digit.
  if ((text[start] as string) < '2' || (text[start] as string) > '6') return undefined
  let digits = ''
  // The sums of Luhn for a last digit with an even index, and for one with an odd index.
  let even = 0
  let odd = 0
  let found: number | undefined
  for (let index = start; index < end && digits.length < MAX_CARD; index++) {
    const character = text[index] as string
    if (!isDigit(character)) continue
    const digit = character.charCodeAt(0) - 0x30
    const doubled = digit > 4 ? 2 * digit - 9 : 2 * digit
    const isEven = digits.length % 2 === 0
    even += isEven ? digit : doubled
    odd += isEven ? doubled : digit
    digits += character
    if (digits.length < MIN_CARD || (isEven ? even : odd) % 10 !== 0 || isLetterOrDigit(text[index + 1]))
      continue
    if (isNetworkNumber(digits)) found = index + 1
  }
  if (found === undefined || !startsWord(text, start) || isDecimal(text, start)) return undefined
  return isInIdentifier(text, start, found) ? undefined : found
}

/** Returns `true` if the digits from an index on are the decimals of a number. */
function isDecimal(text: string, index: number): boolean {
  return /\d\.$/.test(text.slice(Math.max(0, index - 2), index))
}

function isDigit(character: string): boolean {
  return character >= '0' && character <= '9'
}

function isLetterOrDigit(character: string | undefined): boolean {
  return character !== undefined && /[A-Za-z0-9]/.test(character)
}

function isNetworkNumber(digits: string): boolean {
  return NETWORKS.some(([prefix, lengths]) => prefix.test(digits) && lengths.includes(digits.length))
}

/** The countries of the IBAN registry by the length of their IBANs. */
const IBAN_COUNTRIES: Readonly<Record<number, string>> = {
  15: 'NO',
  16: 'BE',
  18: 'DK FI FK FO GL NL SD',
  19: 'MK SI',
  20: 'AT BA EE KZ LT LU MN XK',
  21: 'CH HR LI LV',
  22: 'BG BH CR DE GB GE IE ME RS VA',
  23: 'AE GI IL IQ OM SO TL',
  24: 'AD CZ ES MD PK RO SA SE SK TN VG',
  25: 'LY PT ST',
  26: 'IS TR',
  27: 'BI DJ FR GR IT MC MR SM',
  28: 'AL AZ BY CY DO GT HN HU LB NI PL SV',
  29: 'BR EG PS QA UA',
  30: 'JO KW MU YE',
  31: 'MT SC',
  32: 'LC',
  33: 'RU',
}

const IBAN_LENGTHS: ReadonlyMap<string, number> = /* @__PURE__ */ ibanLengths()

function ibanLengths(): ReadonlyMap<string, number> {
  return new Map(
    Object.entries(IBAN_COUNTRIES).flatMap(([length, countries]) =>
      countries.split(' ').map((country) => [country, Number(length)] as const),
    ),
  )
}

/**
 * Returns the end of the IBAN that starts at `start`: a known country, its length, and a valid check number (ISO 7064,
 * MOD 97-10). No letter or digit is next to it, and it is not a part of an identifier.
 * @param end the end of a sequence of letters and digits with single spaces or hyphens between them.
 */
export function endOfIban(text: string, start: number, end: number): number | undefined {
  const length = IBAN_LENGTHS.get(text.slice(start, start + 2).toUpperCase())
  if (length === undefined || !startsWord(text, start)) return undefined
  let characters = ''
  let index = start
  for (; index < end && characters.length < length; index++) {
    const character = text[index] as string
    if (character !== ' ' && character !== '-') characters += character
  }
  if (characters.length < length || isLetterOrDigit(text[index]) || !isMod97(characters.toUpperCase()))
    return undefined
  return isInIdentifier(text, start, index) ? undefined : index
}

function isMod97(characters: string): boolean {
  let rest = 0
  for (const character of characters.slice(4) + characters.slice(0, 4)) {
    const value = Number.parseInt(character, 36)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1
}

/**
 * Returns `true` if a secret may begin at an index: the character before is not a letter or digit, or is the end of an escape,
 * such as `%3D`, `\n` as two characters, or `\u0022`.
 */
export function startsWord(text: string, index: number): boolean {
  return /^$|[^A-Za-z0-9]$|%[0-9A-Fa-f]{2}$|\\(?:[nrt]|u[0-9A-Fa-f]{4})$/.test(
    text.slice(Math.max(0, index - 6), index),
  )
}
