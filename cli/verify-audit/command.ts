import { createReadStream } from 'node:fs'
import { type TelemetryAuditVerification, verifyAudit } from '../../src/telemetry/audit/verify-audit.ts'
import { KitTelemetryError } from '../../src/telemetry/errors.ts'
import { VERSION } from '../../src/version.ts'
import type { CliContext } from '../cli-context.ts'
import { UsageError } from '../usage-error.ts'
import { codeOf, parseVerifyAuditArguments, VERIFY_AUDIT_HELP } from './arguments.ts'

/** Runs `mcp-gatekit verify-audit …`. Resolves with the exit code. @throws {UsageError} */
export async function verifyAuditCommand(
  argv: readonly string[],
  { stdout, env }: CliContext,
): Promise<number> {
  const command = await parseVerifyAuditArguments(argv, env)
  if (command.kind === 'help') {
    stdout.write(VERIFY_AUDIT_HELP)
    return 0
  }
  const result = await verify(command.file, command.secret)
  stdout.write(command.json ? jsonText(result) : resultText(result))
  return result.valid ? 0 : 1
}

async function verify(file: string, secret: string | Uint8Array): Promise<TelemetryAuditVerification> {
  try {
    return await verifyAudit(bytesOf(file), secret)
  } catch (error) {
    if (KitTelemetryError.is(error)) throw new UsageError('the secret must have at least 32 bytes')
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
