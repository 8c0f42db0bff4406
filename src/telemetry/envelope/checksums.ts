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

/**
 * Returns the end of the longest payment card number that starts at `start`: a known prefix, a length that fits it, and a
 * valid check digit (Luhn). It ends before a character that is not a digit.
 * @param end the end of a sequence of digits with single spaces or hyphens between them.
 */
export function isPaymentCard(text: string, start: number, end: number): number | undefined {
  // No network starts with another digit.
  if ((text[start] as string) < '2' || (text[start] as string) > '6') return undefined
  // Decimals of a number are not a card number.
  if (/\d[.,]$/.test(text.slice(Math.max(0, start - 2), start))) return undefined
  let digits = ''
  let found: number | undefined
  for (let index = start; index < end; index++) {
    const character = text[index] as string
    if (!isDigit(character)) continue
    digits += character
    if (digits.length < MIN_CARD || isDigit(text[index + 1])) continue
    if (digits.length > MAX_CARD) break
    if (isLuhn(digits) && isNetworkNumber(digits)) found = index + 1
  }
  return found
}

function isDigit(character: string | undefined): boolean {
  return character !== undefined && character >= '0' && character <= '9'
}

function isNetworkNumber(digits: string): boolean {
  return NETWORKS.some(([prefix, lengths]) => prefix.test(digits) && lengths.includes(digits.length))
}

function isLuhn(digits: string): boolean {
  let sum = 0
  for (let index = 0; index < digits.length; index++) {
    const digit = digits.charCodeAt(digits.length - 1 - index) - 0x30
    const doubled = index % 2 === 0 ? digit : 2 * digit
    sum += doubled > 9 ? doubled - 9 : doubled
  }
  return sum % 10 === 0
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
 * MOD 97-10).
 * @param end the end of a sequence of letters and digits with single spaces or hyphens between them.
 */
export function isIban(text: string, start: number, end: number): number | undefined {
  if (
    start > 0 &&
    /[A-Za-z0-9]/.test(text[start - 1] as string) &&
    !/[\\%][A-Za-z0-9]{1,2}$/.test(text.slice(Math.max(0, start - 3), start))
  )
    return undefined
  const length = IBAN_LENGTHS.get(text.slice(start, start + 2).toUpperCase())
  if (length === undefined) return undefined
  let characters = ''
  let index = start
  for (; index < end && characters.length < length; index++) {
    const character = text[index] as string
    if (character !== ' ' && character !== '-') characters += character
  }
  if (characters.length < length || /[A-Za-z0-9]/.test(text[index] ?? '')) return undefined
  return isMod97(characters.toUpperCase()) ? index : undefined
}

function isMod97(characters: string): boolean {
  let rest = 0
  for (const character of characters.slice(4) + characters.slice(0, 4)) {
    const value = Number.parseInt(character, 36)
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97
  }
  return rest === 1
}
