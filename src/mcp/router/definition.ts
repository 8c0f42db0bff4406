import type { Icon } from '@modelcontextprotocol/server'
import { isOptionsObject, type OptionChecks, optionChecksOf } from '../../base/options/option-checks.ts'
import {
  also,
  type OptionRules,
  optional,
  type ReadBy,
  type RulesFor,
} from '../../base/options/option-rules.ts'

const checks = optionChecksOf('KitMcpRouter')
const { checkBoolean, checkRequiredScopes, checkString, fittingKind, invalidKind, invalidOption } = checks
const { items, unusableOption } = checks

/** The options that tools, prompts, resources, and resource templates share. */
export interface DefinitionConfig {
  /** The name for people. */
  readonly title?: string | undefined
  /** Icons that clients may show next to the title. */
  readonly icons?: readonly Icon[] | undefined
  /**
   * The scopes that this operation needs in addition to those of the endpoint. A request without them gets a 403 whose
   * challenge lists every scope needed (step-up).
   */
  readonly scopes?: readonly string[] | undefined
  /**
   * Opens this operation to requests without a token if the OAuth option `anonymous` is `true`; otherwise it has no effect.
   * Must not be set together with `scopes`. Defaults to `false`.
   */
  readonly public?: boolean | undefined
  /** Metadata for clients, under prefixed keys. */
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
}

/** The kind of a definition: the name of the builder's method. */
export type DefinitionKind = 'tool' | 'prompt' | 'resource' | 'resourceTemplate' | 'app' | 'event'

const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/
/** MCP does not restrict the names of prompts and resources. `Project files` is one of its own examples. */
const NAME = /^(?=\S)[^\p{Cc}]{1,128}(?<=\S)$/u

const checkIcons = items(
  `must be an array such as [{ src: 'https://…' }]`,
  fittingKind<Icon>((icon) => typeof icon?.src === 'string', 'must contain objects with a string src'),
)

/** The rules of the options that definitions share. */
export const DEFINITION_RULES = {
  title: optional(checkString),
  icons: optional((option, icons, given) => frozenCopy(option, checkIcons(option, icons, given))),
  scopes: optional<readonly string[], readonly string[]>(checkRequiredScopes, Object.freeze([])),
  public: optional(
    also(checkBoolean, (option, isPublic, { scopes }) => {
      if (isPublic && Array.isArray(scopes) && scopes.length > 0)
        throw unusableOption(
          option,
          'must not be true for an operation with scopes',
          'Remove public, or remove scopes.',
        )
    }),
    false,
  ),
  _meta: optional(objectCopy),
} satisfies RulesFor<DefinitionConfig>

/**
 * Reads the options of a definition. Errors name them as in `scopes of tool 'search'`.
 * @throws {KitMcpConfigError} if the name or an option is invalid or unknown.
 */
export function readDefinition<Rules extends OptionRules>(
  kind: DefinitionKind,
  name: unknown,
  config: unknown,
  rules: Rules,
  least: string,
): ReadBy<Rules> {
  checkName(kind, name)
  return readConfig(`${kind} '${name}'`, `needs an object with at least { ${least} }`, config, rules)
}

/**
 * Reads the options of `owner`, such as `tool 'search'`.
 * @throws {KitMcpConfigError} if `config` is not as `expected`, or if an option is invalid or unknown.
 */
export function readConfig<Rules extends OptionRules>(
  owner: string,
  expected: string,
  config: unknown,
  rules: Rules,
  of: OptionChecks = checks,
): ReadBy<Rules> {
  if (!isOptionsObject(config)) throw of.invalidKind(owner, expected, config)
  of.checkKnownOptions(owner, config, Object.keys(rules))
  const given = config as Readonly<Record<string, unknown>>
  const read = Object.entries(rules).map(([option, rule]) => [
    option,
    rule(`${option} of ${owner}`, given[option], given),
  ])
  return Object.fromEntries(read)
}

/** @throws {KitMcpConfigError} if MCP does not allow the name. */
export function checkName(option: string, name: unknown): asserts name is string {
  const isTool = option === 'tool' || option === 'merge' || option === 'app' || option === 'event'
  if (typeof name === 'string' && (isTool ? TOOL_NAME : NAME).test(name)) return
  throw invalidOption(
    option,
    isTool
      ? `needs a name of 1 to 128 characters out of A-Z, a-z, 0-9, '_', '.' and '-'`
      : 'needs a name of 1 to 128 characters, without control characters or spaces around it',
    name,
  )
}

/** Returns a frozen object without the members that are undefined. */
export function defined<Members extends object>(members: Members): Members {
  return Object.freeze(
    Object.fromEntries(Object.entries(members).filter(([, member]) => member !== undefined)),
  ) as Members
}

/** Returns a frozen copy of an object. @throws {KitMcpConfigError} if it is not an object of JSON values. */
export function objectCopy<T = Readonly<Record<string, unknown>>>(
  option: string,
  value: unknown,
): Readonly<T> {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object', value)
  return frozenCopy(option, value as T)
}

/** Returns a frozen copy. @throws {KitMcpConfigError} if `value` cannot be sent as JSON. */
function frozenCopy<T>(option: string, value: T): Readonly<T> {
  try {
    return Object.freeze(structuredClone(value))
  } catch {
    throw invalidKind(option, 'must contain only JSON values', value)
  }
}
