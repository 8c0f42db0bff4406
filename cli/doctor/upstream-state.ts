import querystring from 'node:querystring'

/** The number of characters in which two random states of 64 bits and more always differ. */
const MIN_DIFFERENCES = 10

/** A part of this length or more after the last dot is taken for a signature. */
const MIN_SIGNATURE = 20

/**
 * Returns the first of some texts that anybody can read in a `state`, as it is or in Base64, or `undefined`. A state with a
 * signature is not readable in this sense, because it cannot be changed.
 */
export function readableContext(state: string, texts: readonly string[]): string | undefined {
  const dot = state.lastIndexOf('.')
  if (dot >= 0 && state.length - dot > MIN_SIGNATURE) return undefined
  const plain = [state, Buffer.from(state, 'base64').toString('utf8')]
  const forms = [...plain, ...plain.map(querystring.unescape)]
  return texts.find((text) => forms.some((form) => form.includes(text)))
}

/** Returns `true` if two states differ in as many characters as random ones do. A counter or a time does not. */
export function statesDiffer(one: string, other: string): boolean {
  const length = Math.max(one.length, other.length)
  let differences = 0
  for (let index = 0; index < length; index++) if (one[index] !== other[index]) differences++
  return differences >= MIN_DIFFERENCES
}
