/** Shorter secrets, and pieces of one, would be found by chance. */
const MIN_SECRET = 4
const MIN_PIECE = 16

/** What must not be printed, whoever said it: a server may send back what it got. */
export class Secrets {
  readonly #texts = new Set<string>()

  /** From now on `text` is erased, and so are the parts of a JWT and its percent-encoded form. */
  add(text: string | undefined): void {
    if (text === undefined || text.length < MIN_SECRET) return
    const pieces = text.split('.').filter((piece) => piece.length >= MIN_PIECE)
    for (const piece of [text, ...pieces]) {
      this.#texts.add(piece)
      this.#texts.add(encodeURIComponent(piece))
    }
  }

  erase(text: string): string {
    let erased = text
    // The longest first: a part of a token must not be cut out of the whole.
    for (const secret of [...this.#texts].sort((a, b) => b.length - a.length))
      erased = erased.replaceAll(secret, '[secret]')
    return erased
  }
}
