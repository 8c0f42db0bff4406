import { isIban, isPaymentCard } from './checksums.ts'

/** A secret that `withRedaction({ patterns })` finds inside strings. */
export interface TelemetryRedactionPattern {
  /** The name of the secret, which `'mask'` writes as `[name]`. Up to 64 letters, digits, and `._-`. Begins with a letter. */
  readonly name: string
  /**
   * The secret. Every match in a string is replaced, so the flag `g` makes no difference. All quantifiers must be bounded,
   * and the bounds of nested quantifiers must have a product of at most 4,096. At most 4,096 ways to match the same
   * characters may exist. Back-references and lookbehinds are not allowed.
   */
  readonly pattern: RegExp
  /**
   * The replacement: `'mask'` writes `[name]`, `'hash'` the hash that `hashKeys` writes, and `'remove'` nothing. Defaults to
   * `'mask'`.
   */
  readonly replace?: 'mask' | 'hash' | 'remove' | undefined
}

/** The built-in part of a pattern that a regular expression cannot express. */
export interface PatternRules {
  /** Returns `false` if a string with these hints does not contain the secret. */
  isPossible(hints: number, text: string): boolean
  /**
   * Returns the end of the secret that starts at `start`, at most at `end`, the end of the match. Returns `undefined` if it
   * is not a secret.
   */
  endOf?(text: string, start: number, end: number): number | undefined
  /** Continues after a match that is not a secret. Defaults to continuing at the second character of the match. */
  readonly skipsMatch?: boolean
}

/** The letters of names and hosts: ASCII, and those of Latin, Greek, Cyrillic, and further alphabets. */
const E_MAIL =
  /(?<![\w.+\u00c0-\u1fff-]|%2[BDEbde]|%(?=2[BDEbde]))(?:[\w.+\u00c0-\u1fff-]|%2[BDEbde])+(?:@|%40)(?:[\w\u00c0-\u1fff-]+\.)+[A-Za-z\u00c0-\u1fff]{2,}/

const CARD = /(?<!\d)\d(?:[ -]?\d){12,18}/

const IBAN = /[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}/i

/** Matches all that begins like a JSON Web Token, so that no character is read twice. */
const JWT = /eyJ[\w-]*(?:\.[\w-]*){0,4}/

const BEARER = /(?:bearer|dpop)(?:[ \t+]|%20){1,8}[\w.~+/=-]+/i

/** A key without its end is a secret too, so everything up to the end of the string is matched. */
const PRIVATE_KEY =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/

/** Matches the prefixes of keys. `KEYS` has the whole keys. */
const API_KEY =
  /A(?:[KSB]IA|CCA|Iza|TATT3|GE-SECRET-KEY-1|A)|GOCSPX-|NRAK-|PMAK-|S(?:G\.|K[0-9a-f])|dapi|do[opr]_v1_|figd_|g(?:h[opsur]_|ithub_pat_|l(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt|oas)-|lsa_|sk_)|h(?:f_|v[bsr]\.)|key-|lin_api_|npm_|p(?:plx-|ypi-)|r(?:8_|k_(?:live|test)_)|s(?:bp_|hp(?:at|ca|pa|ss)_|k-|k_(?:live|test)_|ntrys_|q0(?:atp|csp)-)|whsec_|x(?:ai-|app-|ox[abeoprs]-)|ya29\./

/** The keys of common providers by their first letter. Each expression matches only at its `lastIndex`. */
const KEYS: ReadonlyMap<string, readonly RegExp[]> = new Map([
  [
    'A',
    [
      /A(?:[KSB]IA|CCA)[A-Z0-9]{16}/y,
      /AIza[\w-]{35}/y,
      /ATATT3[\w-]{20}[\w=-]*/y,
      /AGE-SECRET-KEY-1[A-Z0-9]{20}[A-Z0-9]*/y,
      /(?<=\d{8}:)AA[\w-]{33}/y,
    ],
  ],
  ['G', [/GOCSPX-[\w-]{20}[\w-]*/y]],
  ['N', [/NRAK-[A-Z0-9]{20}\w*/y]],
  ['P', [/PMAK-[\w-]{20}[\w-]*/y]],
  ['S', [/SG\.[\w-]{16,64}\.[\w-]{16}[\w-]*/y, /SK[0-9a-f]{32}(?!\w)/y]],
  ['d', [/dapi[0-9a-f]{32}/y, /do[opr]_v1_[0-9a-f]{64}/y]],
  ['f', [/figd_[\w-]{20}[\w-]*/y]],
  [
    'g',
    [
      /gh[opsur]_[A-Za-z0-9]{20}\w*/y,
      /github_pat_\w{20}\w*/y,
      /gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt|oas)-[\w-]{20}[\w.-]*/y,
      /glsa_\w{20}\w*/y,
      /gsk_[A-Za-z0-9]{20}\w*/y,
    ],
  ],
  ['h', [/hf_[A-Za-z0-9]{30}\w*/y, /hv[bsr]\.[\w-]{20}[\w-]*/y]],
  ['k', [/key-[0-9a-f]{32}(?!\w)/y]],
  ['l', [/lin_api_\w{20}\w*/y]],
  ['n', [/npm_[A-Za-z0-9]{30}\w*/y]],
  ['p', [/pplx-[A-Za-z0-9]{20}\w*/y, /pypi-[\w-]{40}[\w-]*/y]],
  ['r', [/r8_[A-Za-z0-9]{20}\w*/y, /rk_(?:live|test)_[A-Za-z0-9]{10}\w*/y]],
  [
    's',
    [
      /sk-[\w-]{20}[\w-]*/y,
      /sk_(?:live|test)_[A-Za-z0-9]{10}\w*/y,
      /sbp_[0-9a-f]{40}/y,
      /shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}/y,
      /sntrys_[\w+/=-]{20}[\w+/=-]*/y,
      /sq0(?:atp|csp)-[\w-]{20}[\w-]*/y,
    ],
  ],
  ['w', [/whsec_[A-Za-z0-9+/]{20}[A-Za-z0-9+/=]*/y]],
  ['x', [/xox[abeoprs]-[\w-]{10}[\w.-]*/y, /xapp-\d-[\w-]{10}[\w-]*/y, /xai-[A-Za-z0-9]{20}\w*/y]],
  ['y', [/ya29\.[\w-]{20}[\w-]*/y]],
])

/** The hints of a string: what it may contain. */
const AT = 1
const TOKEN = 2
const IBAN_LIKE = 4
const KEY = 8
const CARD_LIKE = 16

const RULES: ReadonlyMap<RegExp, PatternRules> = new Map<RegExp, PatternRules>([
  [PRIVATE_KEY, { isPossible: (hints, text) => (hints & TOKEN) !== 0 && text.includes('-----BEGIN ') }],
  [BEARER, { isPossible: (hints) => (hints & TOKEN) !== 0, endOf: endOfBearer }],
  [JWT, { isPossible: (hints) => (hints & TOKEN) !== 0, endOf: endOfJwt, skipsMatch: true }],
  [API_KEY, { isPossible: (hints) => (hints & KEY) !== 0, endOf: endOfKey }],
  [E_MAIL, { isPossible: (hints) => (hints & AT) !== 0 }],
  [IBAN, { isPossible: (hints) => (hints & IBAN_LIKE) !== 0, endOf: isIban }],
  [CARD, { isPossible: (hints) => (hints & CARD_LIKE) !== 0, endOf: isPaymentCard }],
])

/** Returns the rules of a built-in pattern, which are found by the identity of its `RegExp` object. */
export function rulesOf(pattern: RegExp): PatternRules | undefined {
  return RULES.get(pattern)
}

/**
 * Patterns of common secrets, for `patterns` of `withRedaction`, in the order in which they apply: `private-key` (PEM),
 * `bearer`, `jwt`, `api-key` (prefixes of common providers), `email`, `iban`, and `card`. The last two check the check digits.
 * The expressions of `jwt`, `bearer`, `api-key`, `iban`, and `card` find candidates, which further code checks. That code runs
 * only for the `RegExp` objects of this list. A string that is a UUID is kept.
 *
 * @example
 * ```ts
 * import { COMMON_SECRET_PATTERNS, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().withRedaction({
 *   patterns: [...COMMON_SECRET_PATTERNS, { name: 'customer', pattern: /\bcus_[A-Za-z0-9]{8,32}/, replace: 'hash' }],
 * })
 * ```
 * @see docs/guides/privacy.md
 */
export const COMMON_SECRET_PATTERNS: readonly TelemetryRedactionPattern[] = Object.freeze(
  (
    [
      ['private-key', PRIVATE_KEY],
      ['bearer', BEARER],
      ['jwt', JWT],
      ['api-key', API_KEY],
      ['email', E_MAIL],
      ['iban', IBAN],
      ['card', CARD],
    ] as const
  ).map(([name, pattern]) => Object.freeze({ name, pattern })),
)

/** The numbers of characters of the shortest secrets. */
const MIN_E_MAIL = 6
const MIN_TOKEN = 8
const MIN_CARD = 13
const MIN_IBAN = 15

/** The number of letters, digits, `_`, and `-` in a row that every key has, except those of `KEY_HINT`. */
const MIN_KEY = 15

const KEY_HINT = /whsec_|sntrys_/
const TOKEN_HINT = /eyJ|-----BEGIN |(?:[Ee][Aa][Rr][Ee][Rr]|[Dd][Pp][Oo][Pp])[ \t+%]/
const IBAN_HINT = /[A-Za-z]{2}\d\d[ -]?[A-Za-z0-9]{4}[ -]?[A-Za-z0-9]{4}/
const UUID = /^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$/
const UUID_LENGTH = 36

/** The ASCII characters of keys, and of card numbers with their separators. */
const KEY_CHARACTERS: Uint8Array = charactersOf(/[\w-]/)
const CARD_CHARACTERS: Uint8Array = charactersOf(/[\d -]/)

function charactersOf(set: RegExp): Uint8Array {
  return Uint8Array.from({ length: 128 }, (_, code) => (set.test(String.fromCharCode(code)) ? 1 : 0))
}

/** Returns what a string may contain, so that most strings are not searched by the patterns themselves. */
export function hintsOf(text: string): number {
  const { length } = text
  if (length < MIN_E_MAIL || (length === UUID_LENGTH && text[8] === '-' && UUID.test(text))) return 0
  let hints = text.indexOf('@') >= 0 || text.indexOf('%40') >= 0 ? AT : 0
  if (length < MIN_TOKEN) return hints
  if (TOKEN_HINT.test(text)) hints |= TOKEN
  if (length < MIN_CARD) return hints
  if (hasRun(text, CARD_CHARACTERS, MIN_CARD)) hints |= CARD_LIKE
  if (length >= MIN_IBAN && IBAN_HINT.test(text)) hints |= IBAN_LIKE
  if (hasRun(text, KEY_CHARACTERS, MIN_KEY) || (text.indexOf('_') >= 0 && KEY_HINT.test(text))) hints |= KEY
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

/** The length from which on everything after `bearer` is a token. Matches that are not secrets are read again, so it is short. */
const MAX_WORD = 128

/** A single word after `bearer` is not a token, and neither is the first parameter of a challenge. */
function endOfBearer(text: string, start: number, end: number): number | undefined {
  if (end - start > MAX_WORD) return end
  const value = text.slice(start, end).replace(/^[a-z]+(?:[ \t+]|%20)+/i, '')
  if (text[end] === '"' && value.endsWith('=')) return undefined
  if (!/^[a-z]{1,24}\.?$/i.test(value)) return end
  const isHeader = /authorization["']?[:=] ?["']?$/i.test(text.slice(Math.max(0, start - 20), start))
  return isHeader ? end : undefined
}

/** A token has a header, a payload, and a signature, which may be empty. */
function endOfJwt(text: string, start: number, end: number): number | undefined {
  const header = text.indexOf('.', start)
  if (header < 0 || header >= end || header - start < 8) return undefined
  const payload = text.indexOf('.', header + 1)
  return payload < 0 || payload >= end ? undefined : end
}

/** A key begins after a character that is not a letter or digit, after `%3D`, or after `\n` as two characters. */
function endOfKey(text: string, start: number): number | undefined {
  const before = text.slice(Math.max(0, start - 3), start)
  if (!/^$|[^A-Za-z0-9]$|%[0-9A-Fa-f]{2}$|\\[nrt]$/.test(before)) return undefined
  for (const key of KEYS.get(text[start] as string) ?? []) {
    key.lastIndex = start
    if (key.test(text)) return key.lastIndex
  }
  return undefined
}
