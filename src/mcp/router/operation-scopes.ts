import { isOptionsObject, type OptionChecks } from '../../base/options/option-checks.ts'
import { type OptionRule, optional, orEmpty, type RulesFor } from '../../base/options/option-rules.ts'
import { unionOfScopes } from '../../oauth/scope.ts'
import type { ScopedOperations } from './named-operations.ts'
import { canonicalUri } from './uris/canonical-uri.ts'
import type { Scoped, ScopedResources, ScopedTemplate } from './uris/uri-scopes.ts'
import { checkUriTemplate } from './uris/uri-template.ts'

/** Scopes by operation. */
export interface RequiredOperationScopes {
  /** The scopes of tools, by name. */
  readonly tools?: Readonly<Record<string, readonly string[]>> | undefined
  /** The scopes of prompts, by name. */
  readonly prompts?: Readonly<Record<string, readonly string[]>> | undefined
  /** The scopes of resources, by URI or by URI template. */
  readonly resources?: Readonly<Record<string, readonly string[]>> | undefined
}

/** Scopes by operation, for a router that is a function. */
export interface OperationScopes extends RequiredOperationScopes {
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

/** Checks the option `scopes` of one caller. @throws {KitMcpConfigError} if it is invalid. */
export function checkOperationScopes(
  checks: OptionChecks,
  given: unknown,
  mayBePublic: boolean,
): ScopedOperations {
  const { checkRequiredScopes, invalidKind, items, members, text, unusableOption } = checks
  const scopesBy =
    (what: 'name' | 'URI'): OptionRule<Map<string, Scoped>> =>
    (option, byName = {}) => {
      if (!isOptionsObject(byName))
        throw invalidKind(option, `must be an object of scope lists by ${what}`, byName)
      const read = Object.entries(byName).map(
        ([name, scopes]) => [name, { scopes: checkRequiredScopes(`${option}['${name}']`, scopes) }] as const,
      )
      return new Map(read)
    }
  const listOf = (what: string) => optional(items(`must be an array of ${what}`, text), [])
  const open = {
    tools: listOf('names'),
    prompts: listOf('names'),
    resources: listOf('URIs and URI templates'),
  } satisfies RulesFor<PublicOperations>
  const rules = {
    tools: scopesBy('name'),
    prompts: scopesBy('name'),
    resources: scopesBy('URI'),
    public: orEmpty(members(`must be an object such as { tools: ['search'] }`, open)),
  } satisfies RulesFor<OperationScopes>
  const { public: _public, ...required } = rules
  const expected = `must be an object such as { tools: { wipe: ['mcp:admin'] } }`
  const {
    tools,
    prompts,
    resources: byUri,
    public: { tools: openTools, prompts: openPrompts, resources: openUris } = NO_PUBLIC,
  } = members(expected, mayBePublic ? rules : (required as typeof rules))('scopes', given, {})
  for (const [kind, byName, names] of [
    ['tools', tools, openTools],
    ['prompts', prompts, openPrompts],
  ] as const)
    for (const name of new Set(names)) {
      if (byName.has(name))
        throw unusableOption(
          `scopes.public.${kind}`,
          `must not contain '${name}', which is an entry of scopes.${kind}`,
          'Remove one of them.',
        )
      byName.set(name, { scopes: [], isPublic: true })
    }
  const { resources, templates } = readUris(checks, byUri, openUris)
  const all = [...tools.values(), ...prompts.values(), ...resources.values(), ...templates]
  return { tools, prompts, resources, templates, scopes: unionOfScopes(...all.map(({ scopes }) => scopes)) }
}

/** @param open the public URIs and URI templates */
function readUris(
  checks: OptionChecks,
  byUri: ReadonlyMap<string, Scoped>,
  open: readonly string[],
): ScopedResources {
  const resources = new Map<string, Scoped>()
  const templates: ScopedTemplate[] = []
  const add = (option: string, uri: string, scoped: Scoped): void => {
    const matcher = uri.includes('{') ? checkUriTemplate(option, uri, checks) : undefined
    const canonical = matcher?.canonical ?? canonicalUri(uri)
    if (canonical === undefined)
      throw checks.invalidOption(option, `must name an absolute URI such as 'notes://today'`, uri)
    if (resources.has(canonical) || templates.some((template) => template.matcher.canonical === canonical))
      throw checks.invalidOption(
        option,
        `names the same URI as another entry: '${canonical}'. Remove one of them`,
      )
    if (matcher === undefined) resources.set(canonical, scoped)
    else templates.push({ ...scoped, matcher })
  }
  for (const [uri, scoped] of byUri) add(`scopes.resources['${uri}']`, uri, scoped)
  for (const uri of new Set(open)) add('scopes.public.resources', uri, { scopes: [], isPublic: true })
  return { resources, templates }
}

const NO_PUBLIC = { tools: [], prompts: [], resources: [] } as const
