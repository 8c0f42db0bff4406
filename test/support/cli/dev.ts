import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** The sample server as it was compiled. */
export const SAMPLE: string = fileURLToPath(new URL('../../cli/dev/sample-server.js', import.meta.url))

const MAIN = fileURLToPath(new URL('../../../cli/main.js', import.meta.url))

/** `mcp-gatekit dev` as a process of its own. */
export interface DevProgram {
  readonly stdout: string
  readonly stderr: string
  /** Resolves with the match when the output has it. Rejects when the program ends before. */
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
        if (end !== undefined) throw new Error(`it ended with ${end.code}: ${said.stdout}${said.stderr}`)
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

/** Ends what a test has left. */
export async function stopDevPrograms(): Promise<void> {
  for (const program of running) program.kill('SIGTERM')
  await Promise.all([...running].map(({ exitCode }) => exitCode))
}

/** The sample server beside a console. @param options default an authorization server as well, all on free ports */
export async function startSample(options: readonly string[] = ['--port', '0', '--auth-port', '0']): Promise<{
  readonly program: DevProgram
  /** Where the console is. */
  readonly url: string
  /** Where the server is. */
  readonly origin: string
  readonly issuer: string | undefined
  /** Where it is told to end; the exit code goes behind it. */
  readonly ending: string
}> {
  const program = startDevProgram([...options, SAMPLE])
  const [, url] = await program.said('stderr', /console +(http:\S+)/)
  const [line] = await program.said('stdout', /^\{.*\}$/m)
  return {
    program,
    url: url as string,
    ...(JSON.parse(line) as { origin: string; issuer: string | undefined; ending: string }),
  }
}
