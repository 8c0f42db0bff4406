import { boldOn, type Command, checkUsage, defineCommand, UsageError } from '../command.ts'
import { type EntryKind, readErrorReference } from './error-reference.ts'

const HELP = `Usage: mcp-gatekit explain [code]

Prints the help for an error code or for an option. It works offline. Without a code, it lists all codes.

A code is one of:
  an error code              MCP_CONFIG_MISSING_OPTION, TELEMETRY_UNKNOWN_EVENT
  an option                  oauth-issuer, oauth.issuer, oauth.dpop.nonce
  a function                 jwtVerifier, withSampling
  a class or HTTP status     KitToolError, 403

Upper and lower case are the same.

Options:
  -h, --help           print this help

Exit codes: 0 if the help was printed, 2 for an unknown code or an invalid command line.
`

const GROUPS: readonly (readonly [EntryKind, title: string])[] = [
  ['error code', 'Error codes'],
  ['option', 'Options, and functions that take options'],
  ['other', 'Error classes and HTTP responses'],
]

/** Runs `mcp-gatekit explain …`. */
export const explainCommand: Command = defineCommand(HELP, async (args, { stdout, env }) => {
  const [code, ...others] = args.positionals
  checkUsage(others.length === 0, 'expected one code. Run mcp-gatekit explain for a list')
  const bold = boldOn(stdout, env)
  stdout.write(code === undefined ? listText(bold) : entryText(code, bold))
  return 0
})

function listText(bold: (text: string) => string): string {
  const { entries } = readErrorReference()
  const groups = GROUPS.map(([kind, title]) => {
    const codes = entries.filter((entry) => entry.kind === kind).map(({ code }) => `  ${code}\n`)
    return `${bold(`${title}:`)}\n${codes.join('')}\n`
  })
  return `${groups.join('')}Run mcp-gatekit explain <code> for the help of one of them.\n`
}

/** @throws {UsageError} if the code is unknown */
function entryText(code: string, bold: (text: string) => string): string {
  const reference = readErrorReference()
  const entry = reference.find(code)
  if (entry === undefined) {
    const nearest = reference.nearest(code)
    throw new UsageError(
      `unknown code. ${nearest === undefined ? 'Run mcp-gatekit explain for a list' : `Did you mean ${nearest}?`}`,
    )
  }
  const { heading, body, children } = entry
  const more = `\nFor details, run mcp-gatekit explain with one of: ${children.join(', ')}\n`
  return `${bold(heading)}\n\n${body}\n${children.length === 0 ? '' : more}`
}
