/** One call of a tool. */
export interface ToolCall {
  /** Of its event. */
  readonly number: number
  readonly tool: string
  readonly ms: number
  readonly failed: boolean
}

/** Calls that are drawn, and that the median is of. */
const MAX_CALLS = 96

/** The latest calls of tools, and how long they took. */
export class Timings {
  #calls: ToolCall[] = []
  add(call: ToolCall): void {
    this.#calls.push(call)
    if (this.#calls.length > MAX_CALLS * 2) this.#calls = this.#calls.slice(-MAX_CALLS)
  }

  /** The latest, at most as many as are drawn. */
  latest(): readonly ToolCall[] {
    return this.#calls.slice(-MAX_CALLS)
  }

  clear(): void {
    this.#calls = []
  }
}

/** How many places a drawing has. */
export const PLACES: number = MAX_CALLS

/** The duration that the given part of the calls do not exceed; undefined without calls. */
export function quantile(calls: readonly ToolCall[], part: number): number | undefined {
  const sorted = calls.map(({ ms }) => ms).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)]
}

/** `3.2 ms`, `1.25 s`. */
export function durationText(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`
  return `${ms.toFixed(ms >= 100 ? 0 : ms >= 1 ? 1 : 2)} ms`
}

/** Powers of ten, in milliseconds, between which all durations lie. */
export function decades(calls: readonly ToolCall[]): { readonly from: number; readonly to: number } {
  const durations = calls.map(({ ms }) => ms)
  const from = Math.max(-2, Math.floor(Math.log10(Math.min(1, ...durations))))
  return { from, to: Math.max(2, Math.ceil(Math.log10(Math.max(1, ...durations)))) }
}
