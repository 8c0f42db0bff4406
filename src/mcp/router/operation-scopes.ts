import { unionOfScopes } from '../../oauth/scope.ts'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import type { ScopedOperations } from './named-operations.ts'
import { canonicalUri } from './uris/canonical-uri.ts'
import type { Scoped, ScopedResources, ScopedTemplate } from './uris/uri-scopes.ts'
import { checkUriTemplate } from './uris/uri-template.ts'

const checks = optionChecksOf('createMcpAdapter')
const { checkKnownMembers, checkRequiredScopes, invalidKind, invalidOption, unusableOption } = checks

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
