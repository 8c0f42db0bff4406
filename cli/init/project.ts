import { readFileSync } from 'node:fs'
import { VERSION } from '../../src/version.ts'
import { packageFile } from '../package-file.ts'

/** The settings of a new project. */
export interface ProjectOptions {
  readonly name: string
  readonly issuer: string | undefined
  readonly resource: string | undefined
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
}

/** Returns the contents of the files of a new project, by name. */
export function projectFiles(options: ProjectOptions): ReadonlyMap<string, string> {
  const template = packageFile('template/')
  const files = new Map(
    Object.entries(FILES).map(([name, source]) => [name, readFileSync(new URL(source, template), 'utf8')]),
  )
  for (const [file, from, to] of changes(options)) {
    const text = files.get(file) as string
    files.set(
      file,
      text.replaceAll(from, () => to),
    )
  }
  return files
}

/** The expression in the template that `--resource` replaces. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: code of the template
const DEFAULT_RESOURCE = '`http://127.0.0.1:${PORT ?? 3000}/mcp`'

/** Returns the replacements that turn the template into the project. */
function changes({ name, issuer, resource }: ProjectOptions): [file: string, from: string, to: string][] {
  return [
    ['package.json', '"my-server"', `"${name}"`],
    ['package.json', '"mcp-gatekit": "*"', `"mcp-gatekit": "^${VERSION}"`],
    ['app.ts', "'my-server'", `'${name}'`],
    ['README.md', 'my-server', name],
    ...(issuer === undefined
      ? []
      : [['server.ts', 'process.env.ISSUER', `process.env.ISSUER ?? ${literal(issuer)}`] as const]),
    ...(resource === undefined ? [] : [['server.ts', DEFAULT_RESOURCE, literal(resource)] as const]),
  ].map(([file, from, to]) => [file, from, to] as [string, string, string])
}

/** Returns a string literal of TypeScript. JSON escapes what could end a literal or start an escape sequence. */
function literal(url: string): string {
  const json = JSON.stringify(url)
  return json === `"${url}"` && !url.includes("'") ? `'${url}'` : json
}
