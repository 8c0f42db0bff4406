import { readArguments } from '../read-arguments.ts'
import { UsageError } from '../usage-error.ts'

export const EXPLAIN_HELP: string = `Usage: mcp-gatekit explain [code]

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

/** The action that the command line asks for. */
export type ExplainCommand =
  | { readonly kind: 'help' }
  | { readonly kind: 'list' }
  | { readonly kind: 'explain'; readonly code: string }

/** Reads the arguments after `explain`. @throws {UsageError} */
export function parseExplainArguments(argv: readonly string[]): ExplainCommand {
  const { help, positionals } = readArguments(argv, {})
  if (help) return { kind: 'help' }
  const [code, ...others] = positionals
  if (others.length > 0) throw new UsageError('expected one code. Run mcp-gatekit explain for a list')
  return code === undefined ? { kind: 'list' } : { kind: 'explain', code }
}
