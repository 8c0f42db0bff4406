const LINE_FEED = 0x0a

/**
 * Returns the lines of a log. A string is one line. Bytes are a piece of a file, whose lines end in a line feed. Line
 * separators of Unicode do not end a line, because JSON may contain them.
 * @param max the maximum length of a line in bytes. Of a longer line, one byte more is returned, and the others are discarded.
 */
export async function* linesOf(
  items: Iterable<unknown> | AsyncIterable<unknown>,
  max: number,
): AsyncGenerator<unknown, void, undefined> {
  let rest = new LinePart(max)
  for await (const item of items) {
    if (!(item instanceof Uint8Array)) {
      if (rest.length > 0) yield rest.bytes()
      rest = new LinePart(max)
      yield item
      continue
    }
    let start = 0
    for (let end = item.indexOf(LINE_FEED); end !== -1; end = item.indexOf(LINE_FEED, start)) {
      rest.add(item.subarray(start, end))
      yield rest.bytes()
      rest = new LinePart(max)
      start = end + 1
    }
    rest.add(item.subarray(start))
  }
  if (rest.length > 0) yield rest.bytes()
}

/** The number of bytes for which a line has room at first. */
const FIRST_BYTES = 1024

/** The beginning of a line whose end has not come yet, in one buffer that doubles, however small the pieces are. */
class LinePart {
  readonly #max: number
  #buffer = new Uint8Array(0)
  length = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Adds a copy of bytes, because a few bytes would otherwise keep the whole piece in memory. */
  add(bytes: Uint8Array): void {
    const kept = bytes.subarray(0, this.#max + 1 - this.length)
    const length = this.length + kept.length
    if (length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(FIRST_BYTES, length, 2 * this.#buffer.length))
      larger.set(this.bytes())
      this.#buffer = larger
    }
    this.#buffer.set(kept, this.length)
    this.length = length
  }

  bytes(): Uint8Array {
    return this.#buffer.subarray(0, this.length)
  }
}
