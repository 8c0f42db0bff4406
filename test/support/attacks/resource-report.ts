import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Messages from an attacked program to its test. */
export type ResourceMessage =
  | { readonly type: 'ready'; readonly port: number }
  | { readonly type: 'memory'; readonly memory: ProgramMemory }

/** The memory of an attacked program, in bytes. */
export interface ProgramMemory {
  /** Live objects on the heap, after a garbage collection. */
  readonly heapUsed: number
  /** Buffers outside the heap, after a garbage collection. */
  readonly external: number
  /** The largest resident set size since the program started. */
  readonly peakRss: number
}

/**
 * Reports to the test that started this program that `server` listens, and sends its memory on request. A program
 * without a server calls `reportReady(0)`. The program ends when the test disconnects.
 */
export function reportReady(server: Server | number): void {
  const port = typeof server === 'number' ? server : (server.address() as AddressInfo).port
  process.on('message', (message) => {
    if (message !== 'memory') return
    globalThis.gc?.()
    const { heapUsed, external } = process.memoryUsage()
    // On Linux, `maxRSS` begins with the resident memory of the parent at the time of the fork.
    const status = process.platform === 'linux' ? readFileSync('/proc/self/status', 'utf8') : ''
    const peakKib = /^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? process.resourceUsage().maxRSS
    report({ type: 'memory', memory: { heapUsed, external, peakRss: Number(peakKib) * 1024 } })
  })
  process.once('disconnect', () => process.exit())
  report({ type: 'ready', port })
}

function report(message: ResourceMessage): void {
  if (process.send === undefined) throw new Error('Start this program with startResourceProgram().')
  process.send(message)
}
