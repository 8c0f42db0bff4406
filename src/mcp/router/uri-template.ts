import { UriTemplate } from '@modelcontextprotocol/server'
import { type OptionChecks, optionChecksOf } from '../../oauth/option-checks.ts'

type Names<List extends string> = List extends `${infer One},${infer Rest}` ? One | Names<Rest> : List
type Expression<Text extends string> = Text extends `${'+' | '.' | '/' | '?' | '&'}${infer List}`
  ? Names<List>
  : Names<Text>
type NamesOf<Template extends string> = Template extends `${string}{${infer Text}}${infer Rest}`
  ? Expression<Text> | NamesOf<Rest>
  : never

/** The variables of a URI template, by name: text, or a list where the variable has a `*`. */
export type TemplateVariables<Template extends string> = string extends Template
  ? Readonly<Record<string, string | string[]>>
  : {
      readonly [Name in NamesOf<Template> as Name extends `${infer Plain}*`
        ? Plain
        : Name]: Name extends `${string}*` ? string[] : string
    }

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
  return {
    variableNames,
    match(uri) {
      if (!uri.startsWith(start) || uri.length > MAX_URI) return undefined
      const found = parsed.match(uri)
      return found === null ? undefined : decoded(found, lists)
    },
    mayMatch: (uri) => uri.startsWith(start) && (uri.length > MAX_URI || parsed.match(uri) !== null),
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
