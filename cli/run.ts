import { nearestName } from '../src/base/options/nearest-name.ts'
import { VERSION } from '../src/base/version.ts'
import { type CliContext, type Command, UsageError } from './command.ts'
import { devCommand } from './dev/command.ts'
import { doctorCommand } from './doctor/command.ts'
import { explainCommand } from './explain/command.ts'
import { grantsCommand } from './grants/command.ts'
import { initCommand } from './init/command.ts'
import { keysCommand } from './keys/command.ts'
import { verifyAuditCommand } from './verify-audit/command.ts'

const HELP = `Usage: mcp-gatekit <command>

Commands:
  dev <file>           run an MCP server with a local authorization server and a console
  doctor <url>         check a running MCP server from the outside and suggest fixes
  explain [code]       print the help for an error code or an option
  grants <action>      list or end the access of users and clients to a facade
  init [folder]        create a small protected MCP server with tests
  keys                 create or rotate the keys of an authorization server
  verify-audit <file>  check whether lines of an audit log were changed or removed

Options:
  -h, --help           print this help
  --version            print the version

Run mcp-gatekit <command> --help for the options of a command.
`

const COMMANDS: Readonly<Record<string, Command>> = {
  dev: devCommand,
  doctor: doctorCommand,
  explain: explainCommand,
  grants: grantsCommand,
  init: initCommand,
  keys: keysCommand,
  'verify-audit': verifyAuditCommand,
}

/** Runs a command line. Resolves with the exit code, which is 2 if the command line is invalid, and 1 if the command has failed. */
export async function run(argv: readonly string[], context: CliContext): Promise<number> {
  const [name, ...rest] = argv
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    context.stdout.write(HELP)
    return name === undefined ? 2 : 0
  }
  if (name === '--version') {
    context.stdout.write(`${VERSION}\n`)
    return 0
  }
  try {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
    if (command !== undefined) return await command(rest, context)
    const nearest = nearestName(name, Object.keys(COMMANDS))
    throw new UsageError(
      `unknown command. ${nearest === undefined ? 'Run mcp-gatekit --help' : `Did you mean ${nearest}?`}`,
    )
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    context.stderr.write(`mcp-gatekit: ${error.message}\n`)
    return error.exitCode
  }
}
