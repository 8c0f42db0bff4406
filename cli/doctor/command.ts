import { type FileHandle, open } from 'node:fs/promises'
import { type Command, defineCommand, type Output, showsColors, UsageError } from '../command.ts'
import { doctorOptions, HELP } from './arguments.ts'
import { CHECKS } from './checks.ts'
import { examine } from './doctor.ts'
import { htmlReport, textReport } from './report.ts'

/** Runs `mcp-gatekit doctor …`. The exit code is 1 if a check fails. */
export const doctorCommand: Command = defineCommand(HELP, async (args, { stdout, stderr, env }) => {
  if (args.has('list')) {
    for (const { id, title } of CHECKS) stdout.write(`${id.padEnd(32)}${title}\n`)
    return 0
  }
  const options = doctorOptions(args, env)
  const [isJson, html] = [args.has('json'), args.text('html')]
  const file = html === undefined ? undefined : await openFile(html)
  const steps = stepsOn(isJson ? undefined : stderr)
  const print = (text: string): void => {
    steps.clear()
    stderr.write(`${text}\n`)
  }
  try {
    const report = await examine({ ...options, print }, (title) => steps.show(title))
    steps.clear()
    const json = (): string => `${JSON.stringify(report, null, 2)}\n`
    stdout.write(isJson ? json() : textReport(report, showsColors(stdout, env)))
    await file?.writeFile(htmlReport(report)).catch(cannotWrite)
    return report.verdict === 'fail' ? 1 : 0
  } finally {
    steps.clear()
    await file?.close()
  }
})

/** Creates or empties a file before the examination, which takes some time. @throws {UsageError} */
async function openFile(path: string): Promise<FileHandle> {
  return await open(path, 'w').catch(cannotWrite)
}

function cannotWrite(error: { readonly code?: string }): never {
  throw new UsageError(`the file of --html cannot be written (${error.code}). Use another path`)
}

const CLEAR_LINE = '\r\x1b[2K'

/** Returns a line on a terminal that shows the current step. Writes nothing if the output is not a terminal. */
function stepsOn(output: Output | undefined) {
  const write = (text: string): void => void (output?.isTTY === true && output.write(`${CLEAR_LINE}${text}`))
  return { show: (step: string): void => write(`… ${step}`), clear: (): void => write('') }
}
