import { randomBytes } from 'node:crypto'
import { chown, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { type AuthorizationKeys, createKeys, resolveKeys } from '../../src/authorization/keys.ts'
import { KitMcpConfigError } from '../../src/base/options/config-error.ts'
import { counted } from '../../src/base/options/counted.ts'
import { tryOrUndefined } from '../../src/base/try-or-undefined.ts'
import { type Command, CommandFailure, checkUsage, defineCommand, fileErrorCode } from '../command.ts'

const HELP = `Usage: mcp-gatekit keys [options]

Creates the keys of an authorization server for the option keys of authorizationFacade: a private key that signs, and a secret
that encrypts. Prints them as one line of JSON. Treat the output as a password.

Options:
  --out <file>             write to a file that only you can read, instead of printing
  --force                  replace the file of --out if it exists
  --rotate <file>          read the keys of a file, and put new keys in front of them
  --keep-signing <n>       with --rotate: signing keys that remain, with the new one (default: 2)
  --keep-encryption <n>    with --rotate: encryption secrets that remain, with the new one (default: 5)
  --stage <file>           read the keys of a file, and put new keys at the end, where they are accepted and not yet used
  --promote <file>         read the keys of a file, and move the last ones to the front
  -h, --help               print this help

The file that is read is only changed if --out names it and --force is given:

  mcp-gatekit keys --rotate keys.json --out keys.json --force

Exit codes: 0 if the keys were printed or written, 1 if a file could not be read or written, 2 for an invalid command line.
`

const MAX_KEPT = 100

/** The ways to change keys: new ones in front, new ones at the end, or the last ones to the front. */
const CHANGES = {
  rotate(
    keys: AuthorizationKeys,
    kept: Readonly<Record<keyof AuthorizationKeys, number>>,
  ): AuthorizationKeys {
    const { signing, encryption } = createKeys()
    return {
      signing: [...signing, ...keys.signing].slice(0, kept.signing),
      encryption: [...encryption, ...keys.encryption].slice(0, kept.encryption),
    }
  },
  stage(keys: AuthorizationKeys): AuthorizationKeys {
    const { signing, encryption } = createKeys()
    return { signing: [...keys.signing, ...signing], encryption: [...keys.encryption, ...encryption] }
  },
  promote({ signing, encryption }: AuthorizationKeys): AuthorizationKeys {
    const promoted = <Key>(keys: readonly Key[]): readonly Key[] => [...keys.slice(-1), ...keys.slice(0, -1)]
    return { signing: promoted(signing), encryption: promoted(encryption) }
  },
}

/** Runs `mcp-gatekit keys …`. The exit code is 1 if a file cannot be read or written. */
export const keysCommand: Command = defineCommand(HELP, async (args, { stdout, stderr }) => {
  checkUsage(args.positionals.length === 0, 'unexpected argument. Name the file with --out or --rotate')
  for (const name of ['out', ...Object.keys(CHANGES)])
    args.text(name, (path) => path !== '', 'be the path of a file')
  const [out, force] = [args.text('out'), args.has('force')]
  checkUsage(!force || out !== undefined, '--force requires --out')
  const [change, ...others] = (['rotate', 'stage', 'promote'] as const).filter((name) => args.has(name))
  checkUsage(others.length === 0, '--rotate, --stage, and --promote cannot be combined')
  const signing = args.number('keep-signing', 1, MAX_KEPT)
  const encryption = args.number('keep-encryption', 1, MAX_KEPT)
  const isKept = (signing ?? encryption) !== undefined
  checkUsage(!isKept || args.has('rotate'), '--keep-signing and --keep-encryption require --rotate')
  const before = change === undefined ? undefined : await readNamedKeys(args.text(change) as string)
  const kept = { signing: signing ?? 2, encryption: encryption ?? 5 }
  const keys = change === undefined || before === undefined ? createKeys() : CHANGES[change](before, kept)
  const text = `${JSON.stringify(keys)}\n`
  if (out !== undefined) await writeSecretFile(out, text, force)
  stdout.write(out === undefined ? text : `wrote ${out}\n`)
  if (change === 'rotate' && before !== undefined) stderr.write(removedText(before, keys))
  return 0
})

/** Returns the line about keys that were removed: a rotation adds one key to each list. */
function removedText(before: AuthorizationKeys, after: AuthorizationKeys): string {
  const signing = before.signing.length + 1 - after.signing.length
  const encryption = before.encryption.length + 1 - after.encryption.length
  const gone = [
    signing > 0 && counted(signing, 'old signing key'),
    encryption > 0 && counted(encryption, 'old encryption secret'),
  ].filter(Boolean)
  return gone.length === 0 ? '' : `mcp-gatekit: removed ${gone.join(' and ')}\n`
}

/** Reads keys that have names, so that others can be added. @throws {CommandFailure} */
async function readNamedKeys(file: string): Promise<AuthorizationKeys> {
  const keys = await readKeys(file)
  if (keys.signing.every(({ kid }) => kid !== undefined)) return keys
  throw new CommandFailure(
    `the signing key in ${file} has no kid. Add one, so that tokens name the key that signed them`,
  )
}

/** Reads the keys of a file. No error contains anything of the file. @throws {CommandFailure} */
export async function readKeys(file: string): Promise<AuthorizationKeys> {
  const text = await readFile(file, 'utf8').catch((error) => {
    throw new CommandFailure(`cannot read ${file} (${fileErrorCode(error)})`)
  })
  // The error of the parser contains a part of the file.
  const parsed = tryOrUndefined(() => ({ value: JSON.parse(text) as AuthorizationKeys }))
  if (parsed === undefined) throw new CommandFailure(`${file} does not contain valid JSON`)
  try {
    return resolveKeys(parsed.value)
  } catch (error) {
    if (!(error instanceof KitMcpConfigError)) throw error
    const [problem = ''] = error.message.split(/; received |\. /, 1)
    throw new CommandFailure(`${file} does not contain keys of authorizationFacade: ${problem}`)
  }
}

/**
 * Writes a file that only its owner can read. Replaces a file in one step, so that its old content is not lost if the write
 * fails. Leaves no partial file.
 * @throws {CommandFailure} if the file exists, is not a file, or cannot be written
 */
export async function writeSecretFile(file: string, text: string, replaces: boolean): Promise<void> {
  try {
    await (replaces ? replaceFile(file, text) : writeNewFile(file, text))
  } catch (error) {
    const code = fileErrorCode(error)
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
  } finally {
    await rm(temporary, { force: true }).catch(() => undefined)
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
