import { randomBytes } from 'node:crypto'
import { chown, open, realpath, rename, rm, stat } from 'node:fs/promises'

/** The reason why a file could not be written: it exists, it is not a file, or the code of the system error. */
export type WriteProblem = 'exists' | 'not-a-file' | (string & {})

/**
 * Writes a file that only its owner can read. Replaces a file in one step, so that its old content is not lost if the write
 * fails. Leaves no partial file. Resolves with the problem, or with `undefined` if the file was written.
 */
export async function writeSecretFile(
  file: string,
  text: string,
  replaces: boolean,
): Promise<WriteProblem | undefined> {
  try {
    if (replaces) return await replaceFile(file, text)
    await writeNewFile(file, text)
    return undefined
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    return code === 'EEXIST' ? 'exists' : code
  }
}

async function replaceFile(file: string, text: string): Promise<WriteProblem | undefined> {
  // A link stays a link.
  const target = await realpath(file).catch(() => file)
  const found = await stat(target).catch(() => undefined)
  if (found !== undefined && !found.isFile()) return 'not-a-file'
  const temporary = `${target}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await writeNewFile(temporary, text)
    // Only root may give a file to another user.
    if (found !== undefined) await chown(temporary, found.uid, found.gid).catch(() => undefined)
    await rename(temporary, target)
  } catch (error) {
    // The first error is the cause.
    await rm(temporary, { force: true }).catch(() => undefined)
    throw error
  }
  return undefined
}

async function writeNewFile(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } catch (error) {
    // The first error is the cause.
    await rm(file, { force: true }).catch(() => undefined)
    throw error
  } finally {
    await handle.close()
  }
}
