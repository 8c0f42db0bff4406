import { McpServer, type Server } from '@modelcontextprotocol/server'
import { matchTokens, type TemplateToken } from '../router/uris/template-match.ts'

/** The members of the SDK's `UriTemplate` that are used here. */
interface SdkTemplate {
  readonly parts?: readonly (string | SdkExpression)[]
  match(uri: string): Record<string, string | string[]> | null
}

interface SdkExpression {
  readonly name: string
  readonly names: readonly string[]
  readonly operator: string
  readonly exploded: boolean
}

/** The private member in which the SDK's server keeps its templates. */
interface RegisteredTemplates {
  readonly _registeredResourceTemplates?: Readonly<
    Record<string, { readonly resourceTemplate: { readonly uriTemplate: SdkTemplate } }>
  >
}

/**
 * Makes the resource templates of an application's server match in linear time. The regular expressions of the SDK take polynomial
 * time for several variables.
 */
export function guardTemplates(server: Server | McpServer): void {
  if (!(server instanceof McpServer)) return
  const { _registeredResourceTemplates: registered = {} } = server as unknown as RegisteredTemplates
  for (const { resourceTemplate } of Object.values(registered)) {
    const { uriTemplate } = resourceTemplate
    if (!Object.hasOwn(uriTemplate, 'match')) uriTemplate.match = linearMatch(uriTemplate)
  }
}

/** Returns a function that returns the same as `template.match` for a URI, in linear time. */
export function linearMatch(template: SdkTemplate): SdkTemplate['match'] {
  const { parts } = template
  if (!Array.isArray(parts)) return template.match
  const tokens: TemplateToken[] = []
  const variables: { readonly name: string; readonly exploded: boolean }[] = []
  for (const part of parts as NonNullable<SdkTemplate['parts']>) {
    if (typeof part === 'string') tokens.push(part)
    else addExpression(part, tokens, variables)
  }
  return (uri) => {
    const values = matchTokens(tokens, uri, 'last')
    if (values === undefined) return null
    const found: Record<string, string | string[]> = {}
    for (const [index, { name, exploded }] of variables.entries()) {
      const value = values[index] as string
      found[name] = exploded && value.includes(',') ? value.split(',') : value
    }
    return found
  }
}

function addExpression(
  { name, names, operator, exploded }: SdkExpression,
  tokens: TemplateToken[],
  variables: { readonly name: string; readonly exploded: boolean }[],
): void {
  if (operator === '?' || operator === '&') {
    for (const [index, each] of names.entries()) {
      tokens.push(`${index === 0 ? operator : '&'}${each}=`, { kind: 'query' })
      variables.push({ name: each, exploded })
    }
    return
  }
  if (operator === '.' || operator === '/') tokens.push(operator)
  const isAny = operator === '+' || operator === '#'
  const isList = exploded && operator !== '.'
  tokens.push({ kind: isAny ? 'any' : isList ? 'list' : 'simple' })
  variables.push({ name, exploded })
}
