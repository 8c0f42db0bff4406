import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import {
  type Arguments,
  boldOn,
  type CliContext,
  type Command,
  checkUsage,
  defineCommand,
} from '../command.ts'
import type { Port } from '../loopback.ts'
import type { Connect } from './connect-commands.ts'
import { type Dev, type DevOptions, startDev } from './dev.ts'

const CONSOLE_PORT = 4983
const AUTH_PORT = 4984
const TOKEN_SECONDS = 3600
const MAX_TOKEN_SECONDS = 86_400

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export const HELP = `Usage: mcp-gatekit dev [options] <file> [arguments of the server]

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

/**
 * Runs `mcp-gatekit dev …` until the server exits or the user stops it. The exit code is that of the server, or 0 if the user
 * stopped it.
 */
export const devCommand: Command = defineCommand(HELP, runDev, true)

async function runDev(args: Arguments, { stderr, env }: CliContext): Promise<number> {
  const options = devOptions(args)
  const warn = (text: string): void => void stderr.write(`mcp-gatekit dev: ${text}\n`)
  const connects: DevOptions['connects'] = (connect, curl) => void stderr.write(connectText(connect, curl))
  const dev = await startDev({ ...options, warn, connects })
  try {
    // On stderr, because the output of the server can be piped.
    stderr.write(banner(dev, options, boldOn(stderr, env)))
    return await runServer(dev, env)
  } finally {
    await dev.close()
  }
}

/** Returns the options of a command line. The arguments after the file are the server's. @throws {UsageError} */
export function devOptions(args: Arguments): DevOptions {
  const [given, ...rest] = args.positionals
  checkUsage(given !== undefined, 'the file of your server is missing. Example: mcp-gatekit dev server.ts')
  const file = resolve(given)
  checkUsage(existsSync(file) && statSync(file).isFile(), `${given} is not a file`)
  const isAlone = args.has('no-auth')
  for (const name of ['auth-port', 'token-seconds'])
    checkUsage(!isAlone || !args.has(name), `--${name} cannot be combined with --no-auth`)
  const authorization = {
    port: portOr(AUTH_PORT, args.port('auth-port')),
    tokenSeconds: args.number('token-seconds', 1, MAX_TOKEN_SECONDS) ?? TOKEN_SECONDS,
  }
  return {
    file,
    name: given,
    // `--` can also separate the arguments of the server from its file.
    serverArguments: rest[0] === '--' ? rest.slice(1) : rest,
    port: portOr(CONSOLE_PORT, args.port('port')),
    authorization: isAlone ? undefined : authorization,
    watch: args.has('watch'),
  }
}

function portOr(fallback: number, given: number | undefined): Port {
  return { number: given ?? fallback, orAnother: given === undefined }
}

async function runServer(dev: Dev, env: CliContext['env']): Promise<number> {
  const server = dev.run(env)
  let stopped = false
  const stop = (signal: NodeJS.Signals): void => {
    // The second signal ends the server at once.
    if (stopped) void server.stop('SIGKILL')
    // Ctrl-C in a terminal already reaches the server. Many servers exit immediately on a second SIGINT.
    else void server.stop(signal === 'SIGINT' && process.stdin.isTTY ? undefined : signal)
    stopped = true
  }
  for (const signal of SIGNALS) process.on(signal, stop)
  try {
    const { code } = await server.ended
    return stopped ? 0 : (code ?? 1)
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop)
  }
}

function connectText({ url, commands }: Connect, curl: string | undefined): string {
  const lines = commands.map(({ client, command }) => `  ${client.padEnd(22)}${command}\n`)
  const call =
    curl === undefined ? '' : `  Call a tool with a token of the local authorization server:\n\n${curl}\n\n`
  return `\n  MCP URL               ${url}\n${lines.join('')}\n${call}`
}

function banner(dev: Dev, { name }: DevOptions, bold: (text: string) => string): string {
  const issuer =
    dev.issuer ??
    (dev.lacksOidcProvider
      ? 'not started, because oidc-provider is not installed. Run: npm install --save-dev oidc-provider'
      : 'not started (--no-auth)')
  return `
  ${bold('mcp-gatekit dev')}

  console               ${bold(dev.url)}
  authorization server  ${issuer}
  server                ${name}

`
}
