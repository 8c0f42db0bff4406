/**
 * The values that a variable may have: `simple` values have no `/` and no `,`; a `list` is one or more of them with
 * commas in between; a `query` value has no `&`; an `any` value may have every character. No value is empty.
 */
export type VariableKind = 'simple' | 'list' | 'query' | 'any'

/** A literal, or a variable. */
export type TemplateToken = string | { readonly kind: VariableKind }

/** The end of a variable that could end in several places: the first or the last place after which the rest matches. */
export type Preference = 'first' | 'last'

/**
 * Finds the values of the variables of a template in `text`, in order. Takes time and memory linear in the length of
 * `text` for a given template: it first computes, from right to left, the positions at which each token can begin.
 * @returns `undefined` if `text` does not match.
 */
export function matchTokens(
  tokens: readonly TemplateToken[],
  text: string,
  prefer: Preference,
): string[] | undefined {
  const { length } = text
  const first = tokens[0]
  const last = tokens.at(-1)
  if (typeof first === 'string' && !text.startsWith(first)) return undefined
  if (typeof last === 'string' && !text.endsWith(last)) return undefined
  /** The positions at which each token can end so that the rest matches, by token. */
  const ends: Uint8Array[] = []
  let begins = new Uint8Array(length + 1)
  begins[length] = 1
  for (let index = tokens.length - 1; index >= 0; index--) {
    const token = tokens[index] as TemplateToken
    ends[index] = begins
    begins =
      typeof token === 'string'
        ? literalBegins(token, text, begins)
        : variableBegins(token.kind, text, begins)
  }
  if (begins[0] !== 1) return undefined

  const values: string[] = []
  let at = 0
  for (const [index, token] of tokens.entries()) {
    if (typeof token === 'string') {
      at += token.length
      continue
    }
    const end = variableEnd(token.kind, text, at, ends[index] as Uint8Array, prefer)
    values.push(text.slice(at, end))
    at = end
  }
  return values
}

function literalBegins(literal: string, text: string, ends: Uint8Array): Uint8Array<ArrayBuffer> {
  const begins = new Uint8Array(text.length + 1)
  for (let at = text.length - literal.length; at >= 0; at--) {
    if (ends[at + literal.length] === 1 && text.startsWith(literal, at)) begins[at] = 1
  }
  return begins
}

const COMMA = 0x2c
const SLASH = 0x2f
const AMPERSAND = 0x26
/** Not the code of any character. */
const NONE = -1

/** The codes of the characters that a value cannot have. */
const EXCLUDED: Readonly<Record<VariableKind, readonly [number, number]>> = {
  simple: [SLASH, COMMA],
  list: [SLASH, NONE],
  query: [AMPERSAND, NONE],
  any: [NONE, NONE],
}

/**
 * Returns the positions at which a variable can begin, from those at which it can end. Two consecutive commas end a list. A
 * list cannot begin or end with a comma.
 */
function variableBegins(kind: VariableKind, text: string, ends: Uint8Array): Uint8Array<ArrayBuffer> {
  const begins = new Uint8Array(text.length + 1)
  const [excluded, alsoExcluded] = EXCLUDED[kind]
  const comma = kind === 'list' ? COMMA : NONE
  let limit = text.length
  let nearestEnd = Number.POSITIVE_INFINITY
  let next = NONE
  for (let at = text.length - 1; at >= 0; at--) {
    const code = text.charCodeAt(at)
    if (ends[at + 1] === 1 && code !== comma) nearestEnd = at + 1
    if (code === excluded || code === alsoExcluded || (code === comma && next === comma)) limit = at
    if (nearestEnd <= limit && code !== comma) begins[at] = 1
    next = code
  }
  return begins
}

/** Returns the end of the variable that begins at `from`. It has at least one. */
function variableEnd(
  kind: VariableKind,
  text: string,
  from: number,
  ends: Uint8Array,
  prefer: Preference,
): number {
  const [excluded, alsoExcluded] = EXCLUDED[kind]
  const comma = kind === 'list' ? COMMA : NONE
  let end = from
  let before = NONE
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === excluded || code === alsoExcluded || (code === comma && before === comma)) break
    if (ends[at + 1] === 1 && code !== comma) {
      end = at + 1
      if (prefer === 'first') break
    }
    before = code
  }
  return end
}
