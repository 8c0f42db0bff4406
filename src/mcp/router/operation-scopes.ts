import { isOptionsObject, optionChecksOf } from '../../oauth/option-checks.ts'
import { unionOfScopes } from '../../oauth/scope.ts'
import { findResource } from './router-table.ts'
import { checkUriTemplate, type UriMatcher } from './uri-template.ts'

const checks = optionChecksOf('createMcpAdapter')
const { checkKnownMembers, checkRequiredScopes, invalidKind } = checks

interface Scoped {
  readonly scopes: readonly string[]
}

interface ScopedTemplate extends Scoped {
  readonly definition: { readonly uriTemplate: string }
  readonly matcher: Pick<UriMatcher, 'match'>
}

/** The operations that need scopes beside the endpoint's; a router's table is one. */
export interface ScopedOperations {
  /** Every scope that any operation names. */
  readonly scopes: readonly string[]
  readonly tools: ReadonlyMap<string, Scoped>
  readonly prompts: ReadonlyMap<string, Scoped>
  /** By URI. */
  readonly resources: ReadonlyMap<string, Scoped>
  readonly templates: readonly ScopedTemplate[]
  /** What the server may take a URI for, where that is not the URI as it is written. */
  readonly spellingsOf?: (uri: string) => readonly string[]
}

/** Scopes by operation, for a router that is a function of the application. */
export interface OperationScopes {
  /** By name. */
  readonly tools?: Readonly<Record<string, readonly string[]>> | undefined
  /** By name. */
  readonly prompts?: Readonly<Record<string, readonly string[]>> | undefined
  /** By URI, or by URI template. */
  readonly resources?: Readonly<Record<string, readonly string[]>> | undefined
}

interface Message {
  readonly method?: unknown
  readonly params?: {
    readonly name?: unknown
    readonly uri?: unknown
    readonly ref?: { readonly type?: unknown; readonly name?: unknown; readonly uri?: unknown } | null
    readonly notifications?: { readonly resourceSubscriptions?: unknown } | null
  } | null
}

/** Scopes that the operations of these messages need, all together. */
export function neededScopes(operations: ScopedOperations, messages: readonly unknown[]): readonly string[] {
  if (operations.scopes.length === 0) return []
  return unionOfScopes(...messages.flatMap((message) => scopesOf(operations, (message ?? {}) as Message)))
}

function scopesOf(operations: ScopedOperations, { method, params }: Message): (readonly string[])[] {
  switch (method) {
    case 'tools/call':
      return [scopesNamed(operations.tools, params?.name)]
    case 'prompts/get':
      return [scopesNamed(operations.prompts, params?.name)]
    case 'resources/read':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return [scopesOfResource(operations, params?.uri)]
    case 'subscriptions/listen': {
      const uris = params?.notifications?.resourceSubscriptions
      return Array.isArray(uris) ? uris.map((uri) => scopesOfResource(operations, uri)) : []
    }
    case 'completion/complete':
      return [scopesOfReference(operations, params?.ref ?? {})]
    default:
      return []
  }
}

/** What is no text names nothing: the SDK refuses it, and JSON can hold objects that no text can be made of. */
function scopesNamed(known: ReadonlyMap<string, Scoped>, name: unknown): readonly string[] {
  return (typeof name === 'string' ? known.get(name)?.scopes : undefined) ?? []
}

function scopesOfResource(operations: ScopedOperations, uri: unknown): readonly string[] {
  if (typeof uri !== 'string') return []
  const { spellingsOf } = operations
  if (spellingsOf === undefined) return findResource(operations, uri)?.entry.scopes ?? []
  return unionOfScopes(
    ...spellingsOf(uri).map((spelling) => findResource(operations, spelling)?.entry.scopes ?? []),
  )
}

/** As it is written, and as the URL parser writes it, which is what `McpServer` of the official SDK looks for. */
function spellingsOf(uri: string): readonly string[] {
  return URL.canParse(uri) ? [uri, new URL(uri).href] : [uri]
}

function scopesOfReference(
  { prompts, resources, templates }: ScopedOperations,
  { type, name, uri }: { readonly type?: unknown; readonly name?: unknown; readonly uri?: unknown },
): readonly string[] {
  if (type === 'ref/prompt') return scopesNamed(prompts, name)
  const template = templates.find(({ definition }) => definition.uriTemplate === uri)
  return template?.scopes ?? scopesNamed(resources, uri)
}

/** Checks the option `scopes`. @throws {KitMcpConfigError} naming what is wrong. */
export function checkOperationScopes(given: unknown): ScopedOperations {
  if (!isOptionsObject(given))
    throw invalidKind('scopes', `must be an object such as { tools: { wipe: ['mcp:admin'] } }`, given)
  checkKnownMembers('scopes', given, ['tools', 'prompts', 'resources'])
  const { tools, prompts, resources } = given as Readonly<Record<keyof OperationScopes, unknown>>
  const byUri = [...checkScopesBy('resources', resources)]
  const operations = {
    tools: checkScopesBy('tools', tools),
    prompts: checkScopesBy('prompts', prompts),
    resources: new Map(byUri.filter(([uri]) => !uri.includes('{'))),
    templates: byUri
      .filter(([uri]) => uri.includes('{'))
      .map(([uriTemplate, { scopes }]) => ({
        scopes,
        definition: { uriTemplate },
        matcher: looseMatcher(`scopes.resources['${uriTemplate}']`, uriTemplate),
      })),
    spellingsOf,
  }
  const all = [
    ...operations.tools.values(),
    ...operations.prompts.values(),
    ...byUri.map(([, scoped]) => scoped),
  ]
  return { ...operations, scopes: unionOfScopes(...all.map(({ scopes }) => scopes)) }
}

/** Finds what the server of an application may find, not only what a router here would. */
function looseMatcher(owner: string, uriTemplate: string): Pick<UriMatcher, 'match'> {
  const { mayMatch } = checkUriTemplate(owner, uriTemplate, checks)
  return { match: (uri) => (mayMatch(uri) ? {} : undefined) }
}

function checkScopesBy(kind: keyof OperationScopes, given: unknown): Map<string, Scoped> {
  if (given === undefined) return new Map()
  if (!isOptionsObject(given))
    throw invalidKind(`scopes.${kind}`, 'must be an object with a list of scopes for each', given)
  return new Map(
    Object.entries(given).map(([name, scopes]) => [
      name,
      { scopes: checkRequiredScopes(`scopes.${kind}['${name}']`, scopes) },
    ]),
  )
}
