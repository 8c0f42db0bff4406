import { readFileSync } from 'node:fs'
import { VERSION } from '../../src/base/version.ts'
import { packageFile } from '../package-file.ts'

/** The providers with which a new project can sign users in, with their guides. */
export const PROVIDERS = {
  github: { title: 'GitHub', guide: 'github.md' },
  google: { title: 'Google', guide: 'google.md' },
  entra: { title: 'Microsoft Entra ID', guide: 'entra-id.md' },
  cognito: { title: 'Amazon Cognito', guide: 'cognito.md' },
} as const

export type ProviderName = keyof typeof PROVIDERS

/** The settings of a new project. */
export interface ProjectOptions {
  readonly name: string
  readonly issuer: string | undefined
  readonly resource: string | undefined
  /** The provider at which users sign in. */
  readonly provider: ProviderName | undefined
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
export function projectFiles(options: ProjectOptions): ReadonlyMap<string, string> {
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
