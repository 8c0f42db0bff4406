import { performance } from 'node:perf_hooks'

/** Milliseconds since `startedAt`, to a thousandth. */
export function elapsedMs(startedAt: number): number {
  return Math.round((performance.now() - startedAt) * 1000) / 1000
}
