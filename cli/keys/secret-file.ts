import { randomBytes } from 'node:crypto'
import { chown, open, realpath, rename, rm, stat } from 'node:fs/promises'
import { CommandFailure } from '../usage-error.ts'

/**
 * Writes a file that only its owner can read. Replaces a file in one step, so that its old content is not lost if the write
 * fails. Leaves no partial file.
 * @throws {CommandFailure} if the file exists, is not a file, or cannot be written
 */
export async function writeSecretFile(file: string, text: string, replaces: boolean): Promise<void> {
  try {
    await (replaces ? replaceFile(file, text) : writeNewFile(file, text))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    throw new CommandFailure(
      code === 'EEXIST'
        ? `${file} exists already. Choose another file, or replace this one with --force`
        : `cannot write ${file} (${code})`,
    )
  }
}

async function replaceFile(file: string, text: string): Promise<void> {
  // A link stays a link.
  const target = await realpath(file).catch(() => file)
  const found = await stat(target).catch(() => undefined)
  if (found !== undefined && !found.isFile())
    throw new CommandFailure(`${file} is not a file. Choose another path`)
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
