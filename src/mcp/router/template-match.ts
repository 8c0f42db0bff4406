/**
 * The values that a variable may have: `simple` values have no `/` and no `,`; a `list` is one or more of them with
 * commas in between; a `query` value has no `&`; an `any` value may have every character. No value is empty.
 */
export type VariableKind = 'simple' | 'list' | 'query' | 'any'

/** A literal text, or a variable. */
export type TemplateToken = string | { readonly kind: VariableKind }

/** Where a variable ends that could end in several places: in the first or the last that lets the rest match. */
export type Preference = 'first' | 'last'

/**
 * Finds the values of the variables of a template in `text`, in order. Takes time and memory linear in the length of
 * `text` for a given template: it first computes, from the right, where each token can begin.
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
  /** By token: where it can end, so that the rest matches. */
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

/** The character that a value cannot have; a list ends before a slash, too. */
function isExcluded(kind: VariableKind, code: number): boolean {
  switch (kind) {
    case 'simple':
      return code === 0x2f || code === COMMA
    case 'list':
      return code === 0x2f
    case 'query':
      return code === 0x26
    case 'any':
      return false
  }
}

function canBegin(kind: VariableKind, text: string, at: number): boolean {
  return kind !== 'list' || text.charCodeAt(at) !== COMMA
}

function canEnd(kind: VariableKind, text: string, at: number, ends: Uint8Array): boolean {
  return ends[at] === 1 && (kind !== 'list' || text.charCodeAt(at - 1) !== COMMA)
}

/** Whether a value that begins at or before `at` ends at or before `at + 1`: after the first of two commas. */
function isBetweenCommas(kind: VariableKind, text: string, at: number): boolean {
  return kind === 'list' && text.charCodeAt(at) === COMMA && text.charCodeAt(at + 1) === COMMA
}

function variableBegins(kind: VariableKind, text: string, ends: Uint8Array): Uint8Array<ArrayBuffer> {
  const begins = new Uint8Array(text.length + 1)
  let limit = text.length
  let nearestEnd = Number.POSITIVE_INFINITY
  for (let at = text.length - 1; at >= 0; at--) {
    if (canEnd(kind, text, at + 1, ends)) nearestEnd = at + 1
    if (isExcluded(kind, text.charCodeAt(at))) limit = at
    else if (isBetweenCommas(kind, text, at)) limit = at + 1
    if (nearestEnd <= limit && canBegin(kind, text, at)) begins[at] = 1
  }
  return begins
}

/** Where the variable that begins at `from` ends. There is such a place. */
function variableEnd(
  kind: VariableKind,
  text: string,
  from: number,
  ends: Uint8Array,
  prefer: Preference,
): number {
  let end = from + 1
  if (prefer === 'first') {
    while (!canEnd(kind, text, end, ends)) end++
    return end
  }
  let latest = end
  for (let at = from; at < text.length && !isExcluded(kind, text.charCodeAt(at)); at++) {
    if (canEnd(kind, text, at + 1, ends)) latest = at + 1
    if (isBetweenCommas(kind, text, at)) break
  }
  end = latest
  return end
}
