import { endOfCard, endOfIban, startsWord } from './checksums.ts'
import { endOfCredentials } from './credentials.ts'
import { CUT, type PatternRules, setRules } from './pattern-rules.ts'
import { HINTS, hintsOf } from './secret-hints.ts'

/** A secret that `withRedaction({ patterns })` finds inside strings. */
export interface TelemetryRedactionPattern {
  /** The name of the secret, which `'mask'` writes as `[name]`. Up to 64 letters, digits, and `._-`. Begins with a letter. */
  readonly name: string
  /**
   * The secret. Every match in a string is replaced, so the flag `g` makes no difference. A slow pattern slows the process.
   * Rejected are back-references, lookbehinds, and `*`, `+`, or `{n,}` on a group that itself contains one of them.
   */
  readonly pattern: RegExp
  /**
   * The replacement: `'mask'` writes `[name]`, `'hash'` the hash that `hashKeys` writes, and `'remove'` nothing. Defaults to
   * `'mask'`.
   */
  readonly replace?: 'mask' | 'hash' | 'remove' | undefined
}

/**
 * The letters of names and hosts: ASCII, and those of Latin, Greek, Cyrillic, and further alphabets. The name of an image for
 * screens of a high resolution, such as `logo@2x.png`, is not an address.
 */
const E_MAIL =
  /(?<![\w.+\u00c0-\u1fff-]|%2[BDEbde]|%(?=2[BDEbde]))(?:[\w.+\u00c0-\u1fff-]|%2[BDEbde])+(?:@|%40)(?!\dx\.(?:avif|gif|jpe?g|png|svg|webp)(?![\w-]|\.\w))(?:[\w\u00c0-\u1fff-]+\.)+[A-Za-z\u00c0-\u1fff]{2,}/

/** The password of a URL, and of one that is percent-encoded as a whole. It ends at the last `@` before the path. */
const URL_CREDENTIALS =
  /(?<=\w:\\?\/\\?\/[^\s/?#:"]*:)[^\s/?#"]+(?=@)|(?<=\w%3A%2F%2F(?:[^\s/?#:"&%]|%(?!3A|2F|3F|23))*%3A)(?:[^\s/?#"&%]|%(?!2F|3F|23))+(?=%40)/i

/** A digit may follow another one if that is the end of an escape, such as `%20`. */
const CARD = /(?:(?<!\d)|(?<=%[\dA-F]{2})|(?<=\\u[\dA-F]{4}))\d(?:[ -]?\d){12,18}/i

const IBAN = /[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]){11,30}/i

/** Matches all that begins like a JSON Web Token, so that no character is read twice. */
const JWT = /eyJ[\w-]*(?:\.[\w-]*){0,4}/

/** Matches a scheme. `endOfCredentials` reads the token behind it. */
const CREDENTIALS = /(?:bearer|dpop|basic)(?:[ \t+]|%20)/i

/** A key without its end is a secret too, so everything up to the end of the string is matched. */
const PRIVATE_KEY =
  /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|$)/

/** Matches the prefixes of keys. `KEYS` has the whole keys. */
const API_KEY =
  /A(?:[KSB]IA|CCA|Iza|TATT3|GE-SECRET-KEY-1|A)|GOCSPX-|NRAK-|PMAK-|S(?:G\.|K[0-9a-f])|dapi|do[opr]_v1_|figd_|g(?:h[opsur]_|ithub_pat_|l(?:pat|ptt|dt|rt|cbt|ft|soat|agent|imt|oas)-|lsa_|sk_)|h(?:f_|v[bsr]\.)|key-|lin_api_|npm_|p(?:plx-|ypi-)|r(?:8_|k_(?:live|test)_)|s(?:bp_|hp(?:at|ca|pa|ss)_|k-|k_(?:live|test)_|ntrys_|q0(?:atp|csp)-)|whsec_|x(?:ai-|app-|ox[abeoprs]-)|ya29\./

/**
 * The keys of common providers by their first letter. Each expression matches only at its `lastIndex`. A sequence of short words
 * in lowercase after `sk-` is not a key.
 */
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
      /sk-(?=[\w-]{0,63}(?:[A-Z\d_]|[a-z]{20}))[\w-]{20}[\w-]*/y,
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

/**
 * Patterns of common secrets, for `patterns` of `withRedaction`, in the order in which they apply: `private-key` (PEM),
 * `url-credentials` (the password of a URL), `bearer` (`Bearer`, `DPoP`, and `Basic` with their credentials), `jwt`, `api-key`
 * (prefixes of common providers), `email`, `iban`, and `card`. The last two check the check digits.
 * The expressions of `jwt`, `bearer`, `api-key`, `iban`, and `card` find candidates, which further code checks. That code runs
 * only for the `RegExp` objects of this list. UUIDs, trace contexts, and hashes are kept.
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
export const COMMON_SECRET_PATTERNS: readonly TelemetryRedactionPattern[] = /* @__PURE__ */ commonPatterns()

/** Creates the list. A bundler leaves it out, with its rules, if an application does not use it. */
function commonPatterns(): readonly TelemetryRedactionPattern[] {
  return Object.freeze([
    builtIn('private-key', PRIVATE_KEY, { hint: HINTS.privateKey }),
    builtIn('url-credentials', URL_CREDENTIALS, { hint: HINTS.at }),
    builtIn('bearer', CREDENTIALS, { hint: HINTS.token, endOf: endOfCredentials }),
    builtIn('jwt', JWT, { hint: HINTS.token, endOf: endOfJwt, skipsMatch: true }),
    builtIn('api-key', API_KEY, { hint: HINTS.key, endOf: endOfKey }),
    builtIn('email', E_MAIL, { hint: HINTS.at }),
    builtIn('iban', IBAN, { hint: HINTS.iban, endOf: endOfIban }),
    builtIn('card', CARD, { hint: HINTS.card, endOf: endOfCard }),
  ])
}

function builtIn(
  name: string,
  pattern: RegExp,
  rules: Omit<PatternRules, 'hintsOf'>,
): TelemetryRedactionPattern {
  setRules(pattern, { ...rules, hintsOf })
  return Object.freeze({ name, pattern })
}

/** A token has a header, a payload, and a signature, which may be empty. One that was cut may lack them. */
function endOfJwt(text: string, start: number, end: number): number | undefined {
  if (text[end] === CUT) return end
  const parts = text.slice(start, end).split('.')
  return parts.length > 2 && (parts[0] as string).length >= 8 ? end : undefined
}

function endOfKey(text: string, start: number): number | undefined {
  if (!startsWord(text, start)) return undefined
  for (const key of KEYS.get(text[start] as string) ?? []) {
    key.lastIndex = start
    if (key.test(text)) return key.lastIndex
  }
  return undefined
}
