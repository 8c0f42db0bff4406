import { eraseSecrets } from '../../src/http/erase-secrets.ts'

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
