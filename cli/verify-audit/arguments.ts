import { readFile } from 'node:fs/promises'
import { type OptionDefinitions, readArguments } from '../read-arguments.ts'
import { UsageError } from '../usage-error.ts'

export const VERIFY_AUDIT_HELP: string = `Usage: mcp-gatekit verify-audit <file> --secret-env <name>

Checks whether the lines of an audit log were changed, removed, added, repeated, or moved. The log was written by a
transport of withAudit(). The file - is the standard input.

Options:
  --secret-env <name>   environment variable that contains the secret of withAudit()
  --secret-file <file>  file that contains the secret; a line break at the end of a text is ignored
  --json                print the result as JSON
  -h, --help            print this help

Exit codes: 0 if the log is valid, 1 if it is not, 2 for an invalid command line or an unreadable file.
`

const OPTIONS = {
  'secret-env': { type: 'string' },
  'secret-file': { type: 'string' },
  json: { type: 'boolean' },
} as const satisfies OptionDefinitions

/** A line break after printable ASCII characters. */
const TEXT_WITH_LINE_BREAK = /^[ -~]+\r?\n$/

/** The action that the command line asks for. */
export type VerifyAuditCommand =
  | { readonly kind: 'help' }
  | {
      readonly kind: 'verify'
      /** The path of the log. `-` is the standard input. */
      readonly file: string
      readonly secret: string | Uint8Array
      readonly json: boolean
    }

/** Reads the arguments after `verify-audit`. @throws {UsageError} */
export async function parseVerifyAuditArguments(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<VerifyAuditCommand> {
  const { help, values, positionals } = readArguments(argv, OPTIONS)
  if (help) return { kind: 'help' }
  const [file, ...others] = positionals
  if (file === undefined || file === '') throw new UsageError('the file of the audit log is missing')
  if (others.length > 0)
    throw new UsageError('expected exactly one file. Quote arguments that contain spaces')
  const { 'secret-env': name, 'secret-file': path, json } = values
  if (name !== undefined && path !== undefined)
    throw new UsageError('use only one of --secret-env and --secret-file')
  if (name !== undefined) return { kind: 'verify', file, secret: secretOfEnvironment(name, env), json }
  if (path !== undefined) return { kind: 'verify', file, secret: await secretOfFile(path), json }
  throw new UsageError('the secret is missing. Use --secret-env or --secret-file')
}

function secretOfEnvironment(name: string, env: Readonly<Record<string, string | undefined>>): string {
  const secret = Object.hasOwn(env, name) ? env[name] : undefined
  if (secret !== undefined && secret !== '') return secret
  throw new UsageError('--secret-env must be the name of an environment variable that is set')
}

async function secretOfFile(path: string): Promise<string | Uint8Array> {
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (error) {
    throw new UsageError(`--secret-file must be a file that can be read${codeOf(error)}`)
  }
  const text = bytes.toString('latin1')
  return TEXT_WITH_LINE_BREAK.test(text) ? text.replace(/\r?\n$/, '') : bytes
}

/** Returns the code of an error of the file system, such as ` (ENOENT)`. */
export function codeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z_]{2,40}$/.test(code) ? ` (${code})` : ''
}
