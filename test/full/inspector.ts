import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listen, stop } from '../../examples/listen.ts'

const PACKAGE = '@modelcontextprotocol/inspector@2.12.0'
/** The Inspector needs a newer Node.js than the server. */
const NODE = 'node@22'

/** The paths of the Inspector, which npx has installed, and of the Node.js that runs it. */
export interface InspectorProgram {
  readonly node: string
  readonly script: string
}

/** Installs the Inspector with npx. Resolves with the reason as a string if that fails. */
export async function findInspector(): Promise<InspectorProgram | string> {
  const args = ['--yes', '--package', NODE, '--package', PACKAGE, '--', 'sh', '-c']
  const { code, output } = await run('npx', [...args, 'command -v node && command -v mcp-inspector'], {
    env: process.env,
  }).catch((error) => ({ code: -1, output: String(error) }))
  const [node, script] = output.split('\n').filter((line) => line.startsWith('/'))
  if (code !== 0 || node === undefined || script === undefined)
    return `npx did not get ${PACKAGE}: ${output.trim().split('\n').at(-1)}`
  return { node, script }
}

export interface Inspected {
  readonly code: number
  /** Its output: one line of JSON, `{ result }` or `{ error }`. */
  readonly answer: { readonly result?: any; readonly error?: { readonly code: string } }
  /** The URLs to which it sent its user, in order. */
  readonly visited: readonly URL[]
}

/** A user who opens a URL, and resolves with the URL of the redirect to the Inspector. */
export type InspectorUser = (url: URL, callbackUrl: string) => Promise<URL>

/** The Inspector's command line, with a separate home folder that keeps its stored tokens. */
export class Inspector {
  readonly #program: InspectorProgram
  readonly #home: string
  readonly #callbackUrl: string
  readonly #user: InspectorUser

  private constructor(program: InspectorProgram, home: string, callbackUrl: string, user: InspectorUser) {
    this.#program = program
    this.#home = home
    this.#callbackUrl = callbackUrl
    this.#user = user
  }

  static async create(program: InspectorProgram, user: InspectorUser): Promise<Inspector> {
    // The Inspector needs a port number. A port that was just free is sufficient.
    const probe = createServer()
    const port = await listen(probe, 0)
    await stop(probe)
    const home = await mkdtemp(join(tmpdir(), 'inspector-'))
    return new Inspector(program, home, `http://127.0.0.1:${port}/oauth/callback`, user)
  }

  /** Sends a request to the server at `url` in a terminal, with a user who opens the URL and signs in. */
  async askInTerminal(url: string, ...options: string[]): Promise<Inspected> {
    const visited: URL[] = []
    const failed = new AbortController()
    const command = [this.#program.node, ...this.#args(url, options)].map(quoted).join(' ')
    const ended = await run('script', ['-qec', command, '/dev/null'], {
      env: this.#env(),
      signal: failed.signal,
      onOutput: (output) => {
        const links = [...output.matchAll(/Please navigate to: \S*?(http[!-~]+)[^!-~]/g)]
        for (const [, link = ''] of links.slice(visited.length)) {
          const start = new URL(link)
          visited.push(start)
          this.#user(start, this.#callbackUrl)
            .then((callback) => fetch(callback))
            .catch((error) => failed.abort(error))
        }
      },
    })
    return inspected(ended, visited)
  }

  async close(): Promise<void> {
    await rm(this.#home, { recursive: true })
  }

  #args(url: string, options: readonly string[]): string[] {
    const fixed = ['--format', 'json', '--callback-url', this.#callbackUrl]
    return [this.#program.script, '--cli', url, ...fixed, ...options]
  }

  #env(): NodeJS.ProcessEnv {
    return {
      PATH: process.env.PATH,
      HOME: this.#home,
      MCP_CATALOG_PATH: join(this.#home, 'catalog.json'),
      MCP_INSPECTOR_SECRET_STORE: 'file',
    }
  }
}

interface Ended {
  readonly code: number
  readonly output: string
}

function inspected({ code, output }: Ended, visited: readonly URL[]): Inspected {
  const line = output.split(/\r?\n/).findLast((text) => text.startsWith('{'))
  if (line === undefined)
    throw new Error(`The Inspector did not print a result (exit code ${code}): ${output}`)
  return { code, answer: JSON.parse(line), visited }
}

function quoted(argument: string): string {
  return `'${argument.replaceAll("'", `'\\''`)}'`
}

interface RunOptions {
  readonly env: NodeJS.ProcessEnv
  readonly signal?: AbortSignal
  /** Receives the whole output of the program so far. */
  readonly onOutput?: (output: string) => void
}

/** Runs a program for at most two minutes. Returns its standard output and standard error as one string. */
async function run(program: string, args: readonly string[], options: RunOptions): Promise<Ended> {
  const { env, signal, onOutput } = options
  const signals = [AbortSignal.timeout(120_000), ...(signal === undefined ? [] : [signal])]
  const child = spawn(program, args, {
    env,
    signal: AbortSignal.any(signals),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
      onOutput?.(output)
    })
  }
  const [code] = await once(child, 'close')
  return { code: code ?? -1, output }
}
