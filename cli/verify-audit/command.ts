import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { VERSION } from '../../src/base/version.ts'
import type { TelemetryAuditVerification } from '../../src/telemetry/audit/verify-audit.ts'
import { type Command, checkUsage, defineCommand, UsageError } from '../command.ts'

const HELP = `Usage: mcp-gatekit verify-audit <file> --secret-env <name>

Checks whether the lines of an audit log were changed, removed, added, repeated, or moved. The log was written by a
transport of withAudit(). The file - is the standard input.

Options:
  --secret-env <name>   environment variable that contains the secret of withAudit()
  --secret-file <file>  file that contains the secret; a line break at the end of a text is ignored
  --json                print the result as JSON
  -h, --help            print this help

Exit codes: 0 if the log is valid, 1 if it is not, 2 for an invalid command line or an unreadable file.
`

/** A line break after printable ASCII characters. */
const TEXT_WITH_LINE_BREAK = /^[ -~]+\r?\n$/

/** Runs `mcp-gatekit verify-audit …`. */
export const verifyAuditCommand: Command = defineCommand(HELP, async (args, { stdout, env }) => {
  const [file = '', ...others] = args.positionals
  checkUsage(file !== '', 'the file of the audit log is missing')
  checkUsage(others.length === 0, 'expected exactly one file. Quote arguments that contain spaces')
  const path = args.text('secret-file')
  checkUsage(!args.has('secret-env') || path === undefined, 'use only one of --secret-env and --secret-file')
  const secret = path === undefined ? args.fromEnv('secret-env', env) : await secretOfFile(path)
  checkUsage(secret !== undefined, 'the secret is missing. Use --secret-env or --secret-file')
  checkUsage(Buffer.byteLength(secret) >= 32, 'the secret must have at least 32 bytes')
  const result = await verify(file, secret)
  stdout.write(args.has('json') ? jsonText(result) : resultText(result))
  return result.valid ? 0 : 1
})

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
function codeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z_]{2,40}$/.test(code) ? ` (${code})` : ''
}

async function verify(file: string, secret: string | Uint8Array): Promise<TelemetryAuditVerification> {
  // The other commands need no telemetry.
  const { verifyAudit } = await import('../../src/telemetry/audit/verify-audit.ts')
  try {
    return await verifyAudit(bytesOf(file), secret)
  } catch (error) {
    throw new UsageError(`the file of the audit log cannot be read${codeOf(error)}`)
  }
}

/** Opens the file when the first byte is read, so that an error of the file is never without a reader. */
async function* bytesOf(file: string): AsyncGenerator<Uint8Array, void, undefined> {
  yield* file === '-' ? process.stdin : createReadStream(file)
}

function jsonText(result: TelemetryAuditVerification): string {
  return `${JSON.stringify({ schema: 1, tool: 'mcp-gatekit verify-audit', version: VERSION, ...result }, undefined, 2)}\n`
}

function resultText({ events, firstBreak }: TelemetryAuditVerification): string {
  const verified = `${events} event${events === 1 ? '' : 's'}`
  return firstBreak === undefined
    ? `valid: ${verified}\n`
    : `invalid: ${verified} verified before the first break\nsequence number ${firstBreak.seq}: ${firstBreak.reason}.\n`
}
