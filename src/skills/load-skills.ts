import {
  type Skill,
  SkillCatalogError,
  type SkillFileEntry,
  type SkillFiles,
  SkillsExtension,
  type SkillWarning,
} from '@modelcontextprotocol/server/ext/skills'
import { cutText } from '../base/cut-text.ts'
import { KitMcpConfigError } from '../base/options/config-error.ts'
import { counted } from '../base/options/counted.ts'
import { quotedName } from '../base/options/describe-value.ts'
import { LoadedSkills } from '../mcp/router/skills.ts'
import {
  type LoadSkillsOptions,
  type ResolvedLoadOptions,
  resolveLoadOptions,
  type SkillFileContents,
  unusableSource,
} from './options.ts'
import { skillContents } from './skill-contents.ts'
import { type SizeLimit, type SkillStorage, skillStorage } from './skill-storage.ts'

/** The maximum size of `SKILL.md`, whose front matter every list of skills contains. */
const MAX_MANIFEST_BYTES = 256 * 1024

/**
 * Reads a folder of skills (SEP-2640): every folder in it that contains a `SKILL.md` is a skill. All files are read once and
 * kept in memory, so a change of the folder takes effect when the process restarts. Dot files are left out. Links and
 * special files are rejected.
 * @param source the folder, as a path or a file URL, or the contents of its files by path.
 * @param options the prefix of the URIs, and the limits.
 * @returns the skills, for `KitMcpRouter…skills()`.
 * @throws {KitMcpConfigError} if an option is invalid, if the folder cannot be read, if it exceeds a limit, or if a skill is
 * invalid.
 * @example
 * ```ts
 * import { createMcpAdapter, KitMcpRouter } from 'mcp-gatekit'
 * import { loadSkills } from 'mcp-gatekit/skills'
 *
 * const skills = await loadSkills(new URL('./skills', import.meta.url))
 * const { handler } = createMcpAdapter({
 *   router: KitMcpRouter.create().skills(skills, { scopes: ['skills:read'] }),
 *   serverInfo: { name: 'support', version: '1.0.0' },
 * })
 * ```
 * @see docs/guides/skills.md
 */
export async function loadSkills(
  source: string | URL | SkillFileContents,
  options: LoadSkillsOptions = {},
): Promise<LoadedSkills> {
  const resolved = resolveLoadOptions(options)
  const files = new RecordedFiles(await skillStorage(source), resolved)
  const skills = await validSkills(files, resolved)
  return new LoadedSkills(skillContents(skills, files, resolved.prefix))
}

/** Returns the skills as the SDK publishes them. @throws {KitMcpConfigError} if there are none, or if one is invalid. */
async function validSkills(files: RecordedFiles, { prefix }: ResolvedLoadOptions): Promise<readonly Skill[]> {
  const warnings: SkillWarning[] = []
  try {
    const { entries } = await SkillsExtension.load(files, {
      strict: true,
      onWarning: (warning) => warnings.push(warning),
      ...(prefix.length > 0 && { prefix: prefix.join('/') }),
    })
    // A folder with `skill.md` is not a skill, although it was meant as one.
    const misnamed = warnings.filter(({ path }) => path !== '.' && !files.contents.has(path))
    if (misnamed.length > 0) throw invalidSkills(misnamed)
    if (entries.length > 0) return entries
  } catch (error) {
    // The SDK wraps the errors of the storage.
    throw files.failure ?? (error instanceof SkillCatalogError ? invalidSkills(error.problems) : error)
  }
  throw unusableSource('must contain a skill', 'Create a folder with a file SKILL.md in it for each skill.')
}

/** The maximum number of problems in a message. */
const MAX_PROBLEMS = 5
const MAX_PROBLEM_LENGTH = 200

function invalidSkills(problems: readonly SkillWarning[]): Error {
  const named = problems.slice(0, MAX_PROBLEMS).map(({ path, message }) => {
    // Its limits are those that every host accepts.
    const problem = message
      .replace(/ \(skill skipped\)$|\. Raise limits to allow it$/, '')
      .replaceAll(/\p{C}/gu, '?')
    return `${quotedName(path)}: ${cutText(problem, MAX_PROBLEM_LENGTH, '…')}`
  })
  const more = problems.length - named.length
  return unusableSource(
    `must contain only valid skills: ${named.join('; ')}${more > 0 ? `; and ${more} more` : ''}`,
    'Correct or remove the skill.',
  )
}

/** The files of a storage within the limits. Keeps everything that the SDK lists and reads. */
class RecordedFiles implements SkillFiles {
  readonly #storage: SkillStorage
  readonly #options: ResolvedLoadOptions
  /** The entries of each folder, by path. */
  readonly folders = new Map<string, readonly SkillFileEntry[]>()
  /** The content of each file of a skill, by path. */
  readonly contents = new Map<string, Uint8Array>()
  /** The first configuration error of the storage, or of a limit. */
  failure: KitMcpConfigError | undefined
  #files = 0
  #skills = 0
  #bytes = 0

  constructor(storage: SkillStorage, options: ResolvedLoadOptions) {
    this.#storage = storage
    this.#options = options
  }

  async list(dir: string): Promise<SkillFileEntry[]> {
    return await this.#recorded(async () => {
      const { maxFiles, maxSkills } = this.#options
      const entries = await this.#storage.list(dir, maxFiles - this.#files)
      this.#files += entries.length
      if (this.#files > maxFiles)
        throw unusableSource(
          `must not contain more than ${maxFiles} files and folders`,
          'Remove some of them, or raise maxFiles.',
        )
      if (entries.some(({ name, kind }) => name === 'SKILL.md' && kind === 'file')) this.#skills++
      if (this.#skills > maxSkills)
        throw unusableSource(
          `must not contain more than ${counted(maxSkills, 'skill')}`,
          'Remove some of them, or raise maxSkills.',
        )
      this.folders.set(dir, entries)
      return entries
    })
  }

  async read(path: string): Promise<Uint8Array> {
    return await this.#recorded(async () => {
      const bytes = await this.#storage.read(path, this.#limitOf(path))
      this.#bytes += bytes.length
      this.contents.set(path, bytes)
      return bytes
    })
  }

  #limitOf(path: string): SizeLimit {
    const { maxFileBytes, maxBytes } = this.#options
    const isManifest = path.endsWith('/SKILL.md')
    const ownMax = isManifest ? Math.min(MAX_MANIFEST_BYTES, maxFileBytes) : maxFileBytes
    const left = maxBytes - this.#bytes
    return left < ownMax
      ? { max: left, problem: `more than ${counted(maxBytes, 'byte')} in all`, fix: 'raise maxBytes' }
      : {
          max: ownMax,
          problem: `files of more than ${counted(ownMax, 'byte')}, such as ${quotedName(path)}`,
          fix: ownMax === maxFileBytes ? 'raise maxFileBytes' : 'move parts of it into other files',
        }
  }

  async #recorded<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run()
    } catch (error) {
      if (error instanceof KitMcpConfigError) this.failure ??= error
      throw error
    }
  }
}
