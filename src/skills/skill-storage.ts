import { memorySkillFiles, type SkillFileEntry } from '@modelcontextprotocol/server/ext/skills'
import { KitMcpConfigError } from '../base/options/config-error.ts'
import { quotedName } from '../base/options/describe-value.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { isRecord } from '../base/options/value-kinds.ts'
import { builtinModule } from '../base/runtime.ts'
import { type SkillFileContents, unusableSource } from './options.ts'

const { invalidKind } = optionChecksOf('loadSkills')

/** Lists and reads files. Paths are relative, and `''` is the root. */
export interface SkillStorage {
  /** Returns the entries of a folder without dot files, or the first `max + 1` of them. */
  list(dir: string, max: number): Promise<SkillFileEntry[]>
  /** Returns the bytes of a file. @throws {KitMcpConfigError} if it is larger than the limit. */
  read(path: string, limit: SizeLimit): Promise<Uint8Array>
}

/** The maximum size of a file. */
export interface SizeLimit {
  readonly max: number
  /** The problem with a larger file, and its fix, for the error. */
  readonly problem: string
  readonly fix: string
}

const SOURCE_FIX = `Pass the folder that contains the folders of the skills, such as new URL('./skills', import.meta.url).`

/** @throws {KitMcpConfigError} if `source` is not a folder that exists, and not an object of file contents. */
export async function skillStorage(source: string | URL | SkillFileContents): Promise<SkillStorage> {
  if (typeof source === 'string' || source instanceof URL) return await folderStorage(source)
  if (isRecord(source)) return memoryStorage(source)
  throw invalidKind('source', 'must be a folder, or an object with the contents of files', source, SOURCE_FIX)
}

function memoryStorage(source: SkillFileContents): SkillStorage {
  const contents = Object.entries(source)
  for (const [path, content] of contents) {
    if (typeof content !== 'string' && !(content instanceof Uint8Array))
      throw invalidKind('source', `must have a string or bytes at ${quotedName(path)}`, content)
    checkDepth(path)
  }
  const copies = contents.map(([path, content]) => [
    path,
    typeof content === 'string' ? content : content.slice(),
  ])
  const files = memorySkillFiles(Object.fromEntries(copies))
  return {
    list: async (dir) => (await files.list(dir)).filter(({ name }) => !name.startsWith('.')),
    async read(path, limit) {
      const bytes = await files.read(path)
      if (bytes.length > limit.max) throw tooLarge(limit)
      return bytes
    },
  }
}

async function folderStorage(folder: string | URL): Promise<SkillStorage> {
  const [fs, path] = [builtinModule('node:fs'), builtinModule('node:path')]
  if (fs === undefined || path === undefined)
    throw unusableSource(
      'cannot be a folder, because this runtime has no file system',
      'Pass an object with the contents of the files.',
    )
  try {
    const root = await fs.promises.realpath(folder)
    if ((await fs.promises.stat(root)).isDirectory()) return new FolderStorage(root, fs, path)
  } catch (error) {
    throw unusableSource(`must be a folder that exists and can be read (${codeOf(error)})`, SOURCE_FIX)
  }
  throw unusableSource('must be a folder, and not a file', SOURCE_FIX)
}

type Fs = NonNullable<ReturnType<typeof builtinModule<'node:fs'>>>
type Path = NonNullable<ReturnType<typeof builtinModule<'node:path'>>>

/** A folder. Links and special files in it are neither followed nor opened. */
class FolderStorage implements SkillStorage {
  readonly #root: string
  readonly #fs: Fs
  readonly #path: Path

  /** @param root the real path of the folder */
  constructor(root: string, fs: Fs, path: Path) {
    this.#root = root
    this.#fs = fs
    this.#path = path
  }

  async list(dir: string, max: number): Promise<SkillFileEntry[]> {
    // The folder is around each of its files.
    checkDepth(`${dir}/`)
    const entries: SkillFileEntry[] = []
    try {
      for await (const entry of await this.#fs.promises.opendir(this.#pathOf(dir))) {
        const { name } = entry
        if (name.startsWith('.')) continue
        if (!entry.isFile() && !entry.isDirectory()) throw specialFile(dir === '' ? name : `${dir}/${name}`)
        entries.push({ name, kind: entry.isFile() ? 'file' : 'directory' })
        if (entries.length > max) break
      }
    } catch (error) {
      throw systemError(dir, error)
    }
    return entries
  }

  async read(path: string, limit: SizeLimit): Promise<Uint8Array> {
    try {
      return await this.#read(path, limit)
    } catch (error) {
      throw systemError(path, error)
    }
  }

  async #read(path: string, limit: SizeLimit): Promise<Uint8Array> {
    const { constants, promises } = this.#fs
    const full = this.#pathOf(path)
    // A part of the path may have become a link after it was listed.
    if ((await promises.realpath(full)) !== full) throw specialFile(path)
    // Without O_NONBLOCK, opening a FIFO waits for a writer. Windows does not have these flags.
    const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants
    const handle = await promises.open(full, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    try {
      const stats = await handle.stat()
      if (!stats.isFile()) throw specialFile(path)
      if (stats.size > limit.max) throw tooLarge(limit)
      const bytes = new Uint8Array(await handle.readFile())
      if (bytes.length !== stats.size)
        throw unusableSource(`has changed: ${quotedName(path)} was written while it was read`)
      return bytes
    } finally {
      await handle.close()
    }
  }

  #pathOf(relative: string): string {
    return this.#path.join(this.#root, ...relative.split('/'))
  }
}

/** The maximum number of folders around a file. */
const MAX_DEPTH = 16

function checkDepth(path: string): void {
  if (path.split('/').length > MAX_DEPTH + 1)
    throw unusableSource(
      `must not have more than ${MAX_DEPTH} folders in each other, as ${quotedName(path)} has`,
    )
}

function tooLarge({ problem, fix }: SizeLimit): Error {
  return unusableSource(`must not contain ${problem}`, `Make the file smaller, or ${fix}.`)
}

function specialFile(path: string): Error {
  return unusableSource(
    `must contain only files and folders: ${quotedName(path)} is a link or a special file`,
    'Replace it with a copy of the file.',
  )
}

/** Returns an error of this file as it is, and describes any other error by its code. */
function systemError(path: string, error: unknown): unknown {
  return error instanceof KitMcpConfigError
    ? error
    : unusableSource(`must be readable: ${quotedName(path === '' ? '.' : path)} fails with ${codeOf(error)}`)
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code : 'an error'
}
