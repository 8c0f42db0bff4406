import { fork } from 'node:child_process'
import { once } from 'node:events'

/** A request to the process of a contestant, and what it responds with. */
export interface HostReplies {
  /** The CPU time of the process in microseconds. */
  cpu: number
  /** The resident memory in bytes. */
  rss: number
  /** The memory after a garbage collection. It requires `--expose-gc`. */
  memory: HostMemory
  /** The 99th percentile of the event loop delay since the last request for it, in milliseconds. */
  delay: number
  /** The time that garbage collection took since the last request for it, in milliseconds. */
  collected: number
  /** Starts to sample allocations. */
  sample: true
  /** Stops to sample. The number is the bytes of the V8 heap that were allocated meanwhile. */
  allocated: number
  /** Starts to profile the processor. */
  profile: true
  /** Stops to profile. The number is the share of the samples in code of this package, of those of a busy process. */
  profiled: number
}

/** The memory, connections, and timers of a contestant at one time. */
export interface HostMemory {
  readonly heapUsed: number
  readonly rss: number
  readonly connections: number
  /** Timers that keep the process alive. */
  readonly activeTimers: number
  /** All timers, including those that do not keep the process alive. Undefined unless the process counts them. */
  readonly timers: number | undefined
}

/** The argument that makes the process count all timers. This changes its memory. */
export const COUNT_TIMERS = 'count-timers'

/** The process of a contestant. */
export interface StartedHost {
  readonly port: number
  /** Sends a request to the process. Call it again only after the reply. */
  ask<Request extends keyof HostReplies>(request: Request): Promise<HostReplies[Request]>
  stop(): void
}

/** Starts the process of a contestant. */
export async function startHost(
  module: URL | string,
  name: string,
  { mode = '', execArgv = [] as readonly string[] } = {},
): Promise<StartedHost> {
  const child = fork(new URL('host.js', import.meta.url), [`${module}`, name, mode], {
    execArgv: [...execArgv],
  })
  const [port] = (await once(child, 'message')) as [number]
  return {
    port,
    async ask(request) {
      child.send(request)
      const [reply] = await once(child, 'message')
      return reply
    },
    stop: () => child.disconnect(),
  }
}
