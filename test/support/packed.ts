import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, rename, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../', import.meta.url))

/** The package as `npm publish` would publish it. */
export interface Packed {
  /** Path of the tarball. */
  readonly tarball: string
  /** Paths in the tarball. */
  readonly files: readonly string[]
  /** Size of the tarball in bytes. */
  readonly size: number
  /** Sum of the sizes of its files in bytes. */
  readonly unpackedSize: number
}

/** Packs `dist` into a tarball in `folder`, and builds `dist` first if it is missing. */
export async function pack(folder: string): Promise<Packed> {
  if (!existsSync(join(root, 'dist', 'index.js'))) {
    await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], { cwd: root })
    await run(process.execPath, [join('scripts', 'bundle.mjs')], { cwd: root })
  }
  const { stdout } = await run(
    'npm',
    ['pack', '--offline', '--ignore-scripts', '--json', '--loglevel=error', '--pack-destination', folder],
    { cwd: root },
  )
  const [{ filename, files, size, unpackedSize }] = JSON.parse(stdout)
  return {
    tarball: join(folder, filename),
    files: files.map(({ path }: { path: string }) => path),
    size,
    unpackedSize,
  }
}

/** Unpacks a tarball into `node_modules` of `folder`, and returns the folder of the package. */
export async function unpack(tarball: string, folder: string): Promise<string> {
  const modules = join(folder, 'node_modules')
  await mkdir(modules, { recursive: true })
  await run('tar', ['-xf', tarball, '-C', folder])
  await rename(join(folder, 'package'), join(modules, 'mcp-gatekit'))
  return join(modules, 'mcp-gatekit')
}

/** Links installed packages into `node_modules` of `folder`. */
export async function link(names: readonly string[], folder: string): Promise<void> {
  for (const name of names) {
    const target = join(folder, 'node_modules', name)
    await mkdir(dirname(target), { recursive: true })
    await symlink(join(root, 'node_modules', name), target)
  }
}

/** Returns the sizes in bytes, by folder, of the packages that `names` and their own dependencies install. */
export function installed(names: readonly string[]): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>()
  const open = names.map((name) => folderOf(name, root))
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (sizes.has(next)) continue
    const folder = next
    sizes.set(folder, sizeOf(folder))
    const { dependencies = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    open.push(...Object.keys(dependencies).map((name) => folderOf(name, folder)))
  }
  return sizes
}

/** Finds a package as Node does: in the nearest `node_modules` of `folder` or of a folder above it. */
function folderOf(name: string, folder: string): string {
  const found = join(folder, 'node_modules', name)
  if (existsSync(join(found, 'package.json'))) return found
  if (folder === dirname(folder)) throw new Error(`${name} is not installed`)
  return folderOf(name, dirname(folder))
}

function sizeOf(folder: string): number {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.name !== 'node_modules')
    .map((entry) => join(folder, entry.name))
    .reduce((sum, path) => sum + (statSync(path).isDirectory() ? sizeOf(path) : statSync(path).size), 0)
}
