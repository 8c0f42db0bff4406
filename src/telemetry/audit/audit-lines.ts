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

/** The beginning of a line whose end has not come yet. */
class LinePart {
  readonly #max: number
  readonly #parts: Uint8Array[] = []
  length = 0

  constructor(max: number) {
    this.#max = max
  }

  /** Adds a copy of bytes, because a few bytes would otherwise keep the whole piece in memory. */
  add(bytes: Uint8Array): void {
    const kept = Uint8Array.from(bytes.subarray(0, this.#max + 1 - this.length))
    if (kept.length === 0) return
    this.#parts.push(kept)
    this.length += kept.length
  }

  bytes(): Uint8Array {
    if (this.#parts.length === 1) return this.#parts[0] as Uint8Array
    const line = new Uint8Array(this.length)
    let at = 0
    for (const part of this.#parts) {
      line.set(part, at)
      at += part.length
    }
    return line
  }
}
