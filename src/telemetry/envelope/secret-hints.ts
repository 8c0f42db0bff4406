/** The hints of a string: one bit for each kind of secret that it may contain. */
export const HINTS = { at: 1, token: 2, iban: 4, key: 8, card: 16, privateKey: 32 } as const

/** The numbers of characters of the shortest secret, such as `a@b.co`, card number, and IBAN. */
const MIN_SECRET = 6
const MIN_CARD = 13
const MIN_IBAN = 15

/** The number of letters, digits, `_`, and `-` in a row that every key has, except those of `KEY_HINT`. */
const MIN_KEY = 15

/** The strings that most strings do not contain: parts of tokens, private keys, and IBANs, and `%40` for `@`. */
const RARE = /eyJ|----|%40|(?:[Rr][Ee][Rr]|[Pp][Oo][Pp]|[Ss][Ii][Cc])[ \t+%]|[A-Za-z]\d\d/
const TOKEN_HINT = /eyJ|(?:[Ee][Aa][Rr][Ee][Rr]|[Dd][Pp][Oo][Pp]|[Bb][Aa][Ss][Ii][Cc])[ \t+%]/
const IBAN_HINT =
  /(?:^|[^A-Za-z0-9]|[\\%][A-Za-z0-9]{1,5})[A-Za-z]{2}\d\d[ -]?[A-Za-z0-9]{4}[ -]?[A-Za-z0-9]{4}/
const KEY_HINT = /whsec_|sntrys_/

/** A test that does not match is faster than one that matches, and most strings of this length are UUIDs. */
const NOT_UUID = /^(?![0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$)/
const UUID_LENGTH = 36

/** The ASCII characters of keys, and of card numbers with their separators. */
const KEY_CHARACTERS: Uint8Array = /* @__PURE__ */ charactersOf(/[\w-]/)
const CARD_CHARACTERS: Uint8Array = /* @__PURE__ */ charactersOf(/[\d -]/)

function charactersOf(set: RegExp): Uint8Array {
  return Uint8Array.from({ length: 128 }, (_, code) => (set.test(String.fromCharCode(code)) ? 1 : 0))
}

/** Returns what a string may contain, so that most strings are not searched by the patterns themselves. */
export function hintsOf(text: string): number {
  const { length } = text
  if (length < MIN_SECRET || (length === UUID_LENGTH && text[8] === '-' && !NOT_UUID.test(text))) return 0
  let hints = text.indexOf('@') < 0 ? 0 : HINTS.at
  if (RARE.test(text)) hints |= rareHintsOf(text)
  if (length < MIN_CARD) return hints
  if (mayHaveCard(text) && hasRun(text, CARD_CHARACTERS, MIN_CARD)) hints |= HINTS.card
  if (hasRun(text, KEY_CHARACTERS, MIN_KEY) || (text.indexOf('_') >= 0 && KEY_HINT.test(text)))
    hints |= HINTS.key
  return hints
}

function rareHintsOf(text: string): number {
  let hints = text.indexOf('%40') < 0 ? 0 : HINTS.at
  if (TOKEN_HINT.test(text)) hints |= HINTS.token
  if (text.indexOf('-----BEGIN ') >= 0) hints |= HINTS.privateKey
  if (text.length >= MIN_IBAN && IBAN_HINT.test(text)) hints |= HINTS.iban
  return hints
}

/** Looks at few characters: of two adjacent characters of a card number, one is a digit. */
function mayHaveCard(text: string): boolean {
  for (let index = MIN_CARD - 2; index < text.length - 1; index += MIN_CARD - 1) {
    if (isDigit(text.charCodeAt(index)) || isDigit(text.charCodeAt(index + 1))) return true
  }
  return false
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39
}

/** Returns `true` if `size` characters of a set follow each other. Reads each part from its end, to skip most characters. */
function hasRun(text: string, set: Uint8Array, size: number): boolean {
  const { length } = text
  let start = 0
  while (start + size <= length) {
    let index = start + size - 1
    while (index >= start && set[text.charCodeAt(index)] === 1) index--
    if (index < start) return true
    start = index + 1
  }
  return false
}
