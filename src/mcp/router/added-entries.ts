import { quotedName } from '../../options/describe-value.ts'
import { optionChecksOf } from '../../options/option-checks.ts'
import { checkName, type DefinitionKind, renamed } from './definition.ts'
import type { Entries } from './entries.ts'
import type { Middleware, Wrapped } from './middleware.ts'
import { type SkillEntry, urisOf } from './skills.ts'

const { invalidOption } = optionChecksOf('KitMcpRouter')

/** An entry of a router. */
interface Added extends Wrapped {
  readonly definition: { readonly name: string; readonly uri?: unknown; readonly uriTemplate?: unknown }
  /** The URI or template in canonical form. */
  readonly canonical?: string
  /** The name of the app of a tool, or the properties of an app. */
  readonly app?: string | object
  /** The files of a skill. */
  readonly content?: SkillEntry['content']
}

/**
 * Returns the entries with one more.
 * @param others entries that must not have the name or the URIs either
 * @throws {KitMcpConfigError} if the name or a URI is already registered.
 */
export function added<Entry extends Added>(
  entries: Entries<Entry>,
  kind: DefinitionKind | 'skills',
  entry: Entry,
  others?: Entries<Added>,
): Entries<Entry> {
  const { name, uri = entry.definition.uriTemplate } = entry.definition
  const { content, canonical = String(uri) } = entry
  const uris = content !== undefined ? urisOf(content) : uri === undefined ? [] : [canonical]
  const isUsed = (key: string): boolean => entries.has(key) || others?.has(key) === true
  if (isUsed(`name ${name}`))
    throw invalidOption(
      kind,
      kind === 'skills'
        ? `contains ${quotedName(name)}, the name of another skill or resource. Rename one of them`
        : `'${name}' is already registered. Choose another name`,
    )
  const used = uris.find((one) => isUsed(`uri ${one}`))
  if (used !== undefined)
    throw invalidOption(
      kind,
      kind === 'skills'
        ? `contains ${quotedName(used)}, the URI of another skill or resource. Load the folder with another prefix, or change the other URI`
        : `'${name}' has the URI ${quotedName(String(uri))}, which is already registered. Choose another URI`,
    )
  return entries.with([`name ${name}`, ...uris.map((one) => `uri ${one}`)], entry)
}

/**
 * Returns the entries with those of another router, which get its prefix and its middleware.
 * @throws {KitMcpConfigError} if a name or a URI is already registered, or if a name becomes too long.
 */
export function merged<Entry extends Added>(
  entries: Entries<Entry>,
  kind: DefinitionKind | 'skills',
  prefix: string,
  from: Entries<Entry>,
  middleware: readonly Middleware<any>[],
  others?: Entries<Added>,
): Entries<Entry> {
  return from.toArray().reduce((all, entry) => {
    const { app } = entry
    const name = `${prefix}_${entry.definition.name}`
    // Apps are kept among the resources.
    const own = typeof app === 'object' ? 'app' : kind
    checkName(own === 'skills' ? 'resource' : own, name)
    const around = [...middleware, ...(entry.merged ?? [])]
    const renamedEntry = {
      ...entry,
      definition: renamed(entry.definition, name),
      ...(typeof app === 'string' && { app: `${prefix}_${app}` }),
      ...(around.length > 0 && { merged: around }),
    }
    return added(all, own, renamedEntry, others)
  }, entries)
}
