import { cutText } from '../../base/cut-text.ts'
import { describeThrown, type ErrorTexts } from '../../base/describe-error.ts'

/** The replacement for a token. */
const REPLACEMENT = '[token]'

/** Shorter strings are not secrets (RFC 6749 §10.10 asks for 128 bits and more), and would be found by chance. */
const MIN_SECRET = 16

/** The maximum number of strings that are searched for. It keeps the time linear in the length of the text. */
const MAX_SECRETS = 32

/** The maximum length of a message or a stack, in UTF-16 units. The manager shortens them further. */
const MAX_ERROR_TEXT = 1_048_576

/** The maximum number of parts of a token that are searched for. A JWS has three, and a JWE has five. */
const MAX_PARTS = 8

/**
 * Removes the credentials of a request from its telemetry: the token as it is and percent-encoded, and the parts of a JWT.
 * Other forms (shortened, hashed, decoded) are not found.
 */
export class TokenRedactor {
  readonly #secrets: readonly string[]
  readonly #longest: number

  /** @param authorization the token, or `Authorization` values. */
  constructor(authorization: string | readonly string[] | undefined) {
    const words = [authorization ?? []].flat().flatMap((value) => value.split(/[\s,]+/, MAX_SECRETS))
    const secrets = new Set(words.flatMap(formsOf).filter((secret) => secret.length >= MIN_SECRET))
    this.#secrets = [...secrets].slice(0, MAX_SECRETS)
    this.#longest = Math.max(1, ...this.#secrets.map(({ length }) => length))
  }

  /** Returns `true` if `text` contains none of the credentials. */
  isFree(text: string): boolean {
    return this.#secrets.every((secret) => !text.includes(secret))
  }

  /** Returns `text` without the credentials. */
  text(text: string): string {
    return this.isFree(text)
      ? text
      : this.#secrets.reduce((left, secret) => left.replaceAll(secret, REPLACEMENT), text)
  }

  /** Like `text`, but returns at most `max` UTF-16 units. Only the part of a longer text that is kept is searched. */
  cut(text: string, max: number): string {
    if (text.length <= max) return cutText(this.text(text), max)
    const read = text.slice(0, max + this.#longest)
    const head = this.text(read)
    // A part may end within a token, which is not found then.
    const kept = read.length < text.length ? head.length - this.#longest : head.length
    return cutText(head, Math.min(max, kept))
  }

  /** Returns a JSON value without the credentials. */
  json(value: unknown): unknown {
    const text = JSON.stringify(value) as string | undefined
    return text === undefined || this.isFree(text) ? value : JSON.parse(this.text(text))
  }

  /**
   * Describes any thrown value and its causes, without the credentials. Never throws.
   * @param contentOf returns the content of an object without a message, as text
   */
  thrown(thrown: unknown, contentOf: (thrown: object) => string | undefined = () => undefined): ErrorTexts {
    return describeThrown(thrown, (text) => this.cut(text, MAX_ERROR_TEXT), contentOf)
  }
}

/** Returns a credential in the forms in which it may be quoted. */
function formsOf(word: string): string[] {
  const encoded = percentEncoded(word)
  const lowerCase = encoded.replace(/%../g, (byte) => byte.toLowerCase())
  return [word, encoded, lowerCase, ...word.split('.', MAX_PARTS)]
}

function percentEncoded(word: string): string {
  try {
    return encodeURIComponent(word)
  } catch {
    // A lone surrogate cannot be percent-encoded.
    return word
  }
}
