import type { Row } from '../events/row.ts'
import type { ToolCall } from '../events/summary.ts'
import { type Html, html, span } from './browser.ts'

const SIGNS: Readonly<Record<Row['tone'], string>> = { good: '✓', bad: '✕', warn: '!', plain: '·' }

/** Returns the content of a line. @param about a text after the title */
export function rowContent({ time, tone, word, title, facts, hint }: Row, about: string): Html {
  return html`${span('time', timeText(time))}
    <span class="chip">${span('sign', SIGNS[tone])}${word}</span>
    <span class="what">${span('title', title)}${span('about', about)}
      ${facts.map((fact) => span('fact', fact))}${span('hint', tone === 'bad' ? hint : '')}</span>`
}

/** Formats a time as the local time of day with milliseconds. */
export function timeText(iso: string): string {
  const time = new Date(iso)
  if (Number.isNaN(time.getTime())) return iso
  const two = (part: number): string => String(part).padStart(2, '0')
  const clock = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':')
  return `${clock}.${String(time.getMilliseconds()).padStart(3, '0')}`
}

/** Formats a number, such as `1,234`. */
export function countText(count: number): string {
  return Number(count).toLocaleString('en')
}

/** Formats a duration, such as `3.2 ms` or `1.25 s`. */
export function durationText(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`
  return `${ms.toFixed(ms >= 100 ? 0 : ms >= 1 ? 1 : 2)} ms`
}

/** Returns a quantile of the durations, such as the median for 0.5, or `undefined` without calls. */
export function quantile(calls: readonly ToolCall[], part: number): number | undefined {
  const sorted = calls.map(({ ms }) => ms).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * part) - 1)]
}

/** Returns the exponents of the powers of ten, in milliseconds, that enclose all durations. */
export function decades(calls: readonly ToolCall[]): { readonly from: number; readonly to: number } {
  const durations = calls.map(({ ms }) => ms)
  const from = Math.max(-2, Math.floor(Math.log10(Math.min(1, ...durations))))
  return { from, to: Math.max(2, Math.ceil(Math.log10(Math.max(1, ...durations)))) }
}
