import type * as Fs from 'node:fs'
import { KitMcpConfigError } from '../../options/config-error.ts'
import { optionChecksOf } from '../../options/option-checks.ts'
import { builtinModule } from '../../runtime.ts'

const { invalidOption, unusableOption } = optionChecksOf('KitMcpRouter')

/**
 * Reads a file in UTF-8 of at most `maxBytes` bytes. It does not wait for another process, as opening a named pipe would.
 * @throws {KitMcpConfigError} if `file` is not the path of such a file.
 */
export function readDocument(option: string, file: unknown, maxBytes: number): string {
  if (!(file instanceof URL) && (typeof file !== 'string' || file === ''))
    throw invalidOption(option, 'must be the path of an HTML file, as a string or a URL', file)
  const fs = builtinModule('node:fs')
  if (fs === undefined) throw unusableOption(option, 'cannot be read in this runtime', 'Set html instead.')
  const bytes = readBytes(fs, option, file, maxBytes)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalidOption(option, 'must be a file in UTF-8', String(file))
  }
}

/** Returns the error for a document of more than `maxBytes` bytes. */
export function tooLarge(option: string, maxBytes: number): KitMcpConfigError {
  return unusableOption(
    option,
    `must not have more than ${maxBytes} bytes`,
    'Make the document smaller, or raise maxBytes.',
  )
}

function readBytes(fs: typeof Fs, option: string, file: string | URL, maxBytes: number): Uint8Array {
  let descriptor: number | undefined
  try {
    // O_NONBLOCK, which Windows does not have, opens a named pipe without waiting for a writer.
    descriptor = fs.openSync(file, fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0))
    const stats = fs.fstatSync(descriptor)
    if (!stats.isFile()) throw invalidOption(option, 'must be a regular file', String(file))
    if (stats.size > maxBytes) throw tooLarge(option, maxBytes)
    return fs.readFileSync(descriptor)
  } catch (cause) {
    if (cause instanceof KitMcpConfigError) throw cause
    const { code = 'unknown error' } = cause as NodeJS.ErrnoException
    throw invalidOption(option, `must be a file that can be read (${code})`, String(file))
  } finally {
    if (descriptor !== undefined) fs.closeSync(descriptor)
  }
}
