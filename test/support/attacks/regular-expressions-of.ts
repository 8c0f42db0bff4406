import { readdirSync, readFileSync } from 'node:fs'
import { sep } from 'node:path'
import { parseAst } from 'rolldown/parseAst'

const ROOT = new URL('../../../../', import.meta.url)

/** A node of the syntax tree, with the members that this file reads. */
interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly name?: string
  readonly regex?: { readonly pattern: string; readonly flags: string }
  readonly callee?: Node
  readonly property?: Node
  readonly arguments?: readonly Node[]
}

/** Code that creates a regular expression. */
export interface FoundExpression {
  /** The literal, such as `/^a+$/i`, or the code that builds the expression. */
  readonly code: string
  /** The pattern and flags of a literal. Undefined for an expression that is built from strings. */
  readonly literal: { readonly pattern: string; readonly flags: string } | undefined
}

/** String methods that compile a string into a regular expression. */
const COMPILING = ['match', 'matchAll', 'search']

/**
 * Returns every regular expression of a TypeScript source: literals, `RegExp(…)`, `new RegExp(…)`, and strings that
 * `match`, `matchAll`, or `search` compile. Other uses of `RegExp`, such as `const Alias = RegExp`, throw an error.
 */
export function regularExpressionsOf(source: string): readonly FoundExpression[] {
  const found = new Map<string, FoundExpression>()
  const add = (node: Node): void => {
    // Line breaks are removed, so that formatting does not change the list.
    const code = source.slice(node.start, node.end)
    const key = node.regex === undefined ? code.replaceAll(/\s+/g, ' ') : code
    found.set(key, { code: key, literal: node.regex })
  }
  const visit = (value: unknown, parent: Node | undefined): void => {
    if (Array.isArray(value)) for (const item of value) visit(item, parent)
    if (typeof value !== 'object' || value === null || !('type' in value)) return
    const node = value as Node
    if (node.regex !== undefined) add(node)
    if (isRegExpCall(node) || compilesText(node)) add(node)
    if (node.type === 'Identifier' && node.name === 'RegExp' && !isUnderstood(parent, node))
      throw new Error(`This use of RegExp is not understood: ${source.slice(parent?.start, parent?.end)}`)
    for (const child of Object.values(node)) visit(child, node)
  }
  visit(parseAst(source, { lang: 'ts' }), undefined)
  return [...found.values()]
}

function isRegExpCall({ type, callee }: Node): boolean {
  return (type === 'NewExpression' || type === 'CallExpression') && callee?.name === 'RegExp'
}

/** Returns `true` for `text.match('a+')`. */
function compilesText({ type, callee, arguments: [first] = [] }: Node): boolean {
  if (type !== 'CallExpression' || callee?.type !== 'MemberExpression') return false
  if (!COMPILING.includes(callee.property?.name ?? '')) return false
  return first?.type === 'TemplateLiteral' || (first?.type === 'Literal' && first.regex === undefined)
}

function isUnderstood(parent: Node | undefined, node: Node): boolean {
  if (parent === undefined) return false
  if (parent.type === 'TSTypeReference') return true
  if (isRegExpCall(parent) && parent.callee === node) return true
  return parent.type === 'BinaryExpression' && 'operator' in parent && parent.operator === 'instanceof'
}

/** Returns the expressions of `src` and `cli`, by file. */
export function expressionsOfSources(): ReadonlyMap<string, readonly FoundExpression[]> {
  const files = ['cli', 'src'].flatMap((folder) =>
    readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' }).map(
      (file) => `${folder}/${file.split(sep).join('/')}`,
    ),
  )
  return new Map(
    files
      .filter((file) => file.endsWith('.ts'))
      .map((file) => [file, regularExpressionsOf(readFileSync(new URL(file, ROOT), 'utf8'))] as const),
  )
}
