import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { pack } from './packed.ts'
import { skipIf } from './skip.ts'

const run = promisify(execFile)

/** The runtimes beside Node.js, with their packages. */
const RUNTIMES = { bun: 'bun@1', deno: 'deno@2', workerd: 'workerd@1' }

/** The packed package with what its programs need, and the runtimes. */
export interface Runtimes {
  /** Returns a new folder in which programs find the packages. */
  makeFolder(name: string, files: Readonly<Record<string, string>>): Promise<string>
  /** The path of a runtime. */
  binary(runtime: keyof typeof RUNTIMES): string
  /** Skips the tests of a runtime that cannot be installed. */
  skipIfMissing(context: Mocha.Context, runtime: keyof typeof RUNTIMES): void
}

let installed: Promise<Runtimes> | undefined
let root: string | undefined

/** Installs everything, once for all files of a process. */
export function installRuntimes(): Promise<Runtimes> {
  installed ??= install()
  return installed
}

async function install(): Promise<Runtimes> {
  const folder = await mkdtemp(join(tmpdir(), 'runtimes-'))
  root = folder
  const { tarball } = await pack(folder)
  await writeFile(join(folder, 'package.json'), '{"private":true,"type":"module"}')
  const npmInstall = (...packages: string[]) =>
    run('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: folder })
  await npmInstall(tarball, '@modelcontextprotocol/server@2', 'express@5', 'zod@4')
  const binary = (runtime: string) => join(folder, 'node_modules', '.bin', runtime)
  const missing = new Map<string, string>()
  for (const [runtime, version] of Object.entries(RUNTIMES)) {
    try {
      await npmInstall(version)
      const { stdout } = await run(binary(runtime), ['--version'])
      console.log(`    ${runtime} ${stdout.split('\n', 1)[0]?.replace(/^\D+/, '')}`)
    } catch (error) {
      missing.set(runtime, (error as Error).message.split('\n', 1)[0] as string)
    }
  }
  return {
    async makeFolder(name, files) {
      const made = join(folder, name)
      await mkdir(made)
      for (const [path, text] of Object.entries(files)) await writeFile(join(made, path), text)
      return made
    },
    binary,
    skipIfMissing(context, runtime) {
      const reason = missing.get(runtime)
      if (reason !== undefined) skipIf(context, `${runtime} cannot be installed: ${reason}`)
    },
  }
}

after(async () => {
  if (root !== undefined) await rm(root, { recursive: true, force: true })
})
