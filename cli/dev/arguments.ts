import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { readArguments } from '../read-arguments.ts'
import { UsageError } from '../usage-error.ts'
import type { DevOptions } from './dev.ts'
import type { Port } from './loopback.ts'

const CONSOLE_PORT = 4983
const AUTH_PORT = 4984
const TOKEN_SECONDS = 3600
const MAX_TOKEN_SECONDS = 86_400

export const DEV_HELP: string = `Usage: mcp-gatekit dev [options] <file> [arguments of the server]

Runs an MCP server together with a local authorization server and a console, which is a web page that shows
what the gate decides and why. Everything listens on 127.0.0.1.
To send the server's events to the console, add this line to its telemetry:

  .addTransport(DevConsoleTransportAdapter.create())

Options:
  --port <port>            port of the console (default: ${CONSOLE_PORT}, or a free one)
  --auth-port <port>       port of the authorization server (default: ${AUTH_PORT}, or a free one)
  --no-auth                start no authorization server
  --token-seconds <n>      lifetime of access tokens in seconds (default: ${TOKEN_SECONDS})
  --watch                  restart the server when its files change (node --watch)
  -h, --help               print this help

Environment variables of the server:
  MCP_GATEKIT_DEV_URL      URL that receives the events; the transport above reads it
  MCP_GATEKIT_ISSUER       URL of the authorization server; use it as issuer of the gate and of the verifier

Exit codes: the exit code of the server, 0 if you stopped it with Ctrl-C, 2 for an invalid command line.
`

/** The action that the command line asks for. */
export type DevCommand = { readonly kind: 'help' } | { readonly kind: 'run'; readonly options: DevOptions }

/** Reads the arguments after `dev`. Those after the file are the server's. @throws {UsageError} */
export function parseDevArguments(argv: readonly string[]): DevCommand {
  const { help, values, positionals } = readArguments(
    argv,
    {
      port: { type: 'port' },
      'auth-port': { type: 'port' },
      'no-auth': { type: 'boolean' },
      'token-seconds': { type: 'string' },
      watch: { type: 'boolean' },
    },
    { stopsAtPositional: true },
  )
  if (help) return { kind: 'help' }
  const [given, ...rest] = positionals
  if (given === undefined)
    throw new UsageError('the file of your server is missing. Example: mcp-gatekit dev server.ts')
  const file = resolve(given)
  if (!existsSync(file) || !statSync(file).isFile()) throw new UsageError(`${given} is not a file`)
  if (values['no-auth']) {
    for (const name of ['auth-port', 'token-seconds'] as const)
      if (values[name] !== undefined) throw new UsageError(`--${name} cannot be combined with --no-auth`)
  }
  return {
    kind: 'run',
    options: {
      file,
      name: given,
      // `--` can also separate the arguments of the server from its file.
      serverArguments: rest[0] === '--' ? rest.slice(1) : rest,
      port: portOr(CONSOLE_PORT, values.port),
      authorization: values['no-auth']
        ? undefined
        : {
            port: portOr(AUTH_PORT, values['auth-port']),
            tokenSeconds: readSeconds(values['token-seconds']),
          },
      watch: values.watch,
    },
  }
}

function portOr(fallback: number, given: number | undefined): Port {
  return { number: given ?? fallback, orAnother: given === undefined }
}

function readSeconds(value: string | undefined): number {
  if (value === undefined) return TOKEN_SECONDS
  const seconds = Number(value)
  if (!/^\d{1,5}$/.test(value) || seconds < 1 || seconds > MAX_TOKEN_SECONDS)
    throw new UsageError(`--token-seconds must be a whole number from 1 to ${MAX_TOKEN_SECONDS}`)
  return seconds
}
