import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import type { ProgramMemory, ResourceMessage } from './resource-report.ts'

const MIB = 1024 * 1024

/** The heap of an attacked program, in MiB. */
const HEAP_MIB = 128

/** The resident memory that a program with such a heap may reach: the heap, buffers outside it, and Node.js itself. */
const MAX_RSS_MIB = 384

export interface ResourceProgramOptions {
  /** Environment variables for the program, in addition to those of the test. */
  readonly env?: Readonly<Record<string, string>>
  readonly args?: readonly string[]
}

/** A server in a separate process with a heap of 128 MiB. */
export interface ResourceProgram {
  readonly port: number
  /** `http://127.0.0.1:<port>` */
  readonly origin: string
  /** Returns the memory in use, after a garbage collection. */
  memory(): Promise<ProgramMemory>
  /**
   * Expects that the program is alive, that `validRequest` (a valid request and its assertions) succeeds, and that the
   * resident memory never exceeded `maxRssMiB`. Resolves to the memory.
   */
  expectSurvival(
    validRequest: () => Promise<unknown>,
    limits?: { maxRssMiB?: number },
  ): Promise<ProgramMemory>
  /** Ends the process. The harness does this after each test as well. */
  stop(): Promise<void>
}

/** The processes that have not ended. */
const running = new Set<ChildProcess>()

/**
 * Starts a compiled program with a heap of 128 MiB and waits until it calls `reportReady(server)`.
 * @param program such as `new URL('bodies.program.js', import.meta.url)`.
 */
export async function startResourceProgram(
  program: URL,
  { env = {}, args = [] }: ResourceProgramOptions = {},
): Promise<ResourceProgram> {
  const child = fork(fileURLToPath(program), args, {
    // With c8, the program would write its coverage when it ends.
    env: { ...process.env, ...env, NODE_V8_COVERAGE: undefined },
    execArgv: ['--expose-gc', `--max-old-space-size=${HEAP_MIB}`],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  running.add(child)
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-16_000)
  })
  let end: string | undefined
  const ended = new Promise<void>((resolve) => {
    child.once('close', (code, signal) => {
      running.delete(child)
      end = `the program ended with ${signal ?? `exit code ${code}`}: ${errors}`
      resolve()
    })
  })

  const next = async <T extends ResourceMessage['type']>(type: T) => {
    const message = await Promise.race([messageOf(child, type), ended])
    if (message === undefined) throw new Error(end)
    return message
  }
  const expectAlive = (): void => {
    if (end !== undefined) throw new Error(end)
  }
  const { port } = await next('ready')

  const resourceProgram: ResourceProgram = {
    port,
    origin: `http://127.0.0.1:${port}`,
    async memory() {
      expectAlive()
      const memory = next('memory')
      child.send('memory', () => undefined)
      return (await memory).memory
    },
    async expectSurvival(validRequest, { maxRssMiB = MAX_RSS_MIB } = {}) {
      expectAlive()
      await validRequest()
      const memory = await resourceProgram.memory()
      const peakMiB = Math.round(memory.peakRss / MIB)
      expect(peakMiB, `${peakMiB} MiB of resident memory`).to.be.at.most(maxRssMiB)
      return memory
    },
    async stop() {
      child.kill('SIGKILL')
      await ended
    },
  }
  return resourceProgram
}

function messageOf<T extends ResourceMessage['type']>(
  child: ChildProcess,
  type: T,
): Promise<Extract<ResourceMessage, { type: T }>> {
  return new Promise((resolve) => {
    const listen = (message: unknown) => {
      const received = message as ResourceMessage
      if (received.type !== type) return
      child.off('message', listen)
      resolve(received as Extract<ResourceMessage, { type: T }>)
    }
    child.on('message', listen)
  })
}

afterEach(async () => {
  // They include programs that never became ready.
  const ends = [...running].map((child) => once(child, 'close'))
  for (const child of running) child.kill('SIGKILL')
  await Promise.all(ends)
})
