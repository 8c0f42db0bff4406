import { unionOfScopes } from '../../oauth/scope.ts'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import { isRecord } from '../../options/value-kinds.ts'
import { canonicalTemplate } from './uris/canonical-template.ts'
import { canonicalUri, MAX_URI_LENGTH } from './uris/canonical-uri.ts'
import { MAX_LISTENED_URIS } from './uris/message-uris.ts'
import {
  isOpen,
  isPublicUri,
  type Scoped,
  type ScopedResources,
  type ScopedTemplate,
  scopesOfUri,
} from './uris/uri-scopes.ts'
import { checkUriTemplate } from './uris/uri-template.ts'

const checks = optionChecksOf('createMcpAdapter')
const { checkKnownMembers, checkRequiredScopes, invalidKind, invalidOption, unusableOption } = checks

/** The operations that need scopes in addition to those of the endpoint. A router's table is one. */
export interface ScopedOperations extends ScopedResources {
  /** Every scope that any operation names. */
  readonly scopes: readonly string[]
  readonly tools: ReadonlyMap<string, Scoped>
  readonly prompts: ReadonlyMap<string, Scoped>
  /** The skills of a router by the canonical URI of `SKILL.md`. Those of a router function are resources. */
  readonly skills?: ReadonlyMap<string, Scoped>
  /** The directories of the skills of a router by canonical URI. */
  readonly directories?: ReadonlyMap<string, Scoped>
}

/** Scopes by operation, for a router that is a function. */
export interface OperationScopes {
  /** The scopes of tools, by name. */
  readonly tools?: Readonly<Record<string, readonly string[]>> | undefined
  /** The scopes of prompts, by name. */
  readonly prompts?: Readonly<Record<string, readonly string[]>> | undefined
  /** The scopes of resources, by URI or by URI template. */
  readonly resources?: Readonly<Record<string, readonly string[]>> | undefined
  /**
   * The operations that are open to requests without a token if the OAuth option `anonymous` is `true`. An operation with
   * scopes cannot be public.
   */
  readonly public?: PublicOperations | undefined
}

/** The public operations of a router that is a function. */
export interface PublicOperations {
  /** The names of tools. */
  readonly tools?: readonly string[] | undefined
  /** The names of prompts. */
  readonly prompts?: readonly string[] | undefined
  /** The URIs and URI templates of resources. */
  readonly resources?: readonly string[] | undefined
}

interface Reference {
  readonly type?: unknown
  readonly name?: unknown
  readonly uri?: unknown
}

interface Message {
  readonly method?: unknown
  readonly params?: {
    readonly name?: unknown
    readonly uri?: unknown
    readonly ref?: Reference | null
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
    case 'skills/get':
      return [scopesOfResource(withResources(operations, operations.skills), params?.uri)]
    case 'resources/directory/read':
      return scopesOfDirectory(operations, params?.uri)
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

/** The methods that `anonymous` opens for all requests without a token. */
const DISCOVERY: ReadonlySet<unknown> = new Set([
  'initialize',
  'notifications/initialized',
  'ping',
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
])

/**
 * Returns `true` if a request without a token may send these messages: each discovers the server or uses a public operation.
 * Everything else needs a token, including unknown methods and names, and values that are not messages.
 */
export function arePublic(
  operations: ScopedOperations | undefined,
  messages: readonly unknown[],
): messages is readonly [unknown, ...unknown[]] {
  return messages.length > 0 && messages.every((message) => isPublicMessage(operations, message))
}

function isPublicMessage(operations: ScopedOperations | undefined, message: unknown): boolean {
  if (!isRecord(message) || 'result' in message || 'error' in message) return false
  const { method, params } = message as Message
  if (DISCOVERY.has(method)) return true
  if (operations === undefined) return false
  switch (method) {
    case 'tools/call':
      return isPublicName(operations.tools, params?.name)
    case 'prompts/get':
      return isPublicName(operations.prompts, params?.name)
    case 'resources/read':
      return isPublicResource(operations, params?.uri)
    case 'skills/list':
      return operations.skills !== undefined
    case 'skills/get':
      return isPublicResource(withResources(operations, operations.skills), params?.uri)
    case 'resources/directory/read':
      return isPublicDirectory(operations, params?.uri)
    case 'completion/complete':
      return isPublicReference(operations, params?.ref ?? {})
    default:
      return false
  }
}

function isPublicName(known: ReadonlyMap<string, Scoped>, name: unknown): boolean {
  const entry = typeof name === 'string' ? known.get(name) : undefined
  return entry !== undefined && isOpen(entry)
}

function isPublicResource(operations: ScopedResources, uri: unknown): boolean {
  return typeof uri === 'string' && isPublicUri(operations, uri)
}

function isPublicReference(operations: ScopedOperations, { type, name, uri }: Reference): boolean {
  if (type === 'ref/prompt') return isPublicName(operations.prompts, name)
  if (type !== 'ref/resource' || typeof uri !== 'string') return false
  const named = templatesNamed(operations, uri)
  return named === undefined ? isPublicUri(operations, uri) : named.length > 0 && named.every(isOpen)
}

/** A name that is not a string has no scopes. The SDK rejects it. */
function scopesNamed(known: ReadonlyMap<string, Scoped>, name: unknown): readonly string[] {
  return (typeof name === 'string' ? known.get(name)?.scopes : undefined) ?? []
}

/** Returns the templates of `operations` with other resources, if there are any. */
function withResources(
  operations: ScopedOperations,
  resources: ReadonlyMap<string, Scoped> | undefined,
): ScopedResources {
  return resources === undefined ? operations : { resources, templates: operations.templates }
}

/** A router function does not say which directories it has, so one of them needs the scopes of a file in it, too. */
function scopesOfDirectory(operations: ScopedOperations, uri: unknown): (readonly string[])[] {
  if (typeof uri !== 'string') return []
  const { directories } = operations
  const own = scopesOfUri(withResources(operations, directories), uri)
  return directories === undefined ? [own, scopesOfUri(operations, fileIn(uri))] : [own]
}

function isPublicDirectory(operations: ScopedOperations, uri: unknown): boolean {
  if (typeof uri !== 'string') return false
  const { directories } = operations
  return directories === undefined
    ? isPublicUri(operations, fileIn(uri)) && scopesOfUri(operations, uri).length === 0
    : isPublicUri(withResources(operations, directories), uri)
}

function fileIn(directory: string): string {
  const [path] = directory.split(/[?#]/, 1)
  return `${path}/SKILL.md`
}

function scopesOfResource(operations: ScopedResources, uri: unknown): readonly string[] {
  return typeof uri === 'string' ? scopesOfUri(operations, uri) : []
}

/** Returns the scopes of a reference, which names a prompt, a template, or a resource by its URI. */
function scopesOfReference(operations: ScopedOperations, { type, name, uri }: Reference): readonly string[] {
  if (type === 'ref/prompt') return scopesNamed(operations.prompts, name)
  if (typeof uri !== 'string') return []
  const named = templatesNamed(operations, uri)
  return named === undefined
    ? scopesOfUri(operations, uri)
    : unionOfScopes(...named.map(({ scopes }) => scopes))
}

/** Returns the templates that a reference names, or undefined if it names a resource by its URI. */
function templatesNamed({ templates }: ScopedOperations, uri: string): readonly ScopedTemplate[] | undefined {
  const template = uri.includes('{') && uri.length <= MAX_URI_LENGTH ? canonicalTemplate(uri) : undefined
  if (template === undefined || template.expressions.length === 0) return undefined
  return templates.filter(({ matcher }) => matcher.canonical === template.text)
}

/** Checks the option `scopes`. @throws {KitMcpConfigError} if it is invalid. */
export function checkOperationScopes(given: unknown): ScopedOperations {
  if (!isOptionsObject(given))
    throw invalidKind('scopes', `must be an object such as { tools: { wipe: ['mcp:admin'] } }`, given)
  checkKnownMembers('scopes', given, ['tools', 'prompts', 'resources', 'public'])
  const {
    tools,
    prompts,
    resources,
    public: open,
  } = given as Readonly<Record<keyof OperationScopes, unknown>>
  const names = checkPublicOperations(open)
  const operations = {
    tools: withPublic('tools', checkScopesBy('tools', tools), names),
    prompts: withPublic('prompts', checkScopesBy('prompts', prompts), names),
    ...checkScopesByUri(checkScopesBy('resources', resources), names.resources),
  }
  const all = [
    operations.tools.values(),
    operations.prompts.values(),
    operations.resources.values(),
    operations.templates,
  ].flatMap((entries) => [...entries])
  return { ...operations, scopes: unionOfScopes(...all.map(({ scopes }) => scopes)) }
}

/** @param open the public URIs and URI templates */
function checkScopesByUri(byUri: ReadonlyMap<string, Scoped>, open: readonly string[]): ScopedResources {
  const resources = new Map<string, Scoped>()
  const templates: ScopedTemplate[] = []
  const add = (option: string, uri: string, scoped: Scoped): void => {
    const matcher = uri.includes('{') ? checkUriTemplate(option, uri, checks) : undefined
    const canonical = matcher?.canonical ?? canonicalUri(uri)
    if (canonical === undefined)
      throw invalidOption(option, `must name an absolute URI such as 'notes://today'`, uri)
    if (resources.has(canonical) || templates.some((template) => template.matcher.canonical === canonical))
      throw invalidOption(option, `names the same URI as another entry: '${canonical}'. Remove one of them`)
    if (matcher === undefined) resources.set(canonical, scoped)
    else templates.push({ ...scoped, matcher })
  }
  for (const [uri, scoped] of byUri) add(`scopes.resources['${uri}']`, uri, scoped)
  for (const uri of open) add('scopes.public.resources', uri, { scopes: [], isPublic: true })
  return { resources, templates }
}

type OperationKind = 'tools' | 'prompts' | 'resources'

/** Returns the names of the public operations. */
function checkPublicOperations(given: unknown): Readonly<Record<OperationKind, readonly string[]>> {
  if (given === undefined) return { tools: [], prompts: [], resources: [] }
  if (!isOptionsObject(given))
    throw invalidKind('scopes.public', `must be an object such as { tools: ['search'] }`, given)
  checkKnownMembers('scopes.public', given, ['tools', 'prompts', 'resources'])
  const { tools, prompts, resources } = given as Readonly<Record<OperationKind, unknown>>
  return {
    tools: checkNames('tools', tools),
    prompts: checkNames('prompts', prompts),
    resources: checkNames('resources', resources),
  }
}

function checkNames(kind: OperationKind, given: unknown): readonly string[] {
  if (given === undefined) return []
  if (Array.isArray(given) && given.every((name) => typeof name === 'string' && name !== ''))
    return [...new Set<string>(given)]
  throw invalidKind(
    `scopes.public.${kind}`,
    `must be an array of ${kind === 'resources' ? 'URIs and URI templates' : 'names'}`,
    given,
  )
}

/** Returns the operations of a kind, together with those that are public. */
function withPublic(
  kind: 'tools' | 'prompts',
  byName: Map<string, Scoped>,
  open: Readonly<Record<OperationKind, readonly string[]>>,
): ReadonlyMap<string, Scoped> {
  for (const name of open[kind]) {
    if (byName.has(name))
      throw unusableOption(
        `scopes.public.${kind}`,
        `must not contain '${name}', which is an entry of scopes.${kind}`,
        'Remove one of them.',
      )
    byName.set(name, { scopes: [], isPublic: true })
  }
  return byName
}

function checkScopesBy(kind: OperationKind, given: unknown): Map<string, Scoped> {
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
