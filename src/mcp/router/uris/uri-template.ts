import { type OptionChecks, optionChecksOf } from '../../../base/options/option-checks.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'
import { type CanonicalTemplate, canonicalTemplate } from './canonical-template.ts'
import { MAX_URI_LENGTH } from './canonical-uri.ts'
import { matchTokens, type TemplateToken, type VariableKind } from './template-match.ts'

type Names<List extends string> = List extends `${infer One},${infer Rest}` ? One | Names<Rest> : List
type PathNames<Text extends string> = Text extends `${'?' | '&'}${string}`
  ? never
  : Text extends `${'+' | '.' | '/'}${infer List}`
    ? Names<List>
    : Names<Text>
type QueryNames<Text extends string> = Text extends `${'?' | '&'}${infer List}` ? Names<List> : never
type NamesOf<
  Template extends string,
  Where extends 'path' | 'query',
> = Template extends `${string}{${infer Text}}${infer Rest}`
  ? (Where extends 'path' ? PathNames<Text> : QueryNames<Text>) | NamesOf<Rest, Where>
  : never
type PlainName<Name extends string> = Name extends `${infer Plain}*` ? Plain : Name
type ValueOf<Name extends string> = Name extends `${string}*` ? string[] : string

/**
 * The variables of a URI template, by name: a string, or a list if the variable has a `*`. Variables of a query may be absent
 * (RFC 6570 §3.2.8).
 */
export type TemplateVariables<Template extends string> = string extends Template
  ? Readonly<Record<string, string | string[]>>
  : {
        readonly [Name in NamesOf<Template, 'path'> as PlainName<Name>]: ValueOf<Name>
      } & {
        readonly [Name in NamesOf<Template, 'query'> as PlainName<Name>]?: ValueOf<Name>
      } extends infer Variables
    ? { [Name in keyof Variables]: Variables[Name] }
    : never

/** Finds the variables of URIs by a template. Takes URIs in canonical form. */
export interface UriMatcher {
  readonly variableNames: readonly string[]
  /** The template in canonical form. */
  readonly canonical: string
  /** Returns the percent-decoded variables, or `undefined` if the template does not match `uri`. */
  match(uri: string): Readonly<Record<string, string | string[]>> | undefined
  /** Returns `true` if the template, or a server of the official SDK with this template, might match `uri`. */
  covers(uri: string): boolean
}

const VARIABLE = '[A-Za-z0-9_]+(?:\\.[A-Za-z0-9_]+)*\\*?'
const TEMPLATE = new RegExp(`^(?:[^{}]|\\{(?:[+./]?${VARIABLE}|[?&]${VARIABLE}(?:,${VARIABLE})*)\\})*$`)
const STRAY_PERCENT = /%(?![0-9A-Fa-f]{2})/

/**
 * Parses a URI template (RFC 6570) for matching.
 * @throws {KitMcpConfigError} if the template is malformed or cannot match any URI.
 */
export function checkUriTemplate(
  owner: string,
  template: unknown,
  { invalidOption }: OptionChecks = optionChecksOf('KitMcpRouter'),
): UriMatcher {
  const invalid = (problem: string, fix?: string): Error =>
    invalidOption('uriTemplate', `of ${owner} ${problem}`, template, fix)
  if (typeof template !== 'string' || !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(template))
    throw invalid("must be a URI template such as 'notes://{owner}/{id}'")
  if (template.length > MAX_URI_LENGTH || !TEMPLATE.test(template))
    throw invalid(
      'must be a supported URI template (RFC 6570)',
      `use one variable in braces, several only after '?' and '&', and no '#', ':', or ';'`,
    )
  const canonical = canonicalTemplate(template)
  if (canonical === undefined || canonical.literals.some((literal) => STRAY_PERCENT.test(literal)))
    throw invalid(
      'must match URIs',
      'remove control characters, stray percent signs, spaces in the host, and dot segments next to variables',
    )
  const variables = canonical.expressions.flatMap(variablesOf)
  if (variables.length === 0) throw invalid('must have a variable', 'use .resource() for a fixed URI')
  if (new Set(variables.map(({ name }) => name)).size < variables.length)
    throw invalid('must not use a variable twice')
  return matcherOf(canonical, variables)
}

/** One variable of an expression, and the literal before its value. */
interface Variable {
  readonly name: string
  readonly before: string
  readonly isList: boolean
  readonly kind: VariableKind
}

function variablesOf(expression: string): Variable[] {
  const [, operator = '', list = ''] = /^\{([+./?&]?)(.*)\}$/.exec(expression) ?? []
  const isQuery = operator === '?' || operator === '&'
  return list.split(',').map((written, index) => {
    const isList = written.endsWith('*')
    const name = isList ? written.slice(0, -1) : written
    if (isQuery) return { name, isList, kind: 'query', before: `${index === 0 ? operator : '&'}${name}=` }
    if (operator === '+') return { name, isList, kind: 'any', before: '' }
    return { name, isList, kind: isList && operator !== '.' ? 'list' : 'simple', before: operator }
  })
}

type Found = Record<string, string | string[]>

function matcherOf(canonical: CanonicalTemplate, variables: readonly Variable[]): UriMatcher {
  const start = canonical.literals[0] as string
  const byOrder = orderMatcher(canonical.literals, canonical.expressions)
  const byQuery = queryMatcher(canonical, variables)
  const find = byQuery ?? byOrder
  return {
    variableNames: variables.map(({ name }) => name),
    canonical: canonical.text,
    match(uri) {
      if (!uri.startsWith(start) || uri.length > MAX_URI_LENGTH) return undefined
      const found = find(uri)
      return found === undefined ? undefined : decoded(found)
    },
    covers(uri) {
      if (!uri.startsWith(start)) return false
      if (uri.length > MAX_URI_LENGTH) return true
      return byOrder(uri) !== undefined || byQuery?.(uri) !== undefined
    },
  }
}

/** Finds the variables of a template by their order, as the official SDK does. */
function orderMatcher(
  literals: readonly string[],
  expressions: readonly string[],
): (uri: string) => Found | undefined {
  const tokens: TemplateToken[] = []
  const variables: Variable[] = []
  let text = ''
  for (const [index, literal] of literals.entries()) {
    text += literal
    const expression = expressions[index]
    for (const variable of expression === undefined ? [] : variablesOf(expression)) {
      if (text + variable.before !== '') tokens.push(text + variable.before)
      tokens.push({ kind: variable.kind })
      variables.push(variable)
      text = ''
    }
  }
  if (text !== '') tokens.push(text)
  return (uri) => {
    const values = matchTokens(tokens, uri, 'first')
    if (values === undefined) return undefined
    return Object.fromEntries(
      variables.map(({ name, isList }, index) => {
        const value = values[index] as string
        return [name, isList ? value.split(',') : value]
      }),
    )
  }
}

/**
 * Finds the variables of a template that ends with a query, in any order; variables may be absent. The SDK requires all of them
 * in the order of the template. Returns `undefined` for other templates.
 */
function queryMatcher(
  { literals, expressions }: CanonicalTemplate,
  variables: readonly Variable[],
): ((uri: string) => Found | undefined) | undefined {
  const queryFrom = expressions.findIndex((expression) => expression.startsWith('{?'))
  // Without a query, every literal must be empty, and the first one is not, because it contains the scheme.
  const endsWithQuery =
    expressions.slice(queryFrom).every((expression) => /^\{[?&]/.test(expression)) &&
    literals.slice(queryFrom + 1).every((literal) => literal === '') &&
    !literals.slice(0, queryFrom + 1).some((literal) => literal.includes('?'))
  if (!endsWithQuery) return undefined
  const lists = new Map(
    variables.filter(({ kind }) => kind === 'query').map(({ name, isList }) => [name, isList]),
  )
  const findPath = orderMatcher(literals.slice(0, queryFrom + 1), expressions.slice(0, queryFrom))
  return (uri) => {
    const queryAt = uri.indexOf('?')
    const found = findPath(queryAt === -1 ? uri : uri.slice(0, queryAt))
    if (found === undefined) return undefined
    const query = queryAt === -1 ? '' : uri.slice(queryAt + 1)
    for (const pair of query === '' ? [] : query.split('&')) {
      const equalsAt = pair.indexOf('=')
      const name = pair.slice(0, Math.max(0, equalsAt))
      const isList = lists.get(name)
      // Without `=`, the name is empty, which no variable is.
      if (isList === undefined) return undefined
      const value = pair.slice(equalsAt + 1)
      const earlier = Object.hasOwn(found, name) ? found[name] : undefined
      if (!isList && earlier !== undefined) return undefined
      if (Array.isArray(earlier)) earlier.push(value)
      else found[name] = isList ? [value] : value
    }
    return found
  }
}

function decoded(found: Found): Found | undefined {
  return tryOrUndefined(() =>
    Object.fromEntries(
      Object.entries(found).map(([name, value]) => [
        name,
        Array.isArray(value) ? value.map(decodeURIComponent) : decodeURIComponent(value),
      ]),
    ),
  )
}
