import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { extname } from 'node:path'
import { pathToFileURL } from 'node:url'
import { stripVTControlCharacters } from 'node:util'
import { tryOrUndefined } from '../../src/base/try-or-undefined.ts'
import { UsageError } from '../command.ts'

/** The maximum time until a server exits after a signal. Then it is killed. */
const GRACE_MS = 5000

/** The maximum time until the output of a server that has exited arrives. */
const OUTPUT_MS = 500

const TYPESCRIPT = ['.ts', '.mts', '.cts', '.tsx']

/** The exit code of a process, or the signal that ended it. */
export interface ProcessEnd {
  readonly code: number | undefined
  readonly signal: string | undefined
}

/** Starts the user's server. @param argv the arguments of `node` @param onStderr receives the error output, which the terminal shows too */
export function startServer(
  argv: readonly string[],
  env: NodeJS.ProcessEnv,
  onStderr: (chunk: Buffer) => void,
) {
  const { stdout, stderr } = process
  // The error output is a pipe, although the terminal shows it.
  const isColored = stdout.isTTY && stderr.isTTY && env.NO_COLOR === undefined
  const child = spawn(process.execPath, argv, {
    env: isColored ? { FORCE_COLOR: '1', ...env } : env,
    stdio: ['inherit', 'inherit', 'pipe'],
  })
  child.stderr.on('data', onStderr).pipe(stderr, { end: false })
  const ended = new Promise<ProcessEnd>((resolve) => {
    child.once('error', () => resolve({ code: 1, signal: undefined }))
    // A process that the server has started can keep the pipe open.
    child.once('exit', () => setTimeout(() => child.stderr.destroy(), OUTPUT_MS).unref())
    child.once('close', (code, signal) => resolve({ code: code ?? undefined, signal: signal ?? undefined }))
  })
  return {
    pid: child.pid,
    /** Resolves when the process has exited and its output has arrived. Never rejects. */
    ended,
    /**
     * Stops the process with a signal, and kills it after a timeout. Resolves when it has exited.
     * @param signal `undefined` if the process has already received the signal
     */
    async stop(signal: NodeJS.Signals | undefined): Promise<void> {
      if (signal !== undefined) child.kill(signal)
      const timer = setTimeout(() => child.kill('SIGKILL'), GRACE_MS)
      await ended
      clearTimeout(timer)
    },
  }
}

/**
 * Returns the arguments of `node` that run the file. TypeScript runs with `tsx` if the project has it, and otherwise with
 * Node.js itself.
 * @throws {UsageError} if this version of Node.js does not run TypeScript
 */
export function nodeArguments(file: string, watch: boolean): readonly string[] {
  const flags = watch ? ['--watch', '--watch-preserve-output'] : []
  if (!TYPESCRIPT.includes(extname(file))) return [...flags, file]
  const tsx = fromProject('tsx', file)
  const { typescript } = process.features as { readonly typescript?: unknown }
  return [...flags, ...typescriptFlags(tsx, process.versions.node, Boolean(typescript)), file]
}

/**
 * Returns the flags of `node` that run TypeScript.
 * @param tsx the URL of `tsx`, if it is installed
 * @param stripsTypes `true` if Node.js runs TypeScript by default
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
  throw new UsageError(
    `Node.js ${nodeVersion} does not run TypeScript. Install tsx: npm install --save-dev tsx`,
  )
}

/**
 * Returns the file URL of a package in the user's project, or `undefined` if it is not installed there.
 * @param file the absolute path of the file that would import the package
 */
export function fromProject(name: string, file: string): string | undefined {
  return tryOrUndefined(() => pathToFileURL(createRequire(file).resolve(name)).href)
}

const MAX_BYTES = 8192
const MAX_LINES = 20

/** The end of the output of a process. Bounded in memory. */
export class LastLines {
  #bytes: Buffer = Buffer.alloc(0)

  add(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]).subarray(-MAX_BYTES)
  }

  /** The port of an `EADDRINUSE`. */
  get portInUse(): string | undefined {
    return /:(\d{1,5})\b/.exec(/\bEADDRINUSE\b.{0,256}/.exec(this.#bytes.toString())?.[0] ?? '')?.[1]
  }

  /** Returns the last 20 lines of at most 8 KiB, without control characters; one sentence for a port that is in use. */
  toString(): string {
    const port = this.portInUse
    if (port !== undefined) return `Port ${port} is in use. Set PORT.`
    const text = stripVTControlCharacters(this.#bytes.toString())
    const lines = text
      .replaceAll(/(?![\t\n])[\p{Cc}\p{Cf}]/gu, '')
      .trimEnd()
      .split('\n')
    return lines.slice(-MAX_LINES).join('\n')
  }
}
