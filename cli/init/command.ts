import { readFileSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { KitMcpConfigError } from '../../src/base/options/config-error.ts'
import { optionChecksOf } from '../../src/base/options/option-checks.ts'
import { VERSION } from '../../src/base/version.ts'
import { type Command, CommandFailure, checkUsage, defineCommand, fileErrorCode } from '../command.ts'
import { packageFile } from '../package-file.ts'

const HELP = `Usage: mcp-gatekit init [folder] [options]

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

/** The providers with which a new project can sign users in, with their guides. */
const PROVIDERS = {
  github: { title: 'GitHub', guide: 'github.md' },
  google: { title: 'Google', guide: 'google.md' },
  entra: { title: 'Microsoft Entra ID', guide: 'entra-id.md' },
  cognito: { title: 'Amazon Cognito', guide: 'cognito.md' },
} as const

type ProviderName = keyof typeof PROVIDERS

/** The settings of a new project. */
interface ProjectOptions {
  readonly name: string
  readonly issuer: string | undefined
  readonly resource: string | undefined
  /** The provider at which users sign in. */
  readonly provider: ProviderName | undefined
}

const { checkUrl, issuer } = optionChecksOf('oauth')

/** The package names that npm accepts, without a scope. */
const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/
const NAME_RULE =
  'consist of lowercase letters, digits, dashes, dots, and underscores, and begin with a letter or digit'

/** Runs `mcp-gatekit init …`. The exit code is 1 if the files cannot be written. */
export const initCommand: Command = defineCommand(HELP, async (args, { stdout }) => {
  const [folder = '.', ...others] = args.positionals
  checkUsage(others.length === 0, 'expected one folder. Quote a path that contains spaces')
  checkUsage(folder !== '', 'the folder must not be an empty string')
  const options = {
    name: args.text('name', (name) => NAME.test(name), NAME_RULE) ?? nameOf(folder),
    issuer: readUrl('issuer', args.text('issuer')),
    resource: readUrl('resource', args.text('resource')),
    provider: args.text(
      'provider',
      (name) => Object.hasOwn(PROVIDERS, name),
      `be one of ${Object.keys(PROVIDERS).join(', ')}`,
    ) as ProviderName | undefined,
  }
  checkUsage(
    options.provider === undefined || options.issuer === undefined,
    '--provider and --issuer cannot be combined',
  )
  const files = projectFiles(options)
  try {
    await mkdir(folder, { recursive: true })
    const present = await readdir(folder)
    const taken = [...files.keys()].filter((name) => present.includes(name))
    if (taken.length > 0)
      throw new CommandFailure(`nothing was written because ${folder} already contains ${taken.join(', ')}`)
    // The flag protects files that were created since then.
    for (const [name, text] of files) await writeFile(join(folder, name), text, { flag: 'wx' })
  } catch (error) {
    throw new CommandFailure(`cannot write to ${folder} (${fileErrorCode(error)})`)
  }
  const written = [...files.keys()].map((name) => `wrote ${join(folder, name)}\n`)
  stdout.write(`${written.join('')}${nextSteps(folder, options)}`)
  return 0
})

function nextSteps(folder: string, { issuer, provider }: ProjectOptions): string {
  return `
Next steps:
${folder === '.' ? '' : `  cd ${quoted(folder)}\n`}  npm install
  npm test
  npm start        ${issuer === undefined ? '# prints a test token' : `# accepts tokens from ${issuer}`}
  npm run dev      # signs in at a local authorization server, and shows each request
${provider === undefined ? '' : signInSteps(provider)}`
}

/** Returns the name of a project in this folder. */
function nameOf(folder: string): string {
  const name = basename(resolve(folder))
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+|(?<!-)-+$/g, '')
  return NAME.test(name) ? name : 'mcp-server'
}

function readUrl(option: 'issuer' | 'resource', value: string | undefined): string | undefined {
  if (value === undefined) return undefined
  const check = option === 'issuer' ? issuer : checkUrl
  try {
    check(`--${option}`, value, { allowInsecureHttp: 'never' })
  } catch (error) {
    if (!(error instanceof KitMcpConfigError)) throw error
    const [problem = ''] = error.message.split(/\. (?:Use https|Run "npx)/, 1)
    checkUsage(false, problem)
  }
  return value
}

function signInSteps(provider: ProviderName): string {
  const { title, guide } = PROVIDERS[provider]
  return `
To sign users in with ${title}:
  cp .env.example .env
  Set the variables in .env. node_modules/mcp-gatekit/docs/guides/providers/${guide} describes each step.
`
}

function quoted(folder: string): string {
  return /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`
}

/** The files of a new project, with their names in the template. npm does not pack files named `.gitignore`. */
const FILES: Readonly<Record<string, string>> = {
  'package.json': 'package.json',
  'tsconfig.json': 'tsconfig.json',
  'app.ts': 'app.ts',
  'server.ts': 'server.ts',
  'server.test.ts': 'server.test.ts',
  'README.md': 'README.md',
  '.gitignore': 'gitignore',
  Dockerfile: 'Dockerfile',
  '.dockerignore': 'dockerignore',
}

/** Returns the files of a project that signs users in, which are added to `FILES` or replace some of them. */
function signInFiles(provider: ProviderName): typeof FILES {
  return {
    'server.ts': 'sign-in-server.ts',
    'sign-in.ts': 'sign-in.ts',
    'store.ts': 'store.ts',
    [`${provider}.ts`]: `${provider}.ts`,
    '.env.example': `${provider}.env`,
    'README.md': 'sign-in-README.md',
  }
}

/** Returns the contents of the files of a new project, by name. */
function projectFiles(options: ProjectOptions): ReadonlyMap<string, string> {
  const { provider } = options
  const template = packageFile('template/')
  const read = (source: string) => readFileSync(new URL(source, template), 'utf8')
  const sources = { ...FILES, ...(provider !== undefined && signInFiles(provider)) }
  const files = new Map(Object.entries(sources).map(([name, source]) => [name, read(source)]))
  for (const [file, from, to] of changes(options))
    if (to !== undefined)
      files.set(
        file,
        (files.get(file) as string).replaceAll(from, () => to),
      )
  if (provider !== undefined) {
    const own = files.get('package.json') as string
    files.set('package.json', withDependencies(own, read('sign-in-package.json')))
  }
  return files
}

/** Adds the dependencies of another `package.json`, and removes them from the development dependencies. */
function withDependencies(own: string, other: string): string {
  const { dependencies: added } = JSON.parse(other) as { dependencies: Record<string, string> }
  const project = JSON.parse(own) as Record<'dependencies' | 'devDependencies', Record<string, string>>
  const dependencies = Object.entries({ ...project.dependencies, ...added })
  project.dependencies = Object.fromEntries(dependencies.sort(([one], [another]) => (one < another ? -1 : 1)))
  for (const name of Object.keys(added)) delete project.devDependencies[name]
  return `${JSON.stringify(project, undefined, 2)}\n`
}

/** The expressions in the template that `--resource` replaces. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: code of the template
const DEFAULT_RESOURCE = '`http://127.0.0.1:${PORT ?? 3000}/mcp`'
// biome-ignore lint/suspicious/noTemplateCurlyInString: code of the template
const DEFAULT_SIGN_IN_RESOURCE = '`http://127.0.0.1:${PORT || 3000}/mcp`'

/** Returns the replacements that turn the template into the project. Those of options that are not given are `undefined`. */
function changes({ name, issuer, resource, provider }: ProjectOptions) {
  const defaultResource = provider === undefined ? DEFAULT_RESOURCE : DEFAULT_SIGN_IN_RESOURCE
  return [
    ['package.json', '"my-server"', `"${name}"`],
    ['package.json', '"mcp-gatekit": "*"', `"mcp-gatekit": "^${VERSION}"`],
    ['app.ts', "'my-server'", `'${name}'`],
    ['README.md', 'my-server', name],
    ['server.ts', 'process.env.ISSUER', issuer && `process.env.ISSUER ?? ${literal(issuer)}`],
    ['server.ts', defaultResource, resource && literal(resource)],
    ['server.ts', './github.ts', provider && `./${provider}.ts`],
    ['sign-in.ts', './github.ts', provider && `./${provider}.ts`],
    ['sign-in.ts', "'my-server'", provider && `'${name}'`],
    ['README.md', 'my-provider', provider && PROVIDERS[provider].title],
    ['README.md', 'my-page', provider && PROVIDERS[provider].guide],
  ] as const
}

/** Returns a string literal of TypeScript. JSON escapes what could end a literal or start an escape sequence. */
function literal(url: string): string {
  const json = JSON.stringify(url)
  return json === `"${url}"` && !url.includes("'") ? `'${url}'` : json
}
