const LINE_FEED = 0x0a

/** The number of bytes for which a line has room at first. */
const FIRST_BYTES = 1024

/**
 * Returns the lines of a log. A string is one line. Bytes are a piece of a file, whose lines end in a line feed. Line
 * separators of Unicode do not end a line, because JSON may contain them.
 * @param max the maximum length of a line in bytes. Of a longer line, one byte more is returned, and the others are discarded.
 */
export async function* linesOf(
  items: Iterable<unknown> | AsyncIterable<unknown>,
  max: number,
): AsyncGenerator<unknown, void, undefined> {
  // The beginning of a line whose end has not come yet. The buffer doubles, however small the pieces are.
  let buffer = new Uint8Array(FIRST_BYTES)
  let length = 0
  const add = (bytes: Uint8Array): void => {
    const kept = bytes.subarray(0, max + 1 - length)
    if (length + kept.length > buffer.length) {
      const larger = new Uint8Array(Math.max(length + kept.length, 2 * buffer.length))
      larger.set(buffer)
      buffer = larger
    }
    buffer.set(kept, length)
    length += kept.length
  }
  const take = (): Uint8Array => {
    const line = buffer.slice(0, length)
    length = 0
    return line
  }
  for await (const item of items) {
    if (!(item instanceof Uint8Array)) {
      if (length > 0) yield take()
      yield item
      continue
    }
    let start = 0
    for (let end = item.indexOf(LINE_FEED); end !== -1; end = item.indexOf(LINE_FEED, start)) {
      add(item.subarray(start, end))
      yield take()
      start = end + 1
    }
    add(item.subarray(start))
  }
  if (length > 0) yield take()
}
