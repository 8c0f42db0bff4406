import { readFile } from 'node:fs/promises'
import { type AuthorizationKeys, createKeys, resolveKeys } from '../../src/authorization/keys.ts'
import { KitMcpConfigError } from '../../src/options/config-error.ts'
import { counted } from '../../src/options/counted.ts'
import { type Command, defineCommand } from '../read-arguments.ts'
import { CommandFailure, UsageError } from '../usage-error.ts'
import { writeSecretFile } from './secret-file.ts'

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

/** The number of signing keys and encryption secrets that remain after a rotation. */
interface KeptKeys {
  readonly signing: number
  readonly encryption: number
}

/** The ways to change keys: new ones in front, new ones at the end, or the last ones to the front. */
const CHANGES = {
  rotate(keys: AuthorizationKeys, kept: KeptKeys): AuthorizationKeys {
    const { signing, encryption } = createKeys()
    return {
      signing: [...signing, ...keys.signing].slice(0, kept.signing),
      encryption: [...encryption, ...keys.encryption].slice(0, kept.encryption),
    }
  },
  stage(keys: AuthorizationKeys): AuthorizationKeys {
    const { signing, encryption } = createKeys()
    return {
      signing: [...keys.signing, ...signing],
      encryption: [...keys.encryption, ...encryption],
    }
  },
  promote({ signing, encryption }: AuthorizationKeys): AuthorizationKeys {
    return {
      signing: [...signing.slice(-1), ...signing.slice(0, -1)],
      encryption: [...encryption.slice(-1), ...encryption.slice(0, -1)],
    }
  },
}

/** Runs `mcp-gatekit keys …`. The exit code is 1 if a file cannot be read or written. */
export const keysCommand: Command = defineCommand({
  help: HELP,
  options: {
    out: { type: 'string' },
    force: { type: 'boolean' },
    rotate: { type: 'string' },
    stage: { type: 'string' },
    promote: { type: 'string' },
    'keep-signing': { type: 'string' },
    'keep-encryption': { type: 'string' },
  },
  async run({ values, positionals }, { stdout, stderr }) {
    if (positionals.length > 0)
      throw new UsageError('unexpected argument. Name the file with --out or --rotate')
    const { out, force, rotate, stage, promote } = values
    for (const [name, file] of Object.entries({ out, rotate, stage, promote }))
      if (file === '') throw new UsageError(`--${name} must be the path of a file`)
    if (force && out === undefined) throw new UsageError('--force requires --out')
    const [change, ...others] = (['rotate', 'stage', 'promote'] as const).filter(
      (name) => values[name] !== undefined,
    )
    if (others.length > 0) throw new UsageError('--rotate, --stage, and --promote cannot be combined')
    const signing = readCount('keep-signing', values['keep-signing'])
    const encryption = readCount('keep-encryption', values['keep-encryption'])
    if (rotate === undefined && (signing ?? encryption) !== undefined)
      throw new UsageError('--keep-signing and --keep-encryption require --rotate')
    const before = change === undefined ? undefined : await readKeys(values[change] as string)
    const kept = { signing: signing ?? 2, encryption: encryption ?? 5 }
    const keys = change === undefined || before === undefined ? createKeys() : CHANGES[change](before, kept)
    const text = `${JSON.stringify(keys)}\n`
    if (out !== undefined) await writeSecretFile(out, text, force)
    stdout.write(out === undefined ? text : `wrote ${out}\n`)
    if (change === 'rotate' && before !== undefined) stderr.write(removedText(before, keys))
    return 0
  },
})

function readCount(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const count = Number(value)
  if (!/^\d{1,3}$/.test(value) || count < 1 || count > MAX_KEPT)
    throw new UsageError(`--${name} must be a number from 1 to ${MAX_KEPT}`)
  return count
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

/** Reads the keys of a file. No error contains anything of the file. @throws {CommandFailure} */
async function readKeys(file: string): Promise<AuthorizationKeys> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    throw new CommandFailure(`cannot read ${file} (${code})`)
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The error of the parser contains a part of the file.
    throw new CommandFailure(`${file} does not contain valid JSON`)
  }
  try {
    const keys = resolveKeys(value as AuthorizationKeys)
    if (keys.signing.every(({ kid }) => kid !== undefined)) return keys
  } catch (error) {
    if (!(error instanceof KitMcpConfigError)) throw error
    const [problem = ''] = error.message.split(/; received |\. /, 1)
    throw new CommandFailure(`${file} does not contain keys of authorizationFacade: ${problem}`)
  }
  throw new CommandFailure(
    `the signing key in ${file} has no kid. Add one, so that tokens name the key that signed them`,
  )
}
