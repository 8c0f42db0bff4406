import { type FileHandle, open } from 'node:fs/promises'
import { nearestName } from '../../src/base/options/nearest-name.ts'
import { isLoopbackHostname } from '../../src/base/options/option-checks.ts'
import { isRecord } from '../../src/base/options/value-kinds.ts'
import { problemWithUrl } from '../../src/mcp/events/webhooks/callback-url.ts'
import { readBearerToken } from '../../src/oauth/authorization-header.ts'
import {
  type Arguments,
  type CliContext,
  type Command,
  checkUsage,
  defineCommand,
  type Output,
  showsColors,
  UsageError,
} from '../command.ts'
import { CHECKS } from './checks.ts'
import { CLIENT_IDS, type ClientId } from './clients.ts'
import { examine } from './doctor.ts'
import type { ExaminationOptions } from './examination.ts'
import { parseJson } from './http-exchange.ts'
import { htmlReport, textReport } from './report.ts'
import { type JsonObject, urlOf } from './values.ts'

const DEFAULT_TIMEOUT_SECONDS = 10
const MAX_TIMEOUT_SECONDS = 600
const DEFAULT_EVENTS_PORT = 8787

const HELP = `Usage: mcp-gatekit doctor <url> [options]

Checks a running MCP server from the outside, as a client would. Reports what is wrong and how to fix it.
No tool is called unless you name one with --call.

Options:
  --token <token>               access token to use
  --token-env <name>            environment variable that contains the access token
  --login                       sign in to get a token; prints a URL to open in a browser
  --client-id <id>              with --login: ID of a registered client (default: register a new client)
  --client-secret-env <name>    with --client-id: environment variable that contains the secret of the client;
                                requires --issuer
  --issuer <url>                with --login: authorization server to sign in to; only it receives the secret
  --redirect-port <port>        with --login: port of the redirect to 127.0.0.1 (default: a free one)
  --under-scoped-token-env <name>
                                environment variable that contains a token without a required scope
  --other-token-env <name>      environment variable that contains a token of a second user, who must not be able to use
                                the session of the first
  --call <tool>                 call this tool once
  --arguments <json>            with --call: arguments of the tool (default: {})
  --origin <origin>             origin of a web page that must be able to use the server,
                                such as https://app.example.com
  --as <client>                 replay the discovery of a client, and treat its known problems as failures:
                                ${CLIENT_IDS.join(', ')}
  --register                    register clients at the authorization servers to check how they respond
  --events <url>                subscribe with a webhook at this https URL, which must lead to the port below,
                                as with a tunnel, and wait 60 seconds for an event
  --events-port <port>          with --events: port on 127.0.0.1 for the messages (default: ${DEFAULT_EVENTS_PORT})
  --event <name>                with --events: event type (default: the first one without required arguments)
  --ignore <check>              ignore the result of a check; can be repeated
  --list                        list all checks and exit
  --timeout <seconds>           timeout of each request (default: ${DEFAULT_TIMEOUT_SECONDS})
  --json                        print the report as JSON
  --html <file>                 also write the report to this file, as one HTML page
  -h, --help                    print this help

Exit codes: 0 if no check fails (there may be warnings), 1 if a check fails, 2 for an invalid command line.
`

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

/** The options that need another one. */
const NEEDED: readonly (readonly [name: string, needed: string, reason?: string])[] = [
  ['client-id', 'login'],
  ['client-secret-env', 'login'],
  ['issuer', 'login'],
  ['redirect-port', 'login'],
  ['client-secret-env', 'client-id'],
  ['client-secret-env', 'issuer', '. Only that authorization server receives the secret'],
  ['arguments', 'call'],
  ['events-port', 'events'],
  ['event', 'events'],
]

const isGiven = (text: string): boolean => text !== ''

/** Returns the options of the command line. @throws {UsageError} without values, because any of them can be a token */
function doctorOptions(args: Arguments, env: CliContext['env']): Omit<ExaminationOptions, 'print'> {
  const [url, ...others] = args.positionals
  checkUsage(
    url !== undefined,
    'the URL of an MCP server is missing. Example: mcp-gatekit doctor https://example.com/mcp',
  )
  checkUsage(others.length === 0, 'expected exactly one URL. Quote arguments that contain spaces')
  const tokenOptions = ['token', 'token-env', 'login'].filter((name) => args.has(name))
  const given = tokenOptions.map((name) => `--${name}`).join(' and ')
  checkUsage(tokenOptions.length < 2, `use only one of ${given}`)
  for (const [name, needed, reason = ''] of NEEDED)
    checkUsage(!args.has(name) || args.has(needed), `--${name} requires --${needed}${reason}`)
  args.text('html', isGiven, 'be the name of a file, such as report.html')
  const port = args.port('events-port') ?? DEFAULT_EVENTS_PORT
  checkUsage(port !== 0, '--events-port must not be 0: the URL of --events leads to one port')
  const readTokenFromEnv = (option: string): string | undefined =>
    readToken(option, args.fromEnv(option, env))
  const login = {
    clientId: args.text('client-id'),
    clientSecret: args.fromEnv('client-secret-env', env),
    issuer: args.text(
      'issuer',
      isSafeIssuer,
      'be the https URL of an authorization server, without a user name, query, or fragment',
    ),
    redirectPort: args.port('redirect-port') ?? 0,
  }
  const isObject = (text: string): boolean => isRecord(parseJson(text))
  const object = args.text('arguments', isObject, `be a JSON object, such as '{"name":"Ada"}'`)
  const timeout = args.text('timeout', isTimeout, `be a number of seconds, at most ${MAX_TIMEOUT_SECONDS}`)
  const isClient = (text: string): boolean => CLIENT_IDS.some((id) => id === text)
  const events = args.text('events')
  return {
    url: readUrl(url),
    token: readToken('token', args.text('token')) ?? readTokenFromEnv('token-env'),
    underScopedToken: readTokenFromEnv('under-scoped-token-env'),
    otherToken: readTokenFromEnv('other-token-env'),
    login: args.has('login') ? login : undefined,
    call: args.text('call', isGiven, 'be the name of a tool'),
    callArguments: parseJson(object ?? '{}') as JsonObject,
    origin: args.text(
      'origin',
      isOrigin,
      'be the scheme, host, and port of a web page, such as https://app.example.com',
    ),
    timeoutMs: Math.round(Number(timeout ?? DEFAULT_TIMEOUT_SECONDS) * 1000),
    as: args.text('as', isClient, `be one of ${CLIENT_IDS.join(', ')}`) as ClientId | undefined,
    register: args.has('register'),
    webhook:
      events === undefined ? undefined : { url: readCallback(events), port, event: args.text('event') },
    ignore: args.all('ignore').map(readCheck),
  }
}

function readUrl(text: string): URL {
  const url = urlOf(text)
  checkUsage(url !== undefined, 'the URL must be an absolute URL, such as https://example.com/mcp')
  checkUsage(/^https?:$/.test(url.protocol), 'the URL must begin with https:// or http://')
  checkUsage(
    url.username === '' && url.password === '',
    'the URL must not contain a user name or password. Pass a token with --token-env',
  )
  checkUsage(!text.includes('#'), 'the URL must not contain a fragment')
  return url
}

function isSafeIssuer(text: string): boolean {
  const url = urlOf(text)
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHostname(url.hostname))
  return isSafe && url?.username === '' && url.password === '' && !/[?#]/.test(text)
}

function isOrigin(text: string): boolean {
  const url = urlOf(text)
  return url?.origin === text && /^https?:$/.test(url.protocol)
}

function isTimeout(text: string): boolean {
  const seconds = Number(text)
  return /^\d+(?:\.\d+)?$/.test(text) && seconds >= 0.001 && seconds <= MAX_TIMEOUT_SECONDS
}

function readToken(option: string, value: string | undefined): string | undefined {
  checkUsage(
    value === undefined || readBearerToken(`Bearer ${value}`).kind === 'token',
    `--${option} must be a bearer token (RFC 6750 §2.1). Pass it without "Bearer" and without quotes`,
  )
  return value
}

function readCallback(text: string): URL {
  const problem = problemWithUrl(text, () => true, true)
  checkUsage(problem === undefined, `--events ${problem}, such as the URL of a tunnel to this machine`)
  return new URL(text)
}

function readCheck(id: string): string {
  const ids = CHECKS.map((check) => check.id)
  const nearest = nearestName(id, ids)
  const advice = nearest === undefined ? 'Run mcp-gatekit doctor --list' : `Did you mean ${nearest}?`
  checkUsage(ids.includes(id), `--ignore must be the ID of a check. ${advice}`)
  return id
}
