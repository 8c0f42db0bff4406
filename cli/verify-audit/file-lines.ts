const LINE_FEED = 0x0a

/**
 * Splits bytes into lines, without decoding them.
 * @param max the maximum length of a line. Of a longer line, one byte more is returned, and the others are discarded.
 */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
  max: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  let parts: Uint8Array[] = []
  let length = 0
  const add = (part: Uint8Array): void => {
    const kept = part.subarray(0, max + 1 - length)
    if (kept.length === 0) return
    // A copy, because a few bytes would otherwise keep the whole chunk in memory.
    parts.push(Uint8Array.from(kept))
    length += kept.length
  }
  const take = (): Uint8Array => {
    const line = Buffer.concat(parts)
    parts = []
    length = 0
    return line
  }
  for await (const chunk of chunks) {
    let start = 0
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      add(chunk.subarray(start, end))
      yield take()
      start = end + 1
    }
    add(chunk.subarray(start))
  }
  if (length > 0) yield take()
}
