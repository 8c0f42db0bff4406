import { type ChildProcess, spawn } from 'node:child_process'
import { extname } from 'node:path'
import { UsageError } from '../usage-error.ts'
import { fromProject } from './from-project.ts'

/** How a server that was asked to end is given before it is ended. */
const GRACE_MS = 5000

const TYPESCRIPT = ['.ts', '.mts', '.cts', '.tsx']

/** How a process ended: with a code, or by a signal. */
export interface ProcessEnd {
  readonly code: number | undefined
  readonly signal: string | undefined
}

/** The user's server, as a process of its own on the same terminal. */
export class ServerProcess {
  readonly #child: ChildProcess
  /** Resolves when it has ended. Never rejects. */
  readonly ended: Promise<ProcessEnd>

  /** @param argv behind `node` */
  constructor(argv: readonly string[], env: NodeJS.ProcessEnv) {
    this.#child = spawn(process.execPath, argv, { env, stdio: 'inherit' })
    this.ended = new Promise((resolve) => {
      this.#child.once('error', () => resolve({ code: 1, signal: undefined }))
      this.#child.once('exit', (code, signal) =>
        resolve({ code: code ?? undefined, signal: signal ?? undefined }),
      )
    })
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  /**
   * Ends it: with the signal, and when it takes its time, by force. Resolves when it has ended.
   * @param signal undefined where it has got that already
   */
  async stop(signal: NodeJS.Signals | undefined): Promise<void> {
    if (signal !== undefined) this.#child.kill(signal)
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), GRACE_MS)
    await this.ended
    clearTimeout(timer)
  }
}

/**
 * What `node` is called with to run the file. TypeScript is run by `tsx` where the project has it, else by Node itself.
 * @throws {UsageError} where this Node cannot
 */
export function nodeArguments(file: string, watch: boolean): readonly string[] {
  const flags = watch ? ['--watch', '--watch-preserve-output'] : []
  if (!TYPESCRIPT.includes(extname(file))) return [...flags, file]
  const tsx = fromProject('tsx', file)
  return [...flags, ...typescriptFlags(tsx, process.versions.node, typescriptOf(process.features)), file]
}

/**
 * @param tsx where it is, if it is installed
 * @param stripsTypes whether Node runs TypeScript without being told to
 * @throws {UsageError}
 */
export function typescriptFlags(
  tsx: string | undefined,
  nodeVersion: string,
  stripsTypes: boolean,
): readonly string[] {
  if (tsx !== undefined) return ['--import', tsx]
  if (stripsTypes) return []
  const [major = 0, minor = 0] = nodeVersion.split('.').map(Number)
  if (major > 22 || (major === 22 && minor >= 6))
    return ['--experimental-strip-types', '--disable-warning=ExperimentalWarning']
  throw new UsageError(`Node ${nodeVersion} does not run TypeScript: npm install --save-dev tsx`)
}

function typescriptOf(features: object): boolean {
  return Boolean((features as { typescript?: unknown }).typescript)
}
