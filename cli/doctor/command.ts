import { type FileHandle, open } from 'node:fs/promises'
import { type CliContext, showsColors } from '../cli-context.ts'
import { Spinner } from '../spinner.ts'
import { UsageError } from '../usage-error.ts'
import { parseDoctorArguments } from './arguments.ts'
import { examine } from './doctor.ts'
import { htmlReport, textReport } from './report.ts'

/** Runs `mcp-gatekit doctor …`. Resolves with the exit code: 0, or 1 if a check fails. @throws {UsageError} */
export async function doctorCommand(
  argv: readonly string[],
  { stdout, stderr, env }: CliContext,
): Promise<number> {
  const command = parseDoctorArguments(argv, env)
  if ('text' in command) {
    stdout.write(command.text)
    return 0
  }
  const file = command.html === undefined ? undefined : await openFile(command.html)
  const spinner = new Spinner(command.json ? undefined : stderr)
  const print = (text: string): void => {
    spinner.clear()
    stderr.write(`${text}\n`)
  }
  try {
    const report = await examine({ ...command.options, print }, (title) => spinner.show(title))
    spinner.clear()
    stdout.write(
      command.json ? `${JSON.stringify(report, null, 2)}\n` : textReport(report, showsColors(stdout, env)),
    )
    await file?.writeFile(htmlReport(report)).catch(cannotWrite)
    return report.verdict === 'fail' ? 1 : 0
  } finally {
    spinner.clear()
    await file?.close()
  }
}

/** Creates or empties a file before the examination, which takes some time. @throws {UsageError} */
async function openFile(path: string): Promise<FileHandle> {
  return await open(path, 'w').catch(cannotWrite)
}

function cannotWrite(error: { readonly code?: string }): never {
  throw new UsageError(`the file of --html cannot be written (${error.code}). Use another path`)
}
