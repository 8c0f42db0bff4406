import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../', import.meta.url))

/**
 * Reads the files of a page: its TypeScript blocks that begin with a comment such as `// app/route.ts`.
 * @param place the name of the page. `frameworks.md#Hono` is the part with this heading, with what precedes all such parts.
 * @returns the source of each file by its path.
 */
export async function filesOf(place: string): Promise<Map<string, string>> {
  const [page = '', heading] = place.split('#')
  const markdown = partOf(await readFile(join(root, 'docs', 'guides', page), 'utf8'), heading)
  const blocks = markdown.matchAll(/^```(?:ts|typescript)\n\/\/ (?<path>\S+\.ts)\n(?<code>[\s\S]*?)^```$/gm)
  const files = new Map(
    [...blocks].map(({ groups }) => [groups?.path as string, groups?.code as string] as const),
  )
  if (files.size === 0) throw new Error(`${page} has no TypeScript block that begins with a file name`)
  return files
}

/** Returns the first two parts of a page and the part with a heading. Without a heading, returns the whole page. */
function partOf(markdown: string, heading: string | undefined): string {
  if (heading === undefined) return markdown
  const [introduction, shared, ...parts] = markdown.split('\n## ')
  return [introduction, shared, ...parts.filter((part) => part.startsWith(`${heading}\n`))].join('\n')
}

/** How the project is set up that gets the files of a page. */
export interface ProjectOptions {
  /** Defaults to `module`. */
  readonly type?: 'module' | 'commonjs' | undefined
  readonly compilerOptions?: Readonly<Record<string, unknown>> | undefined
  /** Packages that are installed under another name here: `{ express: 'express4' }`. */
  readonly packages?: Readonly<Record<string, string>> | undefined
}

/** A project with the compiled files of one page. */
export interface PageProject {
  /** Returns the path of a compiled file, by the path of its source. */
  compiled(path: string): string
  remove(): Promise<void>
}

/** Makes a project of the files of a page, in which `mcp-gatekit` is the package of this repository. */
export async function createProject(page: string, options: ProjectOptions = {}): Promise<PageProject> {
  const { type = 'module', compilerOptions = {}, packages = {} } = options
  await mkdir(join(root, 'build'), { recursive: true })
  const folder = await mkdtemp(join(root, 'build', 'page-'))
  const write = async (path: string, text: string) => {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), text)
  }
  try {
    await write('package.json', JSON.stringify({ name: 'page', private: true, type }))
    await linkPackages(write)
    for (const [name, target] of Object.entries(packages))
      await symlink(join(root, 'node_modules', target), join(folder, 'node_modules', name), 'dir')
    const files = await filesOf(page)
    for (const [path, code] of files) await write(path, withoutAlias(path, code))
    const tsconfig = {
      // test/docs.test.ts checks the types. Modules are not resolved here, so that only these files are compiled.
      compilerOptions: {
        target: 'es2023',
        module: 'nodenext',
        noCheck: true,
        noResolve: true,
        rewriteRelativeImportExtensions: true,
        types: [],
        rootDir: '.',
        outDir: 'compiled',
        ...compilerOptions,
      },
      files: [...files.keys()],
    }
    await write('tsconfig.json', JSON.stringify(tsconfig))
    await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', folder])
  } catch (error) {
    await rm(folder, { recursive: true })
    throw error
  }
  return {
    compiled: (path) => join(folder, 'compiled', path.replace(/\.ts$/, '.js')),
    remove: () => rm(folder, { recursive: true }),
  }
}

/** Adds a package `mcp-gatekit` with the entry points of the package of this repository. */
async function linkPackages(write: (path: string, text: string) => Promise<void>): Promise<void> {
  const { exports } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const entries = Object.keys(exports).filter((entry) => !entry.endsWith('.json'))
  const fileOf = (entry: string) => `./${entry === '.' ? 'index' : entry.slice(2)}.js`
  const manifest = {
    name: 'mcp-gatekit',
    type: 'module',
    exports: Object.fromEntries(entries.map((entry) => [entry, fileOf(entry)])),
  }
  await write('node_modules/mcp-gatekit/package.json', JSON.stringify(manifest))
  for (const entry of entries) {
    const source = new URL(
      `../../src/${entry === '.' ? 'index' : `${entry.slice(2)}/index`}.js`,
      import.meta.url,
    )
    await write(`node_modules/mcp-gatekit/${fileOf(entry)}`, `export * from '${source.href}'\n`)
  }
}

/** Replaces the path alias `@/` of Next.js, which Node.js does not know. */
function withoutAlias(path: string, code: string): string {
  const toRoot = posix.relative(posix.dirname(path), '.') || '.'
  return code.replaceAll(/from '@\/(.+)'/g, (_match, target) => `from '${toRoot}/${target}.js'`)
}
