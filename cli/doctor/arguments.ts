import { type ParseArgsConfig, parseArgs } from 'node:util'
import { readBearerToken } from '../../src/oauth/authorization-header.ts'
import { nearestName } from '../../src/options/nearest-name.ts'
import { isLoopbackHostname } from '../../src/options/option-checks.ts'
import type { CliContext } from '../output.ts'
import { UsageError } from '../usage-error.ts'
import { CHECK_GROUPS } from './checks.ts'
import type { ExaminationOptions } from './examination.ts'

const DEFAULT_TIMEOUT_SECONDS = 10
const MAX_TIMEOUT_SECONDS = 600

export const DOCTOR_HELP: string = `Usage: mcp-gatekit doctor <url> [options]

Looks at a running MCP server from outside, as a client would, and says what is wrong with it and how to hint it.
It calls no tool, unless it is told to.

Options:
  --token <token>               a token to be let in with
  --token-env <name>            the same, from an environment variable
  --login                       sign in instead: prints an address to open
  --client-id <id>              for --login, where the authorization server registers no clients by itself
  --client-secret-env <name>    environment variable with the secret of that client, where it has one; needs --issuer
  --issuer <url>                for --login: the authorization server to sign in at; the secret goes to no other
  --redirect-port <port>        for --login: port of the redirect to 127.0.0.1 (default: a free one)
  --under-scoped-token-env <name>
                                environment variable with a token that lacks a scope
  --call <tool>                 call this tool once
  --arguments <json>            what to call it with (default: {})
  --origin <origin>             a web page whose client must work, such as https://app.example.com
  --ignore <check>              let a check not count; may be given several times
  --list                        list the checks, and do nothing
  --timeout <seconds>           for each request (default: ${DEFAULT_TIMEOUT_SECONDS})
  --json                        print the report as JSON
  --help

Exit codes: 0 when nothing fails (there may be warnings), 1 when something does, 2 for a wrong command line.
`

const OPTIONS = {
  token: { type: 'string' },
  'token-env': { type: 'string' },
  login: { type: 'boolean' },
  'client-id': { type: 'string' },
  'client-secret-env': { type: 'string' },
  issuer: { type: 'string' },
  'redirect-port': { type: 'string' },
  'under-scoped-token-env': { type: 'string' },
  call: { type: 'string' },
  arguments: { type: 'string' },
  origin: { type: 'string' },
  ignore: { type: 'string', multiple: true },
  list: { type: 'boolean' },
  timeout: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
} as const satisfies ParseArgsConfig['options']

type OptionName = keyof typeof OPTIONS

/** What the command line asks for. */
export type DoctorCommand =
  | { readonly kind: 'help' }
  | { readonly kind: 'list' }
  | {
      readonly kind: 'examine'
      readonly json: boolean
      readonly options: Omit<ExaminationOptions, 'tell'>
    }

/** Reads the arguments behind `doctor`. @throws {UsageError}, which quotes no value: any of them could be a token */
export function parseDoctorArguments(argv: readonly string[], env: CliContext['env']): DoctorCommand {
  const { values, positionals } = readArguments(argv)
  if (values.help === true) return { kind: 'help' }
  if (values.list === true) return { kind: 'list' }
  const [url, ...others] = positionals
  if (url === undefined)
    throw new UsageError('give the URL of an MCP server: mcp-gatekit doctor https://example.com/mcp')
  if (others.length > 0) throw new UsageError('give one URL; quote what has spaces in it')
  const ways = (['token', 'token-env', 'login'] as const).filter((name) => values[name] !== undefined)
  if (ways.length > 1)
    throw new UsageError(`give only one of ${ways.map((name) => `--${name}`).join(' and ')}`)
  if (values.login !== true) {
    for (const name of ['client-id', 'client-secret-env', 'issuer', 'redirect-port'] as const)
      if (values[name] !== undefined) throw new UsageError(`--${name} is for --login`)
  }
  if (values['client-secret-env'] !== undefined && values['client-id'] === undefined)
    throw new UsageError('--client-secret-env is for --client-id')
  if (values['client-secret-env'] !== undefined && values.issuer === undefined) {
    const reason =
      'the examined server names the authorization server, and could name one that collects secrets'
    throw new UsageError(
      `--client-secret-env needs --issuer, the authorization server that may get it: ${reason}`,
    )
  }
  if (values.arguments !== undefined && values.call === undefined)
    throw new UsageError('--arguments is for --call')
  if (values.call === '') throw new UsageError('--call takes the name of a tool')
  return {
    kind: 'examine',
    json: values.json === true,
    options: {
      url: readUrl(url),
      token:
        readToken('token', values.token) ??
        readToken('token-env', fromEnv('token-env', values['token-env'], env)),
      underScopedToken: readToken(
        'under-scoped-token-env',
        fromEnv('under-scoped-token-env', values['under-scoped-token-env'], env),
      ),
      login:
        values.login === true
          ? {
              clientId: values['client-id'],
              clientSecret: fromEnv('client-secret-env', values['client-secret-env'], env),
              issuer: readIssuer(values.issuer),
              redirectPort: readPort(values['redirect-port']),
            }
          : undefined,
      call: values.call,
      callArguments: readObject(values.arguments),
      origin: readOrigin(values.origin),
      timeoutMs: readTimeout(values.timeout),
      ignore: (values.ignore ?? []).map(readCheck),
    },
  }
}

function readArguments(argv: readonly string[]) {
  try {
    return parseArgs({ args: [...argv], options: OPTIONS, allowPositionals: true, strict: true })
  } catch (error) {
    throw usageErrorOf(error as Error & { code?: string }, argv)
  }
}

/** In our own words: Node's messages have several lines, and quote. */
function usageErrorOf(error: Error & { code?: string }, argv: readonly string[]): UsageError {
  const known = Object.keys(OPTIONS)
  const given = argv
    .filter((argument) => argument.startsWith('-'))
    .map((argument) => argument.split('=', 1)[0] as string)
  if (error.code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const unknown =
      given.find((argument) => argument !== '-h' && !known.includes(argument.replace(/^--/, ''))) ?? ''
    // Something long and odd behind a dash is no misspelt option.
    if (!/^--?[a-z][a-z-]{0,40}$/i.test(unknown))
      return new UsageError('there is an unknown option: see --help')
    const meant = nearestName(unknown.replace(/^-+/, ''), known)
    return new UsageError(
      `there is no option ${unknown}${meant === undefined ? ': see --help' : `. Did you mean --${meant}?`}`,
    )
  }
  const named = /--([a-z-]+)/.exec(error.message)?.[1] as OptionName | undefined
  if (named === undefined || !known.includes(named))
    return new UsageError('the options cannot be read: see --help')
  return new UsageError(
    OPTIONS[named].type === 'boolean'
      ? `--${named} takes no value`
      : `--${named} needs a value; one that begins with a dash is written --${named}=…`,
  )
}

function readUrl(text: string): URL {
  if (!URL.canParse(text)) {
    const hint = 'give an absolute URL such as https://example.com/mcp'
    throw new UsageError(`the URL cannot be read: ${hint}`)
  }
  const url = new URL(text)
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new UsageError('the URL must begin with https:// (or http://)')
  if (url.username !== '' || url.password !== '')
    throw new UsageError('the URL must hold no user name and password: give a token with --token-env')
  if (text.includes('#')) throw new UsageError('the URL must have no fragment')
  return url
}

function readIssuer(text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHostname(url.hostname))
  if (url === undefined || !isSafe || url.username !== '' || url.password !== '' || /[?#]/.test(text))
    throw new UsageError(
      '--issuer takes the https URL of an authorization server, without a user name, a query, and a fragment',
    )
  return text
}

function fromEnv(option: OptionName, name: string | undefined, env: CliContext['env']): string | undefined {
  if (name === undefined) return undefined
  const value = env[name]
  // Whoever takes this for --token must not see the token again.
  if (value === undefined || value === '')
    throw new UsageError(
      `--${option} takes the name of an environment variable, and the one it names is not set`,
    )
  return value
}

function readToken(option: OptionName, value: string | undefined): string | undefined {
  if (value !== undefined && readBearerToken(`Bearer ${value}`).kind !== 'token')
    throw new UsageError(
      `--${option} is no bearer token (RFC 6750 §2.1): give it alone, without "Bearer" and quotes`,
    )
  return value
}

function readPort(value: string | undefined): number {
  if (value === undefined) return 0
  const port = Number(value)
  if (!/^\d{1,5}$/.test(value) || port > 65_535)
    throw new UsageError('--redirect-port takes a number from 0 to 65535')
  return port
}

function readObject(value: string | undefined): Readonly<Record<string, unknown>> {
  if (value === undefined) return {}
  try {
    const parsed: unknown = JSON.parse(value)
    if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed))
      return parsed as Record<string, unknown>
  } catch {
    // Said below.
  }
  throw new UsageError(`--arguments takes a JSON object, such as '{"name":"Ada"}'`)
}

function readOrigin(value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const url = URL.canParse(value) ? new URL(value) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.origin !== value)
    throw new UsageError(
      '--origin takes scheme, host and port of a web page, such as https://app.example.com',
    )
  return value
}

function readTimeout(value: string | undefined): number {
  if (value === undefined) return DEFAULT_TIMEOUT_SECONDS * 1000
  const seconds = Number(value)
  if (!/^\d+(?:\.\d+)?$/.test(value) || seconds < 0.001 || seconds > MAX_TIMEOUT_SECONDS)
    throw new UsageError(`--timeout takes seconds, up to ${MAX_TIMEOUT_SECONDS}`)
  return Math.round(seconds * 1000)
}

function readCheck(id: string): string {
  const ids = CHECK_GROUPS.flatMap(({ checks }) => checks.map((check) => check.id))
  if (ids.includes(id)) return id
  const meant = nearestName(id, ids)
  throw new UsageError(
    `--ignore takes the id of a check: see --list${meant === undefined ? '' : `. Did you mean ${meant}?`}`,
  )
}
