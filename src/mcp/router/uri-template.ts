import { UriTemplate } from '@modelcontextprotocol/server'
import { type OptionChecks, optionChecksOf } from '../../oauth/option-checks.ts'

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
 * The variables of a URI template, by name: text, or a list where the variable has a `*`. Those of a query may be absent
 * (RFC 6570 §3.2.8: what is not defined is left out).
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

/** Finds the variables of a URI by a template. */
export interface UriMatcher {
  readonly variableNames: readonly string[]
  /** The percent-decoded variables; undefined when `uri` is not of the template. */
  match(uri: string): Readonly<Record<string, string | string[]>> | undefined
  /** Whether a server of the official SDK might find `uri` to be of the template, however long or encoded it is. */
  mayMatch(uri: string): boolean
}

const VARIABLE = '[A-Za-z0-9_]+(?:\\.[A-Za-z0-9_]+)*\\*?'
const TEMPLATE = new RegExp(`^(?:[^{}]|\\{(?:[+./]?${VARIABLE}|[?&]${VARIABLE}(?:,${VARIABLE})*)\\})*$`)
/** Longer URIs are not looked at: matching shall not become work. */
const MAX_URI = 8192

/**
 * A URI template (RFC 6570) that can be matched.
 * @throws {KitMcpConfigError} for one that is malformed, or that no URI could be taken apart by.
 */
export function checkUriTemplate(
  owner: string,
  template: unknown,
  { invalidOption }: OptionChecks = optionChecksOf('KitMcpRouter'),
): UriMatcher {
  if (typeof template !== 'string' || !/^[A-Za-z][A-Za-z0-9+.-]*:/.test(template)) {
    throw invalidOption(
      'uriTemplate',
      `of ${owner} must be a URI template such as 'notes://{owner}/{id}'`,
      template,
    )
  }
  if (!TEMPLATE.test(template)) {
    throw invalidOption(
      'uriTemplate',
      `of ${owner} is no RFC 6570 template that can be matched`,
      template,
      `one variable in braces, several after '?' and '&' only, no '#', ':' or ';'`,
    )
  }
  const parsed = new UriTemplate(template)
  const { variableNames } = parsed
  if (variableNames.length === 0) {
    throw invalidOption(
      'uriTemplate',
      `of ${owner} has no variable`,
      template,
      'use .resource() for one fixed URI',
    )
  }
  if (new Set(variableNames).size < variableNames.length) {
    throw invalidOption('uriTemplate', `of ${owner} has a variable twice`, template)
  }
  const start = template.slice(0, template.indexOf('{'))
  const lists = new Set(variableNames.filter((name) => new RegExp(`[{,+./?&]${name}\\*`).test(template)))
  const find = queryMatcher(template, lists) ?? ((uri: string) => parsed.match(uri) ?? undefined)
  return {
    variableNames,
    match(uri) {
      if (!uri.startsWith(start) || uri.length > MAX_URI) return undefined
      const found = find(uri)
      return found === undefined ? undefined : decoded(found, lists)
    },
    mayMatch: (uri) => uri.startsWith(start) && (uri.length > MAX_URI || parsed.match(uri) !== null),
  }
}

type Found = Record<string, string | string[]>

/**
 * Finds the variables of a template that ends with a query, in any order, and without those that were not defined: the SDK
 * knows a URI by all of them in their order alone. Undefined for other templates.
 */
function queryMatcher(
  template: string,
  lists: ReadonlySet<string>,
): ((uri: string) => Found | undefined) | undefined {
  const [, path = '', query] = /^([^?]*)((?:\{[?&][^}]*\})+)$/.exec(template) ?? []
  if (!query?.startsWith('{?')) return undefined
  const names = new Set(query.match(/[A-Za-z0-9_.]+/g))
  const parsed = new UriTemplate(path)
  return (uri) => {
    const [, before = '', after] = /^([^?]*)(?:\?(.*))?$/s.exec(uri) ?? []
    const found: Found | null = path.includes('{') ? parsed.match(before) : before === path ? {} : null
    if (found === null) return undefined
    for (const pair of after ? after.split('&') : []) {
      const [, name = '', value] = /^([^=]*)=(.*)$/s.exec(pair) ?? []
      if (value === undefined || !names.has(name)) return undefined
      const earlier = Object.hasOwn(found, name) ? found[name] : undefined
      if (earlier !== undefined && !lists.has(name)) return undefined
      found[name] = earlier === undefined ? value : [earlier, value].flat()
    }
    return found
  }
}

function decoded(
  found: Readonly<Record<string, string | string[]>>,
  lists: ReadonlySet<string>,
): Record<string, string | string[]> | undefined {
  try {
    return Object.fromEntries(
      Object.entries(found).map(([name, value]) => {
        const values = [value].flat().map(decodeURIComponent)
        return [name, lists.has(name) ? values : (values[0] as string)]
      }),
    )
  } catch {
    return undefined
  }
}
