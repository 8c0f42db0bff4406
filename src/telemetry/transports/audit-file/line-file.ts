import type { BigIntStats } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { requiredModule } from '../../../base/runtime.ts'

/** The longest last line that is read to find out whether it is whole, in bytes. `verifyAudit` does not read longer lines. */
const MAX_LINE_BYTES = 8_388_608

const LINE_FEED = 0x0a
const BRACE = 0x7b // {

/** A file that is not a log of JSON lines. */
export class NotALogError extends Error {
  override readonly name = 'NotALogError'
}

/** A line that could not be appended, and the size of the file before that. */
interface FailedLine {
  readonly bytes: Uint8Array
  readonly sizeBefore: bigint
}

/**
 * A file of JSON lines. `append` adds a whole line or, if it fails, nothing. A last line that another run has not finished is
 * removed when the file is opened. A file that was moved or removed is created again.
 */
export class LineFile {
  readonly #path: string
  readonly #fsync: boolean
  readonly #fs = requiredModule('node:fs').promises
  #file: FileHandle | undefined
  /** The state of the open file before the next line. */
  #stats: BigIntStats | undefined
  /** The latest line that could not be appended, if parts of it may be at the end of the file. */
  #failed: FailedLine | undefined

  /** @param fsync calls `fsync` for each line. */
  constructor(path: string, fsync: boolean) {
    this.#path = path
    this.#fsync = fsync
  }

  /**
   * Makes sure that the file at the path is open and ends with a whole line.
   * @throws {NotALogError} if it is not a file of JSON lines, which is then not changed.
   */
  async open(): Promise<FileHandle> {
    if (this.#file !== undefined) {
      await this.#removeFailed(this.#file)
      const stats = await this.#statsOfPath(this.#file)
      const isSame = stats?.dev === this.#stats?.dev && stats?.ino === this.#stats?.ino
      this.#stats = stats
      if (isSame) return this.#file
      await this.close()
    }
    const file = await this.#fs.open(this.#path, 'a+', 0o600)
    try {
      const before = await file.stat()
      if (!before.isFile()) throw new NotALogError('it is not a regular file')
      await completeLastLine(file, before.size)
      if (this.#fsync && before.size === 0) await this.#syncFolder()
      this.#stats = await file.stat({ bigint: true })
    } catch (error) {
      await file.close()
      throw error
    }
    this.#file = file
    return file
  }

  /** Appends a line with one write, so that the lines of several processes are not mixed. */
  async append(line: string): Promise<void> {
    const file = await this.open()
    const bytes = new TextEncoder().encode(`${line}\n`)
    try {
      const { bytesWritten } = await file.write(bytes)
      if (bytesWritten < bytes.length) throw new Error('only a part of the line could be written')
      if (this.#fsync) await file.sync()
    } catch (error) {
      this.#failed = { bytes, sizeBefore: this.#stats?.size ?? 0n }
      // If this fails too, the next line or the next start removes the part. The caller gets the first error.
      await this.#removeFailed(file).catch(() => {})
      throw error
    }
  }

  async close(): Promise<void> {
    const file = this.#file
    if (file === undefined) return
    // The next start removes what stays.
    await this.#removeFailed(file).catch(() => {})
    this.#file = undefined
    this.#failed = undefined
    await file.close()
  }

  /**
   * Removes the failed line, or the beginning of it, from the end of the file. It stays if another process has written behind
   * it.
   */
  async #removeFailed(file: FileHandle): Promise<void> {
    if (this.#failed === undefined) return
    const { bytes, sizeBefore } = this.#failed
    const { size } = await file.stat()
    const start = Math.max(0, size - bytes.length)
    const end = await readAt(file, start, bytes.length)
    const rest = end.subarray(end.lastIndexOf(LINE_FEED) + 1)
    if (end.equals(bytes) && sizeBefore <= start) await file.truncate(start)
    else if (rest.length > 0 && rest.equals(bytes.subarray(0, rest.length)))
      await file.truncate(size - rest.length)
    this.#failed = undefined
  }

  /** Returns the state of the file at the path, or `undefined` if there is none. */
  async #statsOfPath(file: FileHandle): Promise<BigIntStats | undefined> {
    try {
      return await this.#fs.stat(this.#path, { bigint: true })
    } catch (error) {
      // A process that has given up the permission to look up the path can still write to the open file.
      return (error as NodeJS.ErrnoException).code === 'ENOENT' ? undefined : file.stat({ bigint: true })
    }
  }

  /** Makes a new file survive a power loss. Some systems cannot open or sync a folder. The file is usable nevertheless. */
  async #syncFolder(): Promise<void> {
    const path = requiredModule('node:path').dirname(this.#path)
    const folder = await this.#fs.open(path).catch(() => undefined)
    await folder?.sync().catch(() => {})
    await folder?.close()
  }
}

/** Ends the last line if only its line feed is missing, and removes it if it is incomplete. */
async function completeLastLine(file: FileHandle, size: number): Promise<void> {
  const line = await lastLine(file, size)
  if (line.length === 0) return
  if (isJson(line)) {
    await file.write('\n')
    return
  }
  // After a power loss, some file systems have zeros instead of the last bytes.
  if (line[0] !== BRACE && line.some((byte) => byte !== 0))
    throw new NotALogError('its last line is not the beginning of a line of JSON')
  await file.truncate(size - line.length)
}

/** Returns the bytes after the last line feed. */
async function lastLine(file: FileHandle, size: number): Promise<Buffer> {
  const start = Math.max(0, size - MAX_LINE_BYTES - 1)
  const end = await readAt(file, start, size - start)
  const line = end.subarray(end.lastIndexOf(LINE_FEED) + 1)
  if (line.length > MAX_LINE_BYTES) throw new NotALogError('its last line is longer than 8 MiB')
  return line
}

async function readAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(length), position })
  return buffer.subarray(0, bytesRead)
}

function isJson(line: Buffer): boolean {
  try {
    JSON.parse(line.toString())
    return true
  } catch {
    return false
  }
}
