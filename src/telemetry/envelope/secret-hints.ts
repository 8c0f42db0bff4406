/** The hints of a string: one bit for each kind of secret that it may contain. */
export const HINTS = { at: 1, token: 2, iban: 4, key: 8, card: 16, privateKey: 32 } as const

/** The numbers of characters of the shortest secret, such as `a@b.co`, card number, and IBAN. */
const MIN_SECRET = 6
const MIN_CARD = 13
const MIN_IBAN = 15

/** The number of letters, digits, `_`, and `-` in a row that every key has, except those of `KEY_HINT`. */
const MIN_KEY = 15

/** The number of such characters that begin a card number or an IBAN, unless `SUSPECT` finds a space among them. */
const MIN_COMPACT = 12

/**
 * Matches a part of each secret, except of those with `MIN_COMPACT` characters in a row: `@` after a character, the beginning
 * of a JSON Web Token or of a private key, the prefix of a key, a space between digits, and the separator after a scheme or
 * after one of the first groups of an IBAN. The second character of a match is one of few, so that V8 skips most others.
 */
const SUSPECT =
  /.@|.%40|yJ|-BEGIN|[cs]_|\d \d|.[ \t+%](?<=(?:[Rr][Ee][Rr]|[Pp][Oo][Pp]|[Ss][Ii][Cc]|[A-Za-z]\d\d(?:-?....)?).)/s
const TOKEN_HINT = /eyJ|(?:[Ee][Aa][Rr][Ee][Rr]|[Dd][Pp][Oo][Pp]|[Bb][Aa][Ss][Ii][Cc])[ \t+%]/
const IBAN_HINT =
  /[A-Za-z]{2}\d\d(?<=(?:^|[^A-Za-z0-9]|[\\%][A-Za-z0-9]{1,5})....)[ -]?[A-Za-z0-9]{4}[ -]?[A-Za-z0-9]{4}/
const KEY_HINT = /whsec_|sntrys_/

const UUID_LENGTH = 36
const UUID = /* @__PURE__ */ uuid()

/** Repeats characters instead of counting them, which takes V8 half the time. */
function uuid(): RegExp {
  const parts = [8, 4, 4, 4, 12].map((length) => '[0-9A-Fa-f]'.repeat(length))
  return new RegExp(`^${parts.join('-')}$`)
}

/** The ASCII characters of keys, and of card numbers with their separators. */
const KEY_CHARACTERS: Uint8Array = /* @__PURE__ */ charactersOf(/[\w-]/)
const CARD_CHARACTERS: Uint8Array = /* @__PURE__ */ charactersOf(/[\d -]/)

function charactersOf(set: RegExp): Uint8Array {
  return Uint8Array.from({ length: 128 }, (_, code) => (set.test(String.fromCharCode(code)) ? 1 : 0))
}

/** Returns what a string may contain, so that most strings are not searched by the patterns themselves. */
export function hintsOf(text: string): number {
  const { length } = text
  if (length < MIN_SECRET || (length === UUID_LENGTH && UUID.test(text))) return 0
  const isSuspect = SUSPECT.test(text)
  if (!isSuspect && !hasRun(text, KEY_CHARACTERS, MIN_COMPACT)) return 0
  let hints = isSuspect ? suspectHintsOf(text) : 0
  if (length >= MIN_IBAN && IBAN_HINT.test(text)) hints |= HINTS.iban
  if (hasRun(text, CARD_CHARACTERS, MIN_CARD)) hints |= HINTS.card
  if (hasRun(text, KEY_CHARACTERS, MIN_KEY)) hints |= HINTS.key
  return hints
}

function suspectHintsOf(text: string): number {
  let hints = text.indexOf('@') < 0 && text.indexOf('%40') < 0 ? 0 : HINTS.at
  if (TOKEN_HINT.test(text)) hints |= HINTS.token
  if (KEY_HINT.test(text)) hints |= HINTS.key
  if (text.indexOf('-----BEGIN ') >= 0) hints |= HINTS.privateKey
  return hints
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
