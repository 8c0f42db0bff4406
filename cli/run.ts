import { nearestName } from '../src/options/nearest-name.ts'
import { VERSION } from '../src/version.ts'
import { devCommand } from './dev/command.ts'
import { doctorCommand } from './doctor/command.ts'
import { initCommand } from './init/command.ts'
import type { CliContext } from './output.ts'
import { UsageError } from './usage-error.ts'

const HELP = `Usage: mcp-gatekit <command>

Commands:
  dev <file>      run an MCP server with a console and an authorization server beside it
  doctor <url>    look at a running MCP server from outside, and say how to hint it
  init [folder]   write a small protected MCP server, with tests

mcp-gatekit <command> --help says more. --version prints the version.
`

const COMMANDS: Readonly<Record<string, (argv: readonly string[], around: CliContext) => Promise<number>>> = {
  dev: devCommand,
  doctor: doctorCommand,
  init: initCommand,
}

/** Runs a command line. Resolves with the exit code: 2 when it cannot be followed, which is told in one line. */
export async function run(argv: readonly string[], around: CliContext): Promise<number> {
  const [name, ...rest] = argv
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    around.stdout.write(HELP)
    return name === undefined ? 2 : 0
  }
  if (name === '--version') {
    around.stdout.write(`${VERSION}\n`)
    return 0
  }
  try {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
    if (command !== undefined) return await command(rest, around)
    const meant = nearestName(name, Object.keys(COMMANDS))
    throw new UsageError(
      `there is no such command: ${meant === undefined ? 'see --help' : `did you mean ${meant}?`}`,
    )
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    around.stderr.write(`mcp-gatekit: ${error.message}\n`)
    return 2
  }
}
