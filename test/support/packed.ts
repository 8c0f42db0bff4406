import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = fileURLToPath(new URL('../../../', import.meta.url))

/** What `npm publish` would publish. */
export interface Packed {
  /** Path of the tarball. */
  readonly tarball: string
  /** Paths in the tarball. */
  readonly files: readonly string[]
}

/** Packs `dist` into a tarball in `folder`, and makes it before where it is not there. */
export async function pack(folder: string): Promise<Packed> {
  if (!existsSync(join(root, 'dist', 'index.js'))) {
    await run(join(root, 'node_modules', '.bin', 'tsc'), ['-p', 'tsconfig.build.json'], { cwd: root })
    await run(process.execPath, [join('scripts', 'bundle.mjs')], { cwd: root })
  }
  const { stdout } = await run(
    'npm',
    ['pack', '--ignore-scripts', '--json', '--loglevel=error', '--pack-destination', folder],
    { cwd: root },
  )
  const [{ filename, files }] = JSON.parse(stdout)
  return { tarball: join(folder, filename), files: files.map(({ path }: { path: string }) => path) }
}
