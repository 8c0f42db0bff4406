import { randomBytes } from 'node:crypto'
import { canonicalUri } from './canonical-uri.ts'

/** A URI template in canonical form. */
export interface CanonicalTemplate {
  /** The whole template. Two templates that differ only in their spelling have the same text. */
  readonly text: string
  /** The text before, between, and after the expressions: one more than there are expressions. */
  readonly literals: readonly string[]
  /** The expressions as they were written, such as `{+path}`. */
  readonly expressions: readonly string[]
}

const EXPRESSION = /\{[^{}]*\}/g

let placeholders: readonly string[] | undefined

/**
 * Returns the placeholders for the value of an expression while the URL parser reads the template. The first is a string that
 * no client can guess and that the parser keeps everywhere. The second is a number, for the place of a port. They are not made
 * when the module loads, because Cloudflare Workers forbid random values there.
 */
function placeholdersOf(): readonly string[] {
  placeholders ??= [`x${randomBytes(8).toString('hex')}x`, '58273']
  return placeholders
}

/** The operators that are part of the URI, before the value. */
const WRITTEN_OPERATORS: ReadonlySet<string | undefined> = new Set(['.', '/', '?', '&', '#'])

/**
 * Brings the literal parts of a URI template into the form that `canonicalUri` gives the URIs of the template.
 * @returns `undefined` for a template whose URIs can never be in canonical form.
 */
export function canonicalTemplate(template: string): CanonicalTemplate | undefined {
  const expressions = template.match(EXPRESSION) ?? []
  const given = template.split(EXPRESSION)
  for (const placeholder of placeholdersOf()) {
    if (template.includes(placeholder)) continue
    const literals = literalsOf(given, expressions, placeholder)
    if (literals === undefined) continue
    const text = literals.reduce((before, literal, index) => before + expressions[index - 1] + literal)
    return { text, literals, expressions }
  }
  return undefined
}

function literalsOf(
  given: readonly string[],
  expressions: readonly string[],
  placeholder: string,
): readonly string[] | undefined {
  const operators = expressions.map((expression) =>
    WRITTEN_OPERATORS.has(expression[1]) ? (expression[1] as string) : '',
  )
  const filled = given.reduce(
    (before, literal, index) => before + operators[index - 1] + placeholder + literal,
  )
  const literals = canonicalUri(filled)?.split(placeholder)
  // The parser has removed an expression next to a dot segment.
  if (literals?.length !== given.length) return undefined
  for (const [index, operator] of operators.entries()) {
    const literal = literals[index] as string
    if (!literal.endsWith(operator)) return undefined
    literals[index] = literal.slice(0, literal.length - operator.length)
  }
  // The parser ends a host with a slash, which is part of the value of a reserved expression.
  return literals.map((literal, index) =>
    literal === '/' && given[index] === '' && expressions[index - 1]?.startsWith('{+') ? '' : literal,
  )
}
