import { readFile } from 'node:fs/promises'
import { type AuthorizationKeys, createKeys, resolveKeys } from '../../src/authorization/keys.ts'
import { KitMcpConfigError } from '../../src/options/config-error.ts'
import { counted } from '../../src/options/counted.ts'
import type { CliContext } from '../cli-context.ts'
import { KEYS_HELP, parseKeysArguments } from './arguments.ts'
import { promoteKeys, rotateKeys, stageKeys } from './changed-keys.ts'
import { type WriteProblem, writeSecretFile } from './secret-file.ts'

const CHANGES = { rotate: rotateKeys, stage: stageKeys, promote: promoteKeys }

/** A file that cannot be read, or that contains no keys. The message contains nothing of the file. */
class UnreadableKeys extends Error {}

/** Runs `mcp-gatekit keys …`. Resolves with the exit code: 0, or 1 if a file cannot be read or written. @throws {UsageError} */
export async function keysCommand(argv: readonly string[], { stdout, stderr }: CliContext): Promise<number> {
  const command = parseKeysArguments(argv)
  if (command.kind === 'help') {
    stdout.write(KEYS_HELP)
    return 0
  }
  const { kind, file, kept, out, replaces } = command
  let before: AuthorizationKeys | undefined
  try {
    before = file === undefined ? undefined : await readKeys(file)
  } catch (error) {
    if (!(error instanceof UnreadableKeys)) throw error
    stderr.write(`mcp-gatekit: ${error.message}\n`)
    return 1
  }
  const keys = before === undefined || kind === 'create' ? createKeys() : CHANGES[kind](before, kept)
  const text = `${JSON.stringify(keys)}\n`
  if (out === undefined) stdout.write(text)
  else {
    const problem = await writeSecretFile(out, text, replaces)
    if (problem !== undefined) {
      stderr.write(`mcp-gatekit: ${describeProblem(out, problem)}\n`)
      return 1
    }
    stdout.write(`wrote ${out}\n`)
  }
  const removed = kind === 'rotate' && before !== undefined ? removedText(before, keys) : ''
  if (removed !== '') stderr.write(removed)
  return 0
}

/** Returns the line about keys that were removed: a rotation adds one key to each list. */
function removedText(before: AuthorizationKeys, after: AuthorizationKeys): string {
  const gone = [
    [before.signing.length + 1 - after.signing.length, 'old signing key'] as const,
    [before.encryption.length + 1 - after.encryption.length, 'old encryption secret'] as const,
  ].filter(([count]) => count > 0)
  if (gone.length === 0) return ''
  return `mcp-gatekit: removed ${gone.map(([count, what]) => counted(count, what)).join(' and ')}\n`
}

/** @throws {UnreadableKeys} */
async function readKeys(file: string): Promise<AuthorizationKeys> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    throw new UnreadableKeys(`cannot read ${file} (${code})`)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The error of the parser contains a part of the file.
    throw new UnreadableKeys(`${file} does not contain valid JSON`)
  }
  try {
    const keys = resolveKeys(value as AuthorizationKeys)
    if (keys.signing.every(({ kid }) => kid !== undefined)) return keys
  } catch (error) {
    if (!(error instanceof KitMcpConfigError)) throw error
    const [problem = ''] = error.message.split(/; received |\. /, 1)
    throw new UnreadableKeys(`${file} does not contain keys of authorizationFacade: ${problem}`)
  }
  throw new UnreadableKeys(
    `the signing key in ${file} has no kid. Add one, so that tokens name the key that signed them`,
  )
}

function describeProblem(file: string, problem: WriteProblem): string {
  if (problem === 'exists')
    return `${file} exists already. Choose another file, or replace this one with --force`
  if (problem === 'not-a-file') return `${file} is not a file. Choose another path`
  return `cannot write ${file} (${problem})`
}
