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

/** The prefixes of keys. They begin after a character that is not a letter or digit, `%3D`, or `\n` as two characters. */
const API_KEY =
  /(?=[ASGyghswxnkrpdlPNf])(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2}|\\[nrt]))(?:(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[\w-]{35}|GOCSPX-[\w-]{20}[\w-]*|ya29\.[\w-]{20}[\w-]*|gh[pousr]_[A-Za-z0-9]{20}\w*|github_pat_\w{20}\w*|gl(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt|oas)-[\w-]{20}[\w.-]*|sk-[\w-]{20}[\w-]*|[rs]k_(?:live|test)_[A-Za-z0-9]{10}\w*|whsec_[A-Za-z0-9+/]{20}[A-Za-z0-9+/=]*|xox[abeoprs]-[\w-]{10}[\w.-]*|xapp-\d-[\w-]{10}[\w-]*|npm_[A-Za-z0-9]{30}\w*|pypi-[\w-]{40}[\w-]*|SG\.[\w-]{16,64}\.[\w-]{16}[\w-]*|SK[0-9a-f]{32}(?!\w)|key-[0-9a-f]{32}(?!\w)|hf_[A-Za-z0-9]{30}\w*|do[opr]_v1_[0-9a-f]{64}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|hv[sbr]\.[\w-]{20}[\w-]*|dapi[0-9a-f]{32}|lin_api_\w{20}\w*|glsa_\w{20}\w*|sntrys_[\w+/=-]{20}[\w+/=-]*|NRAK-[A-Z0-9]{20}\w*|PMAK-[\w-]{20}[\w-]*|gsk_[A-Za-z0-9]{20}\w*|xai-[A-Za-z0-9]{20}\w*|pplx-[A-Za-z0-9]{20}\w*|r8_[A-Za-z0-9]{20}\w*|sbp_[0-9a-f]{40}|ATATT3[\w=-]{20}[\w=-]*|figd_[\w-]{20}[\w-]*|sq0(?:atp|csp)-[\w-]{20}[\w-]*|AGE-SECRET-KEY-1[A-Z0-9]{20}[A-Z0-9]*|(?<=\d{8}:)AA[\w-]{33})/

/** The hints of a string: what it may contain. */
const AT = 1
const TOKEN = 2
const NUMBER = 4
const KEY = 8

const RULES: ReadonlyMap<RegExp, PatternRules> = new Map<RegExp, PatternRules>([
  [PRIVATE_KEY, { isPossible: (hints, text) => (hints & TOKEN) !== 0 && text.includes('-----BEGIN ') }],
  [BEARER, { isPossible: (hints) => (hints & TOKEN) !== 0, endOf: endOfBearer }],
  [JWT, { isPossible: (hints) => (hints & TOKEN) !== 0, endOf: endOfJwt, skipsMatch: true }],
  [API_KEY, { isPossible: (hints) => (hints & KEY) !== 0 }],
  [E_MAIL, { isPossible: (hints) => (hints & AT) !== 0 }],
  [IBAN, { isPossible: (hints) => (hints & NUMBER) !== 0, endOf: isIban }],
  [CARD, { isPossible: (hints) => (hints & NUMBER) !== 0, endOf: isPaymentCard }],
])

/** Returns the rules of a built-in pattern, which are found by the identity of its `RegExp` object. */
export function rulesOf(pattern: RegExp): PatternRules | undefined {
  return RULES.get(pattern)
}

/**
 * Patterns of common secrets, for `patterns` of `withRedaction`, in the order in which they apply: `private-key` (PEM),
 * `bearer`, `jwt`, `api-key` (prefixes of common providers), `email`, `iban`, and `card`. The last two check the check digits.
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

/** The number of characters of the shortest payment card number, key, or IBAN. */
const MIN_LENGTH = 13

// Each of these expressions takes about 25 ns for most strings, because V8 skips characters that cannot be part of a match.
// One expression with all prefixes of keys takes ten times as long.
const TOKEN_HINT = /eyJ|-----BEGIN |(?:[Ee][Aa][Rr][Ee][Rr]|[Dd][Pp][Oo][Pp])[ \t+%]/
const NUMBER_HINT =
  /[A-Za-z]{2}\d\d[ -]?[A-Za-z0-9]{4}[ -]?[A-Za-z0-9]{4}|\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d[ -]?\d/
const KEY_HINT =
  /A[A-Z]{2}A[A-Z0-9]{4}|AIza|SG\.|SK[0-9a-f]{4}|ya29|hv[sbr]\.|dapi|ATATT|:AA|(?:[g-zA-Z]|ox[abe])-\w[\w-]{5}/

/** Returns what a string may contain, so that most strings are not searched by the patterns themselves. */
export function hintsOf(text: string): number {
  let hints = text.indexOf('@') >= 0 || text.indexOf('%40') >= 0 ? AT : 0
  if (text.length < 8) return hints
  if (TOKEN_HINT.test(text)) hints |= TOKEN
  if (text.length < MIN_LENGTH) return hints
  if (NUMBER_HINT.test(text)) hints |= NUMBER
  if ((text.indexOf('_') >= 0 && /_\w{8}/.test(text)) || KEY_HINT.test(text)) hints |= KEY
  return hints
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
