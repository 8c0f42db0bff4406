import type { Icon } from '@modelcontextprotocol/server'
import { isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'

const { checkKnownOptions, checkRequiredScopes, checkString, invalidKind, invalidOption } =
  optionChecksOf('KitMcpRouter')

/** What tools, prompts, resources and templates may all say of themselves. */
export interface DefinitionConfig {
  /** The name that people read. */
  readonly title?: string | undefined
  /** Pictures that clients may show beside it. */
  readonly icons?: readonly Icon[] | undefined
  /** Scopes this operation needs beside those of the endpoint. Without them it is answered 403 (step-up). */
  readonly scopes?: readonly string[] | undefined
  /** Metadata for clients that know it, under prefixed keys. */
  readonly _meta?: Readonly<Record<string, unknown>> | undefined
}

/** The options of `DefinitionConfig`. */
export const DEFINITION_OPTIONS = ['title', 'icons', 'scopes', '_meta'] as const

/** Which of the four a definition is of, as the builder's methods are called. */
export type DefinitionKind = 'tool' | 'prompt' | 'resource' | 'resourceTemplate'

const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/
/** MCP leaves all other names to the server: `Project files` is one in its own examples. */
const NAME = /^(?=\S)[^\p{Cc}]{1,128}(?<=\S)$/u
const NO_SCOPES: readonly string[] = Object.freeze([])

/** The configuration of `kind` under `name`, when both may stand. @throws {KitMcpConfigError} */
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

/** @throws {KitMcpConfigError} for a name that MCP does not allow. */
export function checkName(option: string, name: unknown): asserts name is string {
  const isTool = option === 'tool' || option === 'merge'
  if (typeof name === 'string' && (isTool ? TOOL_NAME : NAME).test(name)) return
  throw invalidOption(
    option,
    isTool
      ? `needs a name of 1 to 128 characters out of A-Z, a-z, 0-9, '_', '.' and '-'`
      : 'needs a name of 1 to 128 characters, without control characters or spaces around it',
    name,
  )
}

/** The members that every definition has in common, copied. */
export function commonMembers(owner: string, { title, icons, _meta }: DefinitionConfig): object {
  return {
    ...textMember(owner, 'title', title),
    ...(icons !== undefined && { icons: checkIcons(`icons of ${owner}`, icons) }),
    ...(_meta !== undefined && { _meta: objectCopy(`_meta of ${owner}`, _meta) }),
  }
}

export function scopesOf(owner: string, { scopes }: DefinitionConfig): readonly string[] {
  return scopes === undefined ? NO_SCOPES : checkRequiredScopes(`scopes of ${owner}`, scopes)
}

/** `{ [member]: text }`, or nothing where it was not given. @throws {KitMcpConfigError} for what is no text. */
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
      throw invalidKind(option, 'must hold objects with a string src', icon)
  }
  return frozenCopy(option, icons)
}

/** A frozen copy of an object. @throws {KitMcpConfigError} for anything else, and for what cannot be sent. */
export function objectCopy<T extends object>(option: string, value: T): Readonly<T> {
  if (!isOptionsObject(value)) throw invalidKind(option, 'must be an object', value)
  return frozenCopy(option, value)
}

/** A copy that nobody else holds. @throws {KitMcpConfigError} for what cannot be sent. */
function frozenCopy<T extends object>(option: string, value: T): Readonly<T> {
  try {
    return Object.freeze(structuredClone(value))
  } catch {
    throw invalidKind(option, 'must hold JSON values only', value)
  }
}

/** `definition` under the name that it has in another router. */
export function renamed<Definition extends { readonly name: string }>(
  definition: Definition,
  name: string,
): Definition {
  return Object.freeze({ ...definition, name })
}
