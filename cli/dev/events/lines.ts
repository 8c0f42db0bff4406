import { type Html, html, span } from '../../html.ts'
import type { ConsoleEvent } from './event.ts'
import type { EventRow, Row } from './row.ts'
import type { Story } from './stories.ts'

/** The line of an event, as the page gets it. */
export type PageRow = ReturnType<typeof pageRow>

const SIGNS: Readonly<Record<Row['tone'], string>> = { good: '✓', bad: '✕', warn: '!', plain: '·' }

/** Returns a time, which the page shows as the local time of day. */
export const timeOf = (iso: string): Html => html`<time>${iso}</time>`

/** Returns the line of an event with its details. */
export function pageRow(row: EventRow) {
  const { number, event, group, tone, word, title, operation, outcome, isProbe, ms } = row
  return {
    number,
    group,
    isProblem: (tone === 'bad' || tone === 'warn') && !isProbe,
    /** The words of the line, in which the page searches. */
    words: `${word} ${title}`,
    /** The sentence for screen readers, if the request was refused. */
    refusal: outcome === 'refused' && !isProbe ? [title, operation ?? []].flat().join(', ') : undefined,
    line: html`<li class="row ${tone}" id="event-${number}" role="option" aria-selected="false"
      data-number="${number}">${contentOf(row, row.about)}<span class="ms">${ms === undefined ? '' : durationText(ms)}</span></li>`
      .text,
    details: detailsOf(row).text,
    event,
  }
}

function contentOf({ time, tone, word, title, facts, hint }: Row, about: string): Html {
  return html`<span class="time">${timeOf(time)}</span>
    <span class="chip">${span('sign', SIGNS[tone])}${word}</span>
    <span class="what">${span('title', title)}${span('about', about)}
      ${facts.map((fact) => span('fact', fact))}${span('hint', tone === 'bad' ? hint : '')}</span>`
}

/** Returns all data of one event. */
function detailsOf({ event, tone, word, title, hint, facts }: EventRow): Html {
  const { name, time, attributes = {}, error, ...about } = event
  return html`<div class="bar"><h2 id="details-title">${name}</h2><button type="button" id="close" aria-label="Close the details">✕</button></div>
    <div id="details-body" class="body" tabindex="0" role="region" aria-labelledby="details-title">
      <p class="verdict ${tone}"><strong>${word}</strong> ${title}</p>
      ${paragraph('hint', hint)}
      ${facts.map((fact) => paragraph('fact', fact))}
      <dl><dt>time</dt><dd>${timeOf(time)}</dd>${definitions(about)}</dl>
      <dl>${definitions(attributes)}</dl>
      ${error === undefined ? '' : html`<pre>${errorText(error)}</pre>`}</div>
    <div class="actions"><button type="button" id="only-session" data-session="${event.sessionId}">Only this session</button>
      <button type="button" id="copy" data-copy="">Copy as JSON</button></div>`
}

function paragraph(className: string, text: string | undefined): Html {
  return text === undefined ? html`` : html`<p class="${className}">${text}</p>`
}

function definitions(values: Readonly<Record<string, unknown>>): readonly Html[] {
  return Object.entries(values).map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' ')
    return html`<dt>${name}</dt><dd>${text}</dd>`
  })
}

function errorText({ name, message, code, stack }: NonNullable<ConsoleEvent['error']>): string {
  return stack ?? `${code === undefined ? name : `${name} (${code})`}: ${message}`
}

/** Returns a client with its steps. That of probes is closed. */
export function storyHtml({ steps, ...story }: Story): string {
  const { name, user, state, tone, next, dropped, startedAt, isProbe } = story
  const id = `story-${story.id}`
  const rows = steps.map((step, index) => {
    const about = step.count > 1 ? `× ${countText(step.count)}` : ''
    return html`<li class="${step.tone}"><button type="button" class="step" id="step-of-${id}-${index}"
      data-number="${step.number}">${contentOf(step, about)}</button></li>`
  })
  if (dropped > 0) rows.splice(-1, 0, html`<li class="dropped">… ${dropped} more steps</li>`)
  return html`<details id="${id}" class="story" ${isProbe ? html`` : html`open`}>
    <summary class="head" id="head-of-${id}"><strong>${name}</strong>
      <span class="who">${user === undefined ? '' : `· ${user}`}</span>
      <span class="chip ${tone}">${state}</span><span class="time">${timeOf(startedAt)}</span></summary>
    <ol class="steps">${rows}</ol>
    ${next === undefined ? '' : html`<p class="next ${tone}"><strong>Next</strong> ${next}</p>`}</details>`
    .text
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
