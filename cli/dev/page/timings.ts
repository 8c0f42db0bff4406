/** One tool call. */
export interface ToolCall {
  /** The sequence number of the event. */
  readonly number: number
  readonly tool: string
  readonly ms: number
  readonly failed: boolean
}

/** The maximum number of calls in the chart and in the median. */
const MAX_CALLS = 96

/** The durations of the latest tool calls. */
export class Timings {
  #calls: ToolCall[] = []
  add(call: ToolCall): void {
    this.#calls.push(call)
    if (this.#calls.length > MAX_CALLS * 2) this.#calls = this.#calls.slice(-MAX_CALLS)
  }

  /** Returns the calls for the chart, oldest first. */
  latest(): readonly ToolCall[] {
    return this.#calls.slice(-MAX_CALLS)
  }

  clear(): void {
    this.#calls = []
  }
}

/** The number of bars that fit in the chart. */
export const PLACES: number = MAX_CALLS

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
