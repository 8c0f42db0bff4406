import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** The compiled sample server. */
export const SAMPLE: string = fileURLToPath(new URL('../../cli/dev/sample-server.js', import.meta.url))

const MAIN = fileURLToPath(new URL('../../../cli/main.js', import.meta.url))

/** A process of `mcp-gatekit dev`. */
export interface DevProgram {
  readonly stdout: string
  readonly stderr: string
  /** Resolves when the output matches. Rejects if the program exits before. */
  said(stream: 'stdout' | 'stderr', pattern: RegExp): Promise<RegExpExecArray>
  kill(signal: NodeJS.Signals): void
  readonly exitCode: Promise<number | null>
}

const running = new Set<DevProgram>()

export function startDevProgram(
  argv: readonly string[],
  { env = {}, cwd }: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string } = {},
): DevProgram {
  const child = spawn(process.execPath, [MAIN, 'dev', ...argv], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd !== undefined && { cwd }),
  })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text
    })
  }
  const program: DevProgram = {
    get stdout() {
      return said.stdout
    },
    get stderr() {
      return said.stderr
    },
    async said(stream, pattern) {
      for (;;) {
        const match = pattern.exec(said[stream])
        if (match !== null) return match
        const end = await Promise.race([
          once(child[stream], 'data').then(() => undefined),
          program.exitCode.then((code) => ({ code })),
        ])
        const late = pattern.exec(said[stream])
        if (late !== null) return late
        if (end !== undefined)
          throw new Error(`the program exited with ${end.code}: ${said.stdout}${said.stderr}`)
      }
    },
    kill: (signal) => void child.kill(signal),
    exitCode: once(child, 'close').then(([code]) => {
      running.delete(program)
      return code as number | null
    }),
  }
  running.add(program)
  return program
}

/** Stops all programs that are still running. */
export async function stopDevPrograms(): Promise<void> {
  for (const program of running) program.kill('SIGTERM')
  await Promise.all([...running].map(({ exitCode }) => exitCode))
}

/** The sample server, which runs in `mcp-gatekit dev`. */
export interface DevSample {
  readonly program: DevProgram
  /** The URL of the console. */
  readonly url: string
  /** The origin of the server. */
  readonly origin: string
  readonly issuer: string | undefined
  /** The URL that makes the server exit, to which an exit code is appended. */
  readonly ending: string
}

/** Starts the sample server with a console. @param options by default, an authorization server, and free ports */
export async function startSample(
  options: readonly string[] = ['--port', '0', '--auth-port', '0'],
): Promise<DevSample> {
  const program = startDevProgram([...options, SAMPLE])
  const [, url] = await program.said('stderr', /console +(http:\S+)/)
  const [line] = await program.said('stdout', /^\{.*\}$/m)
  return {
    program,
    url: url as string,
    ...(JSON.parse(line) as { origin: string; issuer: string | undefined; ending: string }),
  }
}
