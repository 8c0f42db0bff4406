/** The maximum number of bytes of one UTF-16 unit in JSON: an escape such as `\u0000`. */
const MAX_UNIT_BYTES = 6

/** More than the bytes of the JSON around the text of a result with one block. */
const FRAME_BYTES = 128

interface MeasuredResult {
  readonly content?: unknown
}

/**
 * Returns the size of a result in UTF-8 bytes of its JSON, if it exceeds `max`. A short text is not serialized: the length of
 * its string proves that it fits.
 * @param result a plain result, which can be serialized as JSON
 */
export function bytesBeyond(result: object, max: number): number | undefined {
  const length = lengthOfText(result)
  if (length !== undefined && length * MAX_UNIT_BYTES + FRAME_BYTES <= max) return undefined
  const bytes = Buffer.byteLength(JSON.stringify(result))
  return bytes > max ? bytes : undefined
}

/** Returns the length of the text of a result that has only one block of text. */
function lengthOfText(result: MeasuredResult): number | undefined {
  const { content } = result
  if (!Array.isArray(content) || content.length > 1) return undefined
  for (const member of Object.keys(result)) if (member !== 'content' && member !== 'isError') return undefined
  const [block] = content
  if (block === undefined) return 0
  return Object.keys(block).length === 2 && typeof block.text === 'string' ? block.text.length : undefined
}
