import { quotedName } from '../../base/options/describe-value.ts'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { checkName, type DefinitionKind } from './definition.ts'
import type { EventEntry } from './event.ts'
import type { Middleware } from './middleware.ts'
import type { PromptEntry } from './prompt.ts'
import type { ResourceEntry, ResourceTemplateEntry } from './resource.ts'
import { type SkillEntry, urisOf } from './skills.ts'
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

interface Kept {
  readonly keys: readonly string[]
  readonly entry: RouterEntry
}

/**
 * An immutable list of entries with unique names and URIs. Lists that grow in one chain share their data; the first `size`
 * entries belong to this list. A second branch of a chain copies the data.
 */
export class Entries {
  readonly #kept: Kept[]
  readonly #indexes: Map<string, number>
  readonly #size: number

  constructor(kept: Kept[] = [], indexes: Map<string, number> = new Map()) {
    this.#kept = kept
    this.#indexes = indexes
    this.#size = kept.length
  }

  /** Returns the list with one more entry. @throws {KitMcpConfigError} if its name or a URI is already registered. */
  with(entry: RouterEntry): Entries {
    const keys = this.#newKeys(entry)
    const isLatest = this.#kept.length === this.#size
    const kept = isLatest ? this.#kept : this.#kept.slice(0, this.#size)
    const indexes = isLatest
      ? this.#indexes
      : new Map(kept.flatMap((one, index) => one.keys.map((key) => [key, index] as const)))
    kept.push({ keys, entry })
    for (const key of keys) indexes.set(key, this.#size)
    return new Entries(kept, indexes)
  }

  toArray(): RouterEntry[] {
    return this.#kept.slice(0, this.#size).map(({ entry }) => entry)
  }

  #newKeys(entry: RouterEntry): string[] {
    const { kind, definition } = entry
    const { name } = definition
    // Skills are resources, too.
    const space = kind === 'skills' ? 'resource' : kind
    const uris = kind === 'skills' ? urisOf(entry.content) : 'canonical' in entry ? [entry.canonical] : []
    const isUsed = (key: string): boolean => (this.#indexes.get(key) ?? this.#size) < this.#size
    if (isUsed(`${space} name ${name}`))
      throw invalidOption(
        shownKind(entry),
        kind === 'skills'
          ? `contains ${quotedName(name)}, the name of another skill or resource. Rename one of them`
          : `'${name}' is already registered. Choose another name`,
      )
    const used = uris.find((uri) => isUsed(`${space} uri ${uri}`))
    if (used !== undefined)
      throw invalidOption(
        shownKind(entry),
        kind === 'skills'
          ? `contains ${quotedName(used)}, the URI of another skill or resource. Load the folder with another prefix, or change the other URI`
          : `'${name}' has the URI ${quotedName(used)}, which is already registered. Choose another URI`,
      )
    return [`${space} name ${name}`, ...uris.map((uri) => `${space} uri ${uri}`)]
  }
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
