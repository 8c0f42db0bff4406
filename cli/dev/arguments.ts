import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { nearestName } from '../../src/options/nearest-name.ts'
import { UsageError } from '../usage-error.ts'
import type { DevOptions } from './dev.ts'
import type { Port } from './loopback.ts'

const CONSOLE_PORT = 4983
const AUTH_PORT = 4984
const TOKEN_SECONDS = 3600
const MAX_TOKEN_SECONDS = 86_400

export const DEV_HELP: string = `Usage: mcp-gatekit dev [options] <file> [arguments of the server]

Runs an MCP server with a page beside it that shows what its gate decides and why, and with an authorization
server to sign in at, all on 127.0.0.1. The server shows what its telemetry is told with one line:

  .addTransport(DevConsoleTransportAdapter.create())

Options:
  --port <port>            of the page (default: ${CONSOLE_PORT}, or a free one)
  --auth-port <port>       of the authorization server (default: ${AUTH_PORT}, or a free one)
  --no-auth                no authorization server
  --token-seconds <n>      how long its access tokens are good for (default: ${TOKEN_SECONDS})
  --watch                  restart the server when one of its files changes (node --watch)
  --help

The server finds in its environment:
  MCP_GATEKIT_DEV_URL      where the line above sends events
  MCP_GATEKIT_ISSUER       the authorization server, for issuer of the gate and its verifier

Exit codes: that of the server, 0 when it was stopped with Ctrl-C, 2 for a wrong command line.
`

const OPTIONS = {
  port: { type: 'string' },
  'auth-port': { type: 'string' },
  'no-auth': { type: 'boolean' },
  'token-seconds': { type: 'string' },
  watch: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const satisfies ParseArgsConfig['options']

/** What the command line asks for. */
export type DevCommand = { readonly kind: 'help' } | { readonly kind: 'run'; readonly options: DevOptions }

/** Reads the arguments behind `dev`; those behind the file are the server's. @throws {UsageError} */
export function parseDevArguments(argv: readonly string[]): DevCommand {
  const at = fileAt(argv)
  const values = readOptions(argv.slice(0, at))
  if (values.help === true) return { kind: 'help' }
  const [given, ...rest] = argv.slice(at)
  if (given === undefined) throw new UsageError('give the file of your server: mcp-gatekit dev server.ts')
  const file = resolve(given)
  if (!existsSync(file) || !statSync(file).isFile()) throw new UsageError(`there is no file ${given}`)
  if (values['no-auth'] === true) {
    for (const name of ['auth-port', 'token-seconds'] as const)
      if (values[name] !== undefined) throw new UsageError(`--${name} is of no use with --no-auth`)
  }
  return {
    kind: 'run',
    options: {
      file,
      name: given,
      // What separates the file from its arguments in other programs does so here as well.
      serverArguments: rest[0] === '--' ? rest.slice(1) : rest,
      port: readPort('port', values.port, CONSOLE_PORT),
      authorization:
        values['no-auth'] === true
          ? undefined
          : {
              port: readPort('auth-port', values['auth-port'], AUTH_PORT),
              tokenSeconds: readSeconds(values['token-seconds']),
            },
      watch: values.watch === true,
    },
  }
}

/** Where the options end: at the first argument that is neither one nor the value of one. */
function fileAt(argv: readonly string[]): number {
  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index] as string
    if (argument === '--' || !argument.startsWith('-')) return argument === '--' ? index + 1 : index
    const option = OPTIONS[argument.replace(/^--/, '') as keyof typeof OPTIONS]
    if (option?.type === 'string') index++
  }
  return argv.length
}

function readOptions(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true, strict: true }).values
  } catch (error) {
    throw usageErrorOf(error as Error & { code?: string }, argv)
  }
}

/** In our own words: Node's messages have several lines. */
function usageErrorOf({ code, message }: Error & { code?: string }, argv: readonly string[]): UsageError {
  const known = Object.keys(OPTIONS)
  if (code !== 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const named = /--([a-z-]+)/.exec(message)?.[1] as keyof typeof OPTIONS | undefined
    if (named === undefined) return new UsageError('the options cannot be read: see --help')
    return new UsageError(
      OPTIONS[named].type === 'boolean' ? `--${named} takes no value` : `--${named} needs a value`,
    )
  }
  const unknown = argv
    .map((argument) => argument.split('=', 1)[0] as string)
    .find((argument) => /^--?[a-z]/i.test(argument) && !known.includes(argument.replace(/^--/, '')))
  const meant = unknown === undefined ? undefined : nearestName(unknown.replace(/^-+/, ''), known)
  return new UsageError(
    `there is no option ${unknown ?? 'like that'}${meant === undefined ? ': see --help' : `. Did you mean --${meant}?`}`,
  )
}

/** @param otherwise a port that need not be had */
function readPort(option: string, value: string | undefined, otherwise: number): Port {
  if (value === undefined) return { number: otherwise, orAnother: true }
  const number = Number(value)
  if (!/^\d{1,5}$/.test(value) || number > 65_535)
    throw new UsageError(`--${option} takes a number from 0 to 65535`)
  return { number, orAnother: false }
}

function readSeconds(value: string | undefined): number {
  if (value === undefined) return TOKEN_SECONDS
  const seconds = Number(value)
  if (!/^\d{1,5}$/.test(value) || seconds < 1 || seconds > MAX_TOKEN_SECONDS)
    throw new UsageError(`--token-seconds takes a whole number from 1 to ${MAX_TOKEN_SECONDS}`)
  return seconds
}
