import type { EventRow, Row, StoryRow } from '../events/row.ts'
import type { ToolCall } from '../events/summary.ts'
import { span } from './browser.ts'
import { type Html, html } from './html.ts'

const SIGNS: Readonly<Record<Row['tone'], string>> = { good: '✓', bad: '✕', warn: '!', plain: '·' }

function contentOf({ time, tone, word, title, facts, hint }: Row, about: string): Html {
  return html`${span('time', timeText(time))}
    <span class="chip">${span('sign', SIGNS[tone])}${word}</span>
    <span class="what">${span('title', title)}${span('about', about)}
      ${facts.map((fact) => span('fact', fact))}${span('hint', tone === 'bad' ? hint : '')}</span>`
}

/** Returns the ID of the line of an event. */
export const idOf = ({ number }: EventRow): string => `event-${number}`

/** Returns the lines of events by their IDs. */
export function eventItems(
  rows: readonly EventRow[],
  selected: EventRow | undefined,
): ReadonlyMap<string, Html> {
  return new Map(rows.map((row) => [idOf(row), eventItem(row, row === selected)]))
}

function eventItem(row: EventRow, isSelected: boolean): Html {
  return html`<li class="row ${row.tone}" id="${idOf(row)}" role="option" aria-selected="${String(isSelected)}"
    data-number="${row.number}">${contentOf(row, row.about)}<span class="ms">${row.ms === undefined ? '' : durationText(row.ms)}</span></li>`
}

/** Returns clients with their steps by their IDs. Those of probes are closed. @param toggled the IDs of the others */
export function storyItems(
  stories: readonly StoryRow[],
  toggled: ReadonlySet<string>,
): ReadonlyMap<string, Html> {
  return new Map(
    stories.map((story) => {
      const id = `story-${story.id}`
      return [id, storyItem(id, story, story.isProbe === toggled.has(id))]
    }),
  )
}

function storyItem(id: string, { steps, ...story }: StoryRow, isOpen: boolean): Html {
  const { name, user, state, tone, next, dropped, startedAt } = story
  const rows = steps.map((step, index) => {
    const about = step.count > 1 ? `× ${countText(step.count)}` : ''
    return html`<li class="${step.tone}"><button type="button" class="step" id="step-of-${id}-${index}"
      data-number="${step.number}">${contentOf(step, about)}</button></li>`
  })
  if (dropped > 0) rows.splice(-1, 0, html`<li class="dropped">… ${dropped} more steps</li>`)
  return html`<li id="${id}" class="${isOpen ? 'story' : 'story closed'}" aria-label="${name}: ${state}">
    <h3><button type="button" class="head" id="head-of-${id}" data-story="${id}" aria-expanded="${String(isOpen)}">
      <strong>${name}</strong><span class="who">${user === undefined ? '' : `· ${user}`}</span>
      <span class="chip ${tone}">${state}</span>${span('time', timeText(startedAt))}</button></h3>
    <ol class="steps">${rows}</ol>
    ${next === undefined ? '' : html`<p class="next ${tone}"><strong>Next</strong> ${next}</p>`}</li>`
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
