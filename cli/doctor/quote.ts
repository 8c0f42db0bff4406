import { eraseSecrets } from '../../src/base/http/erase-secrets.ts'

const MAX_LENGTH = 160
/** The maximum length of the text of one check, which can contain several quotes. */
const MAX_LINE_LENGTH = 4_000

/**
 * Returns text from outside in a form that is safe to print: on one line, without control characters (which a terminal
 * executes) and direction marks, and with at most 160 characters.
 */
export function quote(text: string): string {
  return printable(text, MAX_LENGTH)
}

/** Returns the text of a check in the same form, with at most 4,000 characters. */
export function printableLine(text: string): string {
  return printable(text, MAX_LINE_LENGTH)
}

function printable(text: string, maxLength: number): string {
  // The rest of a long text is ignored. A character can have two code units, and white space is removed.
  const start = text.slice(0, 4 * maxLength)
  const plain = start.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, ' ').trim()
  const characters = [...plain]
  if (characters.length <= maxLength && start.length === text.length) return plain
  return `${characters.slice(0, maxLength).join('')}…`
}

/** Returns a JSON value in a form that is safe to print. */
export function quoteValue(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (typeof value === 'string') return quote(value)
  try {
    return quote(JSON.stringify(value))
  } catch {
    // JSON.stringify is recursive and can exceed the stack. JSON.parse cannot.
    return 'a deeply nested value'
  }
}

/** Returns up to twelve values, separated by commas, and the number of the others. */
export function quoteAll(values: readonly unknown[]): string {
  const shown = values.slice(0, 12).map(quoteValue).join(', ')
  return values.length > 12 ? `${shown} and ${values.length - 12} more` : shown
}

/** Shorter strings occur in other text by chance. */
const MIN_SECRET = 4
const MIN_PIECE = 16
/** A JWT has three parts, and an encrypted one five. */
const MAX_PIECES = 5
/** A quote has at most 160 characters, each of at most two code units. */
const MAX_CUT = 320

/** The strings that must not be printed. A server can send back the token that it received. */
export class Secrets {
  readonly #texts = new Set<string>()

  /** Adds a secret, the parts of a JWT, and their percent-encoded forms. */
  add(text: string | undefined): void {
    if (text === undefined || text.length < MIN_SECRET) return
    const pieces = text.split('.', MAX_PIECES).filter((piece) => piece.length >= MIN_PIECE)
    for (const piece of [text, ...pieces]) {
      this.#texts.add(piece)
      // encodeURIComponent throws an error for half a surrogate pair.
      this.#texts.add(encodeURIComponent(Buffer.from(piece).toString()))
    }
  }

  erase(text: string): string {
    const secrets = [...this.#texts].sort((a, b) => b.length - a.length)
    return eraseSecrets(secrets.reduce(eraseCut, text), secrets)
  }
}

/** Erases the beginning of a secret that a quote cuts off, as in `abcd…`. */
function eraseCut(text: string, secret: string): string {
  let erased = ''
  let from = 0
  for (let cut = text.indexOf('…'); cut !== -1; cut = text.indexOf('…', from)) {
    const before = text.slice(from, cut)
    const length = lengthOfCut(before, secret)
    erased += length === 0 ? `${before}…` : `${before.slice(0, -length)}[secret]…`
    from = cut + 1
  }
  return erased + text.slice(from)
}

/** Returns the length of the longest beginning of `secret` that `text` ends with. */
function lengthOfCut(text: string, secret: string): number {
  for (let length = Math.min(text.length, secret.length, MAX_CUT); length >= MIN_SECRET; length--)
    if (text.endsWith(secret.slice(0, length))) return length
  return 0
}
