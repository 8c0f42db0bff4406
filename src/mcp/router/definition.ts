import type { Icon } from '@modelcontextprotocol/server'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'

const {
  checkBoolean,
  checkKnownOptions,
  checkRequiredScopes,
  checkString,
  invalidKind,
  invalidOption,
  unusableOption,
} = optionChecksOf('KitMcpRouter')

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

/** The options of `DefinitionConfig`. */
export const DEFINITION_OPTIONS = ['title', 'icons', 'scopes', 'public', '_meta'] as const

/** The kind of a definition: the name of the builder's method. */
export type DefinitionKind = 'tool' | 'prompt' | 'resource' | 'resourceTemplate' | 'app' | 'event'

const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/
/** MCP does not restrict the names of prompts and resources. `Project files` is one of its own examples. */
const NAME = /^(?=\S)[^\p{Cc}]{1,128}(?<=\S)$/u
const NO_SCOPES: readonly string[] = Object.freeze([])

/** Returns `config`. @throws {KitMcpConfigError} if the name or the configuration is invalid. */
export function checkDefinition<Config extends object>(
  kind: DefinitionKind,
  name: unknown,
  config: Config,
  known: readonly string[],
  least: string,
): Config {
  checkName(kind, name)
  if (!isOptionsObject(config))
    throw invalidKind(kind, `'${name}' needs an object with at least { ${least} }`, config)
  checkKnownOptions(`${kind} '${name}'`, config, known)
  return config
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

/** Returns copies of the members that all definitions share. */
export function commonMembers(owner: string, { title, icons, _meta }: DefinitionConfig): object {
  return {
    ...textMember(owner, 'title', title),
    ...(icons !== undefined && { icons: checkIcons(`icons of ${owner}`, icons) }),
    ...(_meta !== undefined && { _meta: objectCopy(`_meta of ${owner}`, _meta) }),
  }
}

export function scopesOf(owner: string, { scopes }: Pick<DefinitionConfig, 'scopes'>): readonly string[] {
  return scopes === undefined ? NO_SCOPES : checkRequiredScopes(`scopes of ${owner}`, scopes)
}

/** Returns `true` for a public operation. @throws {KitMcpConfigError} if it needs scopes, too. */
export function isPublic(owner: string, { public: given, scopes = [] }: DefinitionConfig): boolean {
  if (given === undefined || !checkBoolean(`public of ${owner}`, given)) return false
  if (scopes.length === 0) return true
  throw unusableOption(
    `public of ${owner}`,
    'must not be true for an operation with scopes',
    'Remove public, or remove scopes.',
  )
}

/** Returns `{ [member]: text }`, or `{}` if `text` is undefined. @throws {KitMcpConfigError} if it is not a string. */
export function textMember(owner: string, member: string, text: unknown): object {
  if (text === undefined) return {}
  checkString(`${member} of ${owner}`, text)
  return { [member]: text }
}

function checkIcons(option: string, icons: unknown): readonly Icon[] {
  if (!Array.isArray(icons))
    throw invalidKind(option, `must be an array such as [{ src: 'https://…' }]`, icons)
  for (const icon of icons) {
    if (typeof (icon as Partial<Icon> | null)?.src !== 'string')
      throw invalidKind(option, 'must contain objects with a string src', icon)
  }
  return frozenCopy(option, icons)
}

/** Returns a frozen copy of an object. @throws {KitMcpConfigError} if it is not an object of JSON values. */
export function objectCopy<T extends object>(option: string, value: T): Readonly<T> {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object', value)
  return frozenCopy(option, value)
}

/** Returns a frozen copy. @throws {KitMcpConfigError} if `value` cannot be sent as JSON. */
function frozenCopy<T extends object>(option: string, value: T): Readonly<T> {
  try {
    return Object.freeze(structuredClone(value))
  } catch {
    throw invalidKind(option, 'must contain only JSON values', value)
  }
}

/** Returns a copy of `definition` with another name. */
export function renamed<Definition extends { readonly name: string }>(
  definition: Definition,
  name: string,
): Definition {
  return Object.freeze({ ...definition, name })
}
