/**
 * The deepest nesting of JSON that is accepted: the number of objects and arrays around a value. The body itself is
 * level 1, be it a message or a batch; level 128 is accepted, level 129 is not.
 */
export const MAX_JSON_DEPTH = 128

const QUOTE = 0x22
const BACKSLASH = 0x5c
const OPENING_BRACE = 0x7b
const CLOSING_BRACE = 0x7d
/** The bit by which the code of a bracket differs from that of the brace. */
const BRACE_BIT = 0x20

/**
 * Checks the nesting depth of JSON before it is parsed. The parser needs far more memory for deeply nested text than the text
 * has, even if it is not valid JSON. This function reads the text once and allocates nothing.
 * @returns `not-json` if brackets or quotation marks do not match. The parser finds all other errors.
 */
export function checkDepth(text: string): 'ok' | 'too-deep' | 'not-json' {
  if (text.length <= MAX_JSON_DEPTH || !hasManyBrackets(text)) return 'ok'
  let depth = 0
  let deepest = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === QUOTE) {
      index = endOfString(text, index)
      if (index >= text.length) return 'not-json'
    } else if ((code | BRACE_BIT) === OPENING_BRACE) {
      depth++
      if (depth > deepest) deepest = depth
    } else if ((code | BRACE_BIT) === CLOSING_BRACE) {
      depth--
      if (depth < 0) return 'not-json'
    }
  }
  if (depth > 0) return 'not-json'
  return deepest > MAX_JSON_DEPTH ? 'too-deep' : 'ok'
}

/** Returns `true` if a parsed body is nested deeper than allowed, or contains itself. */
export function isTooDeepValue(value: unknown, levels: number = MAX_JSON_DEPTH): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (levels === 0) return true
  // The recursion is never deeper than `levels`.
  if (Array.isArray(value)) return value.some((item) => isTooDeepValue(item, levels - 1))
  for (const key in value) {
    if (isTooDeepValue((value as Record<string, unknown>)[key], levels - 1)) return true
  }
  return false
}

/** Returns `true` if a text has so many opening brackets that it may be nested too deep. */
function hasManyBrackets(text: string): boolean {
  let found = 0
  for (const bracket of '{[') {
    for (let index = text.indexOf(bracket); index >= 0; index = text.indexOf(bracket, index + 1)) {
      found++
      if (found > MAX_JSON_DEPTH) return true
    }
  }
  return false
}

/** Returns the index of the quotation mark that ends a string, or an index beyond the text if there is none. */
function endOfString(text: string, start: number): number {
  let index = start + 1
  for (; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code === QUOTE) break
    if (code === BACKSLASH) index++
  }
  return index
}
