import { basename, resolve } from 'node:path'
import { KitMcpConfigError } from '../../src/options/config-error.ts'
import { optionChecksOf } from '../../src/options/option-checks.ts'
import { readArguments } from '../read-arguments.ts'
import { UsageError } from '../usage-error.ts'
import type { ProjectOptions } from './project.ts'

export const INIT_HELP: string = `Usage: mcp-gatekit init [folder] [options]

Writes a small MCP server behind OAuth into a folder (default: this one), with tests. It runs at once, with test tokens of its own
until it is told of an authorization server. No file that is there already is touched.

Options:
  --name <name>        of the package and of the server (default: the name of the folder)
  --issuer <url>       the authorization server, such as https://auth.example.com
  --resource <url>     the server as its clients see it (default: http://127.0.0.1:3000/mcp)
  --help

Exit codes: 0 when it is written, 1 when it cannot be, 2 for a wrong command line.
`

const { checkIssuer, checkUrl } = optionChecksOf('oauth')

/** What npm takes as a name, without a scope. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/

/** What the command line asks for. */
export type InitCommand =
  | { readonly kind: 'help' }
  | {
      readonly kind: 'write'
      /** As it was given. */
      readonly folder: string
      readonly options: ProjectOptions
    }

/** Reads the arguments behind `init`. @throws {UsageError} */
export function parseInitArguments(argv: readonly string[]): InitCommand {
  const text = { type: 'string' } as const
  const { help, values, positionals } = readArguments(argv, { name: text, issuer: text, resource: text })
  if (help) return { kind: 'help' }
  const [folder = '.', ...others] = positionals
  if (others.length > 0) throw new UsageError('give one folder; quote what has spaces in it')
  if (folder === '') throw new UsageError('the folder has no name')
  return {
    kind: 'write',
    folder,
    options: {
      name: readName(values.name, folder),
      issuer: readUrl('issuer', values.issuer),
      resource: readUrl('resource', values.resource),
    },
  }
}

function readName(given: string | undefined, folder: string): string {
  if (given !== undefined) {
    if (NAME.test(given)) return given
    throw new UsageError('--name takes lower-case letters, digits, dashes, dots and underscores')
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
    check(`--${option}`, value, { allowInsecureHttp: false })
    return value
  } catch (error) {
    if (!(error instanceof KitMcpConfigError)) throw error
    const [problem = ''] = error.message.split(/\. (?:Set allowInsecureHttp|Run "npx)/, 1)
    throw new UsageError(problem)
  }
}
