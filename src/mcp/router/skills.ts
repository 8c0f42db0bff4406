import type { CacheHint, Resource } from '@modelcontextprotocol/server'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import type { RulesFor } from '../../base/options/option-rules.ts'
import { unionOfScopes } from '../../oauth/scope.ts'
import { DEFINITION_RULES, readConfig } from './definition.ts'
import type { Wrapped } from './middleware.ts'
import { RESOURCE_MEMBER_RULES, type ResourceEntry } from './resource.ts'
import type { Scoped } from './uris/uri-scopes.ts'

const { invalidKind } = optionChecksOf('KitMcpRouter')

/** The extension that defines skills (SEP-2640). */
const SKILLS_EXTENSION = 'io.modelcontextprotocol/skills'

/** The capabilities that a server with skills declares. */
export const SKILLS_CAPABILITY: { readonly extensions: Record<string, { readonly directoryRead: true }> } = {
  extensions: { [SKILLS_EXTENSION]: { directoryRead: true } },
}

/** A skill that `loadSkills` has loaded. */
export interface SkillInfo {
  /** The URI of `SKILL.md`, such as `skill://refunds/SKILL.md`. */
  readonly uri: string
  /** The name in the front matter, which is the name of the folder. */
  readonly name: string
  /** The description in the front matter. */
  readonly description: string
}

/** The options of `KitMcpRouter…skills()`. They hold for every skill of a folder. */
export interface SkillsConfig {
  /**
   * The scopes that the skills and their files need in addition to those of the endpoint. A request without them gets a 403
   * whose challenge lists every scope needed (step-up).
   */
  readonly scopes?: readonly string[] | undefined
  /**
   * Opens the skills to requests without a token if the OAuth option `anonymous` is `true`; otherwise it has no effect. Must
   * not be set together with `scopes`. Defaults to `false`.
   */
  readonly public?: boolean | undefined
  /** The time for which clients of 2026-07-28 may cache skills and their files. Defaults to the adapter's `cache`. */
  readonly cache?: CacheHint | undefined
}

/** A skill as `skills/list` and `skills/get` return it. */
export interface ServedSkill {
  readonly uri: string
  readonly frontmatter: { readonly name: string; readonly description: string }
  readonly resources: unknown
}

/** A file of a skill. Its URI is in canonical form. */
export interface SkillFile {
  readonly uri: string
  readonly mimeType: string
  readonly size: number
  readonly content: string | Uint8Array
}

/** A directory of a skill. Its URI is in canonical form. */
export interface SkillDirectory {
  readonly uri: string
  readonly children: readonly Resource[]
}

/** A skill with the content of its files. The files and directories of a nested skill belong only to that skill. */
export interface SkillContent {
  readonly skill: ServedSkill
  /** The first one is `SKILL.md`. */
  readonly files: readonly [SkillFile, ...SkillFile[]]
  readonly directories: readonly SkillDirectory[]
}

/** Reads the private member of the class, which sets it. */
let readContents: (loaded: LoadedSkills) => readonly SkillContent[]

/** The skills of a folder, which `loadSkills` has read. `KitMcpRouter…skills()` serves them. */
export class LoadedSkills {
  readonly #contents: readonly SkillContent[]
  /** The skills, in the order of their URIs. */
  readonly skills: readonly SkillInfo[]

  /** @internal */
  constructor(contents: readonly SkillContent[]) {
    this.#contents = contents
    this.skills = Object.freeze(
      contents.map(({ skill: { uri, frontmatter } }) =>
        Object.freeze({ uri, name: frontmatter.name, description: frontmatter.description }),
      ),
    )
  }

  static {
    readContents = (loaded) => loaded.#contents
  }
}

/** A skill of a router, with everything that can be computed before a request. */
export interface SkillEntry extends Wrapped {
  readonly kind: 'skills'
  /** The entry of `resources/list`. */
  readonly definition: Resource
  readonly content: SkillContent
  readonly cache: CacheHint
}

const SKILLS_RULES = {
  scopes: DEFINITION_RULES.scopes,
  public: DEFINITION_RULES.public,
  cache: RESOURCE_MEMBER_RULES.cache,
} satisfies RulesFor<SkillsConfig>

/** Returns the entries of the skills. @throws {KitMcpConfigError} if an argument is invalid. */
export function skillEntries(loaded: LoadedSkills, config: SkillsConfig): SkillEntry[] {
  if (!(loaded instanceof LoadedSkills))
    throw invalidKind('skills', 'must be the result of await loadSkills()', loaded)
  const expected = `needs an object such as { scopes: ['skills:read'] }`
  const { public: isPublic, ...shared } = readConfig('skills', expected, config, SKILLS_RULES)
  return readContents(loaded).map((content) => {
    const { skill, files } = content
    const { name, description } = skill.frontmatter
    const [{ uri, mimeType, size }] = files
    const definition = Object.freeze({ uri, name, description, mimeType, size })
    return { kind: 'skills', definition, content, isPublic, ...shared }
  })
}

/** Returns the URIs of a skill, its files, and its directories. */
export function urisOfSkill({ files, directories }: SkillContent): string[] {
  return [...files, ...directories].map(({ uri }) => uri)
}

/** Returns the files of a skill as resources. All of them have the name of the skill. */
export function skillResources(entry: SkillEntry): ResourceEntry[] {
  const { definition, content, scopes, isPublic, cache, around } = entry
  const { name } = definition
  return content.files.map(({ uri, mimeType, size, content }, index) => ({
    kind: 'resource',
    definition: index === 0 ? definition : Object.freeze({ uri, name, mimeType, size }),
    canonical: uri,
    scopes,
    isPublic,
    cache,
    handler: () => content,
    ...(around !== undefined && { around }),
  }))
}

/** A skill, or a directory of a skill, in the tables of a router. */
interface SkillPart extends Required<Scoped>, Pick<SkillEntry, 'cache'> {
  readonly definition: Pick<Resource, 'name' | 'uri'>
  readonly canonical: string
}

export interface TableSkill extends SkillPart {
  readonly skill: ServedSkill
}

export interface TableDirectory extends SkillPart {
  readonly children: readonly Resource[]
}

export interface SkillTables {
  /** The skills by the canonical URI of `SKILL.md`, in the order of these URIs. */
  readonly skills: ReadonlyMap<string, TableSkill>
  /** The directories of skills by canonical URI. */
  readonly directories: ReadonlyMap<string, TableDirectory>
}

/**
 * Returns the tables of skills. The entry and the directories of a skill name all of its files, so they need the scopes of
 * all of them.
 * @param resources the resources by canonical URI, which contain the files
 */
export function skillTables(
  entries: readonly SkillEntry[],
  resources: ReadonlyMap<string, Scoped>,
): SkillTables {
  const skills: TableSkill[] = []
  const directories = new Map<string, TableDirectory>()
  for (const { definition, content, isPublic, cache } of entries) {
    const { skill, files } = content
    const scopes = unionOfScopes(...files.map(({ uri }) => resources.get(uri)?.scopes ?? []))
    skills.push({ definition, canonical: definition.uri, scopes, isPublic, cache, skill })
    for (const { uri, children } of content.directories) {
      const named = { name: definition.name, uri }
      directories.set(uri, { definition: named, canonical: uri, scopes, isPublic, cache, children })
    }
  }
  skills.sort((a, b) => (a.canonical < b.canonical ? -1 : 1))
  return { skills: new Map(skills.map((skill) => [skill.canonical, skill])), directories }
}
