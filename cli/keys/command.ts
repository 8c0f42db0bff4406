import { readFile } from 'node:fs/promises'
import { type AuthorizationKeys, createKeys, resolveKeys } from '../../src/authorization/keys.ts'
import { KitMcpConfigError } from '../../src/options/config-error.ts'
import { counted } from '../../src/options/counted.ts'
import type { CliContext } from '../cli-context.ts'
import { KEYS_HELP, type KeysSource, parseKeysArguments } from './arguments.ts'
import { promoteKeys, type RotatedKeys, rotateKeys, stageKeys } from './changed-keys.ts'
import { type WriteProblem, writeSecretFile } from './secret-file.ts'

/** A file that cannot be read, or that contains no keys. The message contains nothing of the file. */
class UnreadableKeys extends Error {}

/** Runs `mcp-gatekit keys …`. Resolves with the exit code: 0, or 1 if a file cannot be read or written. @throws {UsageError} */
export async function keysCommand(argv: readonly string[], { stdout, stderr }: CliContext): Promise<number> {
  const command = parseKeysArguments(argv)
  if (command.kind === 'help') {
    stdout.write(KEYS_HELP)
    return 0
  }
  const { source, out, replaces } = command
  let result: RotatedKeys
  try {
    result = await keysFrom(source)
  } catch (error) {
    if (!(error instanceof UnreadableKeys)) throw error
    stderr.write(`mcp-gatekit: ${error.message}\n`)
    return 1
  }
  const { keys, removed } = result
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
  const gone = [
    removed.signing > 0 ? counted(removed.signing, 'old signing key') : '',
    removed.encryption > 0 ? counted(removed.encryption, 'old encryption secret') : '',
  ].filter((part) => part !== '')
  if (gone.length > 0) stderr.write(`mcp-gatekit: removed ${gone.join(' and ')}\n`)
  return 0
}

async function keysFrom(source: KeysSource): Promise<RotatedKeys> {
  const removed = { signing: 0, encryption: 0 }
  if (source.kind === 'create') return { keys: createKeys(), removed }
  const keys = await readKeys(source.file)
  if (source.kind === 'rotate') return rotateKeys(keys, source.kept)
  return { keys: source.kind === 'stage' ? stageKeys(keys) : promoteKeys(keys), removed }
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
