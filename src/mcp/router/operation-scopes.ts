import { unionOfScopes } from '../../oauth/scope.ts'
import { isOptionsObject, type OptionChecks, optionChecksOf } from '../../options/option-checks.ts'
import type { OptionRule, RulesFor } from '../../options/option-rules.ts'
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

/** Checks the option `scopes` of one caller. */
class OperationScopeChecks {
  readonly #checks: OptionChecks

  constructor(checks: OptionChecks) {
    this.#checks = checks
  }

  read(given: unknown, mayBePublic: boolean): ScopedOperations {
    const { invalidKind, readMembers } = this.#checks
    if (!isOptionsObject(given))
      throw invalidKind('scopes', `must be an object such as { tools: { wipe: ['mcp:admin'] } }`, given)
    const rules = {
      tools: this.#scopesBy('name'),
      prompts: this.#scopesBy('name'),
      resources: this.#scopesBy('URI'),
    } satisfies RulesFor<RequiredOperationScopes>
    const {
      tools,
      prompts,
      resources,
      public: open,
    } = mayBePublic
      ? readMembers('scopes', given, { ...rules, public: this.#public() } satisfies RulesFor<OperationScopes>)
      : { ...readMembers('scopes', given, rules), public: NO_PUBLIC }
    this.#addPublic('tools', tools, open.tools)
    this.#addPublic('prompts', prompts, open.prompts)
    const byUri = this.#uris(resources, open.resources)
    const all = [...tools.values(), ...prompts.values(), ...byUri.resources.values(), ...byUri.templates]
    return { tools, prompts, ...byUri, scopes: unionOfScopes(...all.map(({ scopes }) => scopes)) }
  }

  /** The rule of scopes by name or URI. */
  #scopesBy(what: 'name' | 'URI'): OptionRule<Map<string, Scoped>> {
    const { checkRequiredScopes, invalidKind } = this.#checks
    return (option, given = {}) => {
      if (!isOptionsObject(given))
        throw invalidKind(option, `must be an object of scope lists by ${what}`, given)
      return new Map(
        Object.entries(given).map(([name, scopes]) => [
          name,
          { scopes: checkRequiredScopes(`${option}['${name}']`, scopes) },
        ]),
      )
    }
  }

  #public(): OptionRule<{ readonly [Kind in keyof PublicOperations]-?: readonly string[] }> {
    const { invalidKind, readMembers } = this.#checks
    return (option, given = {}) => {
      if (!isOptionsObject(given))
        throw invalidKind(option, `must be an object such as { tools: ['search'] }`, given)
      return readMembers(option, given, {
        tools: this.#listOf('names'),
        prompts: this.#listOf('names'),
        resources: this.#listOf('URIs and URI templates'),
      } satisfies RulesFor<PublicOperations>)
    }
  }

  /** The rule of the names, or of the URIs, of public operations. */
  #listOf(what: string): OptionRule<readonly string[]> {
    const { invalidKind } = this.#checks
    return (option, given = []) => {
      if (Array.isArray(given) && given.every((name) => typeof name === 'string' && name !== ''))
        return [...new Set<string>(given)]
      throw invalidKind(option, `must be an array of ${what}`, given)
    }
  }

  /** @param open the public URIs and URI templates */
  #uris(byUri: ReadonlyMap<string, Scoped>, open: readonly string[]): ScopedResources {
    const { invalidOption } = this.#checks
    const resources = new Map<string, Scoped>()
    const templates: ScopedTemplate[] = []
    const add = (option: string, uri: string, scoped: Scoped): void => {
      const matcher = uri.includes('{') ? checkUriTemplate(option, uri, this.#checks) : undefined
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

  #addPublic(kind: 'tools' | 'prompts', byName: Map<string, Scoped>, open: readonly string[]): void {
    for (const name of open) {
      if (byName.has(name))
        throw this.#checks.unusableOption(
          `scopes.public.${kind}`,
          `must not contain '${name}', which is an entry of scopes.${kind}`,
          'Remove one of them.',
        )
      byName.set(name, { scopes: [], isPublic: true })
    }
  }
}

const NO_PUBLIC = { tools: [], prompts: [], resources: [] } as const

/** Checks the option `scopes` of an adapter. @throws {KitMcpConfigError} if it is invalid. */
export function checkOperationScopes(given: unknown): ScopedOperations {
  return new OperationScopeChecks(optionChecksOf('createMcpAdapter')).read(given, true)
}

/** Checks the option `scopes` of `mcpAuth`. @throws {KitMcpConfigError} if it is invalid. */
export function checkRequiredOperationScopes(given: unknown): ScopedOperations {
  return new OperationScopeChecks(optionChecksOf('mcpAuth')).read(given, false)
}
