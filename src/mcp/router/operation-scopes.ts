import { unionOfScopes } from '../../oauth/scope.ts'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { canonicalTemplate } from './uris/canonical-template.ts'
import { canonicalUri, MAX_URI_LENGTH } from './uris/canonical-uri.ts'
import { MAX_LISTENED_URIS } from './uris/message-uris.ts'
import { type Scoped, type ScopedResources, type ScopedTemplate, scopesOfUri } from './uris/uri-scopes.ts'
import { checkUriTemplate } from './uris/uri-template.ts'

const checks = optionChecksOf('createMcpAdapter')
const { checkKnownMembers, checkRequiredScopes, invalidKind, invalidOption } = checks

/** The operations that need scopes in addition to those of the endpoint. A router's table is one. */
export interface ScopedOperations extends ScopedResources {
  /** Every scope that any operation names. */
  readonly scopes: readonly string[]
  readonly tools: ReadonlyMap<string, Scoped>
  readonly prompts: ReadonlyMap<string, Scoped>
}

/** Scopes by operation, for a router that is a function. */
export interface OperationScopes {
  /** The scopes of tools, by name. */
  readonly tools?: Readonly<Record<string, readonly string[]>> | undefined
  /** The scopes of prompts, by name. */
  readonly prompts?: Readonly<Record<string, readonly string[]>> | undefined
  /** The scopes of resources, by URI or by URI template. */
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

/** Returns all scopes that the operations of these messages need. */
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
      if (!Array.isArray(uris) || uris.length > MAX_LISTENED_URIS) return []
      return uris.map((uri) => scopesOfResource(operations, uri))
    }
    case 'completion/complete':
      return [scopesOfReference(operations, params?.ref ?? {})]
    default:
      return []
  }
}

/** A name that is not a string has no scopes. The SDK rejects it. */
function scopesNamed(known: ReadonlyMap<string, Scoped>, name: unknown): readonly string[] {
  return (typeof name === 'string' ? known.get(name)?.scopes : undefined) ?? []
}

function scopesOfResource(operations: ScopedOperations, uri: unknown): readonly string[] {
  return typeof uri === 'string' ? scopesOfUri(operations, uri) : []
}

/** Returns the scopes of a reference, which names a prompt, a template, or a resource by its URI. */
function scopesOfReference(
  operations: ScopedOperations,
  { type, name, uri }: { readonly type?: unknown; readonly name?: unknown; readonly uri?: unknown },
): readonly string[] {
  if (type === 'ref/prompt') return scopesNamed(operations.prompts, name)
  if (typeof uri !== 'string') return []
  const template = uri.includes('{') && uri.length <= MAX_URI_LENGTH ? canonicalTemplate(uri) : undefined
  if (template === undefined || template.expressions.length === 0) return scopesOfUri(operations, uri)
  const named = operations.templates.filter(({ matcher }) => matcher.canonical === template.text)
  return unionOfScopes(...named.map(({ scopes }) => scopes))
}

/** Checks the option `scopes`. @throws {KitMcpConfigError} if it is invalid. */
export function checkOperationScopes(given: unknown): ScopedOperations {
  if (!isOptionsObject(given))
    throw invalidKind('scopes', `must be an object such as { tools: { wipe: ['mcp:admin'] } }`, given)
  checkKnownMembers('scopes', given, ['tools', 'prompts', 'resources'])
  const { tools, prompts, resources } = given as Readonly<Record<keyof OperationScopes, unknown>>
  const operations = {
    tools: checkScopesBy('tools', tools),
    prompts: checkScopesBy('prompts', prompts),
    ...checkScopesByUri(checkScopesBy('resources', resources)),
  }
  const all = [
    operations.tools.values(),
    operations.prompts.values(),
    operations.resources.values(),
    operations.templates,
  ].flatMap((entries) => [...entries])
  return { ...operations, scopes: unionOfScopes(...all.map(({ scopes }) => scopes)) }
}

function checkScopesByUri(byUri: ReadonlyMap<string, Scoped>): ScopedResources {
  const resources = new Map<string, Scoped>()
  const templates: ScopedTemplate[] = []
  for (const [uri, { scopes }] of byUri) {
    const option = `scopes.resources['${uri}']`
    const matcher = uri.includes('{') ? checkUriTemplate(option, uri, checks) : undefined
    const canonical = matcher?.canonical ?? canonicalUri(uri)
    if (canonical === undefined)
      throw invalidOption(option, `must name an absolute URI such as 'notes://today'`, uri)
    if (resources.has(canonical) || templates.some((template) => template.matcher.canonical === canonical))
      throw invalidOption(option, `names the same URI as another entry: '${canonical}'. Remove one of them`)
    if (matcher === undefined) resources.set(canonical, { scopes })
    else templates.push({ scopes, matcher })
  }
  return { resources, templates }
}

function checkScopesBy(kind: keyof OperationScopes, given: unknown): Map<string, Scoped> {
  if (given === undefined) return new Map()
  if (!isOptionsObject(given))
    throw invalidKind(
      `scopes.${kind}`,
      `must be an object of scope lists by ${kind === 'resources' ? 'URI' : 'name'}`,
      given,
    )
  return new Map(
    Object.entries(given).map(([name, scopes]) => [
      name,
      { scopes: checkRequiredScopes(`scopes.${kind}['${name}']`, scopes) },
    ]),
  )
}
