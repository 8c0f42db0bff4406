import type { ToolCall } from '../events/summary.ts'

/** Returns a quantile of the durations, such as the median for 0.5, or `undefined` without calls. */
export function quantile(calls: readonly ToolCall[], part: number): number | undefined {
  const sorted = calls.map(({ ms }) => ms).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)]
}

/** Formats a duration, such as `3.2 ms` or `1.25 s`. */
export function durationText(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`
  return `${ms.toFixed(ms >= 100 ? 0 : ms >= 1 ? 1 : 2)} ms`
}

/** Returns the exponents of the powers of ten, in milliseconds, that enclose all durations. */
export function decades(calls: readonly ToolCall[]): { readonly from: number; readonly to: number } {
  const durations = calls.map(({ ms }) => ms)
  const from = Math.max(-2, Math.floor(Math.log10(Math.min(1, ...durations))))
  return { from, to: Math.max(2, Math.ceil(Math.log10(Math.max(1, ...durations)))) }
}
