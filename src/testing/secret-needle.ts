/** Shorter pieces of base64 would be found by chance. */
const MIN_BASE64 = 6

/** Secrets of fewer bytes are searched for as they are and decoded, but not as hex, base64, or lists of bytes. */
const MIN_ENCODED = 4

/** The maximum number of times that a text is decoded, as for percent-encoded JSON within JSON. */
const MAX_DECODING = 8

/** The maximum number of texts that decoding makes of one text. It includes every order of three decodings. */
const MAX_DECODED = 64

/** The maximum length of these texts together, in UTF-16 units, beyond eight times the length of the text. */
const MAX_LENGTH = 16_777_216

/** A text, or a decoded form of it with the name of the first decoding. */
interface Decoded {
  readonly text: string
  readonly form: string | undefined
}

/** A text that is searched for secrets, with its decoded forms. They are computed once for all secrets. */
export class Haystack {
  readonly #texts: readonly Decoded[]

  constructor(text: string) {
    this.#texts = decodings(text)
  }

  /** Returns the form in which a secret is in the text, if it is. */
  formOf(needle: Needle): string | undefined {
    for (const { text, form } of this.#texts) {
      const found = needle.formIn(text)
      if (found !== undefined) return form ?? found
    }
    return undefined
  }
}

/** One secret in its encoded forms. */
export class Needle {
  /** The number of the secret, counting from 1. */
  readonly number: number
  readonly #secret: string
  readonly #base64: readonly string[]
  readonly #base64url: readonly string[]
  readonly #hex: readonly string[]
  readonly #bytes: string | undefined

  constructor(secret: string, number: number) {
    this.number = number
    this.#secret = secret
    const bytes = Buffer.from(secret, 'utf8')
    const isLong = bytes.length >= MIN_ENCODED
    this.#base64 = isLong ? base64Forms(bytes) : []
    this.#base64url = this.#base64.map((form) => form.replaceAll('+', '-').replaceAll('/', '_'))
    const pairs = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'))
    this.#hex = isLong ? ['', ' ', ':'].map((separator) => pairs.join(separator)) : []
    this.#bytes = isLong ? bytes.join(',') : undefined
  }

  /** Returns the form in which the secret is in `text` without decoding it, if it is. */
  formIn(text: string): string | undefined {
    if (text.includes(this.#secret)) return 'as it is'
    // Base64 may be broken into lines, and lists may be indented.
    const joined = /[\r\n]/.test(text) ? text.replace(/\s+/g, '') : text
    if (this.#base64.some((form) => joined.includes(form))) return 'in base64'
    if (this.#base64url.some((form) => joined.includes(form))) return 'in base64url'
    const lowerCase = text.toLowerCase()
    if (this.#hex.some((form) => lowerCase.includes(form))) return 'in hex'
    if (this.#bytes !== undefined && hasNumbers(text.replace(/,\s+/g, ','), this.#bytes))
      return 'as a list of bytes'
    return undefined
  }
}

/** Returns `true` if a list of whole numbers is in `text`. A part of a longer number does not count. */
function hasNumbers(text: string, list: string): boolean {
  for (let at = text.indexOf(list); at >= 0; at = text.indexOf(list, at + 1)) {
    if (!/\d/.test(text.charAt(at - 1)) && !/\d/.test(text.charAt(at + list.length))) return true
  }
  return false
}

/** Returns the bytes in base64 at each of the three positions that they can have in a longer text. */
function base64Forms(bytes: Buffer): string[] {
  const forms = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    // Only the characters that do not depend on neighboring bytes.
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
  })
  return forms.filter((form, index) => index === 0 || form.length >= MIN_BASE64)
}

/** Returns the text and its decoded forms, breadth first, each text once. No form is longer than the text. */
function decodings(text: string): Decoded[] {
  if (!/[%+\\]/.test(text)) return [{ text, form: undefined }]
  const seen = new Set([text])
  let left = MAX_LENGTH + 8 * text.length
  const all: Decoded[] = [{ text, form: undefined }]
  let level: readonly Decoded[] = all.slice()
  for (let depth = 0; depth < MAX_DECODING && level.length > 0; depth++) {
    const next: Decoded[] = []
    for (const { text: encoded, form } of level) {
      for (const [decoder, decode] of DECODERS) {
        if (all.length >= MAX_DECODED) return all
        const decoded = decode(encoded)
        if (seen.has(decoded)) continue
        seen.add(decoded)
        left -= decoded.length
        if (left < 0) return all
        const found = { text: decoded, form: form ?? decoder }
        next.push(found)
        all.push(found)
      }
    }
    level = next
  }
  return all
}

const DECODERS: readonly (readonly [form: string, decode: (text: string) => string])[] = [
  ['percent-encoded', percentDecoded],
  ['percent-encoded', plusDecoded],
  ['JSON-escaped', unescaped],
]

function percentDecoded(text: string): string {
  if (!text.includes('%')) return text
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString())
}

/** In a query, a plus is a space. */
function plusDecoded(text: string): string {
  return text.includes('+') && /%[0-9a-f]{2}|=/i.test(text) ? text.replaceAll('+', ' ') : text
}

function unescaped(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(
    /\\(?:u([0-9a-f]{4})|u\{([0-9a-f]{1,5})\}|x([0-9a-f]{2})|(.))/gi,
    (
      _all,
      unit: string | undefined,
      point: string | undefined,
      byte: string | undefined,
      character: string | undefined,
    ) => {
      const code = unit ?? point ?? byte
      if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16))
      return JSON_ESCAPES[character as string] ?? (character as string)
    },
  )
}

const JSON_ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }
