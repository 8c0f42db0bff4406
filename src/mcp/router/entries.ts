import { quotedName } from '../../base/options/describe-value.ts'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { checkName, type DefinitionKind } from './definition.ts'
import type { EventEntry } from './event.ts'
import type { Middleware } from './middleware.ts'
import type { PromptEntry } from './prompt.ts'
import type { ResourceEntry, ResourceTemplateEntry } from './resource.ts'
import { type SkillEntry, urisOfSkill } from './skills.ts'
import type { ToolEntry } from './tool.ts'

const { invalidOption } = optionChecksOf('KitMcpRouter')

/** An operation of a router, or one of its skills. */
export type RouterEntry =
  | ToolEntry
  | PromptEntry
  | ResourceEntry
  | ResourceTemplateEntry
  | SkillEntry
  | EventEntry

/** The entries of one kind. */
export type EntryOf<Kind extends RouterEntry['kind']> = Extract<RouterEntry, { readonly kind: Kind }>

/** Returns a list with one more entry. @throws {KitMcpConfigError} if its name or a URI is already registered. */
export function withEntry(entries: readonly RouterEntry[], entry: RouterEntry): readonly RouterEntry[] {
  const { kind, definition } = entry
  const { name } = definition
  const space = spaceOf(entry)
  const isUsed = (has: (one: RouterEntry) => boolean) =>
    entries.some((one) => has(one) && spaceOf(one) === space)
  if (isUsed((one) => one.definition.name === name))
    throw invalidOption(
      shownKind(entry),
      kind === 'skills'
        ? `contains ${quotedName(name)}, the name of another skill or resource. Rename one of them`
        : `'${name}' is already registered. Choose another name`,
    )
  const used = urisOf(entry).find((uri) => isUsed((one) => hasUri(one, uri)))
  if (used !== undefined)
    throw invalidOption(
      shownKind(entry),
      kind === 'skills'
        ? `contains ${quotedName(used)}, the URI of another skill or resource. Load the folder with another prefix, or change the other URI`
        : `'${name}' has the URI ${quotedName(used)}, which is already registered. Choose another URI`,
    )
  return [...entries, entry]
}

/** Returns the kind of the entries whose names and URIs must differ from those of an entry. Skills are resources, too. */
function spaceOf({ kind }: RouterEntry): RouterEntry['kind'] {
  return kind === 'skills' ? 'resource' : kind
}

function hasUri(entry: RouterEntry, uri: string): boolean {
  return 'canonical' in entry ? entry.canonical === uri : urisOf(entry).includes(uri)
}

function urisOf(entry: RouterEntry): readonly string[] {
  if (entry.kind === 'skills') return urisOfSkill(entry.content)
  return 'canonical' in entry ? [entry.canonical] : []
}

/**
 * Returns an entry of a router that is merged into another, with the prefix and the middleware of its router.
 * @throws {KitMcpConfigError} if the name becomes too long.
 */
export function prefixed(
  entry: RouterEntry,
  prefix: string,
  middleware: readonly Middleware<any>[],
): RouterEntry {
  const name = `${prefix}_${entry.definition.name}`
  const kind = shownKind(entry)
  checkName(kind === 'skills' ? 'resource' : kind, name)
  return {
    ...entry,
    definition: Object.freeze({ ...entry.definition, name }),
    ...(entry.kind === 'tool' && entry.app !== undefined && { app: `${prefix}_${entry.app}` }),
    merged: [...middleware, ...(entry.merged ?? [])],
  } as RouterEntry
}

/** Returns the method that adds such an entry. */
function shownKind(entry: RouterEntry): DefinitionKind | 'skills' {
  return entry.kind === 'resource' && entry.app !== undefined ? 'app' : entry.kind
}
