import { readArguments } from '../read-arguments.ts'
import { UsageError } from '../usage-error.ts'

export const KEYS_HELP: string = `Usage: mcp-gatekit keys [options]

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

/** The number of signing keys and encryption secrets that remain after a rotation. */
export interface KeptKeys {
  readonly signing: number
  readonly encryption: number
}

/** The action that the command line asks for. */
export type KeysCommand =
  | { readonly kind: 'help' }
  | {
      readonly kind: 'create' | 'rotate' | 'stage' | 'promote'
      /** The file with the keys to change. It is present unless keys are created. */
      readonly file: string | undefined
      readonly kept: KeptKeys
      /** The file to write. By default, the keys are printed. */
      readonly out: string | undefined
      readonly replaces: boolean
    }

const KEPT_SIGNING = 2
const KEPT_ENCRYPTION = 5
const MAX_KEPT = 100

/** Reads the arguments after `keys`. @throws {UsageError} */
export function parseKeysArguments(argv: readonly string[]): KeysCommand {
  const { help, values, positionals } = readArguments(argv, {
    out: { type: 'string' },
    force: { type: 'boolean' },
    rotate: { type: 'string' },
    stage: { type: 'string' },
    promote: { type: 'string' },
    'keep-signing': { type: 'string' },
    'keep-encryption': { type: 'string' },
  })
  if (help) return { kind: 'help' }
  if (positionals.length > 0)
    throw new UsageError('unexpected argument. Name the file with --out or --rotate')
  const { out, force, rotate, stage, promote } = values
  for (const [name, file] of Object.entries({ out, rotate, stage, promote }))
    if (file === '') throw new UsageError(`--${name} must be the path of a file`)
  if (force && out === undefined) throw new UsageError('--force requires --out')
  const [source, ...others] = (['rotate', 'stage', 'promote'] as const).filter(
    (name) => values[name] !== undefined,
  )
  if (others.length > 0) throw new UsageError('--rotate, --stage, and --promote cannot be combined')
  const keepSigning = readCount('keep-signing', values['keep-signing'])
  const keepEncryption = readCount('keep-encryption', values['keep-encryption'])
  if (rotate === undefined && (keepSigning ?? keepEncryption) !== undefined)
    throw new UsageError('--keep-signing and --keep-encryption require --rotate')
  const kept = { signing: keepSigning ?? KEPT_SIGNING, encryption: keepEncryption ?? KEPT_ENCRYPTION }
  const file = source === undefined ? undefined : values[source]
  return { kind: source ?? 'create', file, kept, out, replaces: force }
}

function readCount(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const count = Number(value)
  if (!/^\d{1,3}$/.test(value) || count < 1 || count > MAX_KEPT)
    throw new UsageError(`--${name} must be a number from 1 to ${MAX_KEPT}`)
  return count
}
