import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const execute = promisify(execFile)
const root = fileURLToPath(new URL('../../../../', import.meta.url))

/** Links this package into a project within `build`: the compiler uses the sources, and Node.js the compiled files. */
export async function linkPackage(folder: string): Promise<void> {
  const kit = join(folder, 'node_modules', 'mcp-gatekit')
  await mkdir(kit, { recursive: true })
  await symlink(join(root, 'src'), join(kit, 'src'))
  await symlink(join(root, 'build', 'src'), join(kit, 'lib'))
  const entry = (name: string) => ({ types: `./src/${name}.ts`, default: `./lib/${name}.js` })
  const exports = {
    '.': entry('index'),
    './authorization': entry('authorization/index'),
    './testing': entry('testing/index'),
  }
  await writeFile(join(kit, 'package.json'), JSON.stringify({ name: 'mcp-gatekit', type: 'module', exports }))
}

/** Compiles a project. Resolves with the errors of the compiler. */
export async function compileProject(folder: string): Promise<string> {
  const tsc = join(root, 'node_modules', '.bin', 'tsc')
  const { stdout } = await execute(tsc, [], { cwd: folder }).catch((error) => error as { stdout: string })
  return stdout
}

/** A running server of a project. */
export interface ProjectServer {
  /** Everything that the server has printed. */
  readonly output: string
  /** Resolves when the output matches. Rejects if the server exits before. */
  printed(pattern: RegExp): Promise<RegExpExecArray>
  readonly exitCode: Promise<number | null>
  /** Resolves when the server has exited. Defaults to SIGKILL. */
  stop(signal?: NodeJS.Signals): Promise<void>
}

const running = new Set<ProjectServer>()

/** Starts the compiled server of a project, with no other variables than `PATH` and `env`. */
export function startProject(
  folder: string,
  env: Readonly<Record<string, string>>,
  imports: readonly string[] = [],
): ProjectServer {
  const flags = imports.flatMap((file) => ['--import', file])
  const child = spawn(process.execPath, [...flags, 'dist/server.js'], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      child.emit('printed')
    })
  const exitCode = once(child, 'close').then(([code]) => code as number | null)
  const server: ProjectServer = {
    get output() {
      return output
    },
    async printed(pattern) {
      for (;;) {
        const match = pattern.exec(output)
        if (match !== null) return match
        const end = await Promise.race([once(child, 'printed'), exitCode.then((code) => ({ code }))])
        if ('code' in end && pattern.exec(output) === null)
          throw new Error(`the server exited with ${end.code}: ${output}`)
      }
    },
    exitCode,
    async stop(signal = 'SIGKILL') {
      running.delete(server)
      child.kill(signal)
      await exitCode
    },
  }
  running.add(server)
  return server
}

/** Stops all servers that are still running. */
export async function stopProjects(): Promise<void> {
  await Promise.all([...running].map((server) => server.stop()))
}
