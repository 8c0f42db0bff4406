import { basename, resolve } from 'node:path'
import { KitMcpConfigError } from '../../src/options/config-error.ts'
import { optionChecksOf } from '../../src/options/option-checks.ts'
import { readArguments } from '../read-arguments.ts'
import { UsageError } from '../usage-error.ts'
import { PROVIDERS, type ProjectOptions, type ProviderName } from './project.ts'

export const INIT_HELP: string = `Usage: mcp-gatekit init [folder] [options]

Creates a small MCP server that is protected by OAuth, with tests, in a folder (default: the current one).
The server runs immediately. Until you configure an authorization server, it issues its own test tokens.
Existing files are never changed.

Options:
  --name <name>        name of the package and of the server (default: the name of the folder)
  --issuer <url>       URL of the authorization server, such as https://auth.example.com
  --resource <url>     URL of the server as clients see it (default: http://127.0.0.1:<PORT>/mcp)
  --provider <name>    sign users in with github, google, entra, or cognito, once its secrets are set
  -h, --help           print this help

Exit codes: 0 if the files were written, 1 if they could not be written, 2 for an invalid command line.
`

const { checkIssuer, checkUrl } = optionChecksOf('oauth')

/** The package names that npm accepts, without a scope. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/

/** The action that the command line asks for. */
export type InitCommand =
  | { readonly kind: 'help' }
  | {
      readonly kind: 'write'
      /** The folder as given, which can be relative. */
      readonly folder: string
      readonly options: ProjectOptions
    }

/** Reads the arguments after `init`. @throws {UsageError} */
export function parseInitArguments(argv: readonly string[]): InitCommand {
  const { help, values, positionals } = readArguments(argv, {
    name: { type: 'string' },
    issuer: { type: 'string' },
    resource: { type: 'string' },
    provider: { type: 'string' },
  })
  if (help) return { kind: 'help' }
  const [folder = '.', ...others] = positionals
  if (others.length > 0) throw new UsageError('expected one folder. Quote a path that contains spaces')
  if (folder === '') throw new UsageError('the folder must not be an empty string')
  return {
    kind: 'write',
    folder,
    options: {
      name: readName(values.name, folder),
      issuer: readUrl('issuer', values.issuer),
      resource: readUrl('resource', values.resource),
      provider: readProvider(values.provider, values.issuer),
    },
  }
}

function readProvider(name: string | undefined, issuer: string | undefined): ProviderName | undefined {
  if (name === undefined) return undefined
  if (issuer !== undefined) throw new UsageError('--provider and --issuer cannot be combined')
  if (Object.hasOwn(PROVIDERS, name)) return name as ProviderName
  throw new UsageError(`--provider must be one of ${Object.keys(PROVIDERS).join(', ')}`)
}

function readName(given: string | undefined, folder: string): string {
  if (given !== undefined) {
    if (NAME.test(given)) return given
    throw new UsageError(
      '--name must consist of lowercase letters, digits, dashes, dots, and underscores, and begin with a letter or digit',
    )
  }
  const name = basename(resolve(folder))
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+|(?<!-)-+$/g, '')
  return NAME.test(name) ? name : 'mcp-server'
}

function readUrl(option: 'issuer' | 'resource', value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  try {
    const check = option === 'issuer' ? checkIssuer : checkUrl
    check(`--${option}`, value, { allowInsecureHttp: 'never' })
    return value
  } catch (error) {
    if (!(error instanceof KitMcpConfigError)) throw error
    const [problem = ''] = error.message.split(/\. (?:Use https|Run "npx)/, 1)
    throw new UsageError(problem)
  }
}
