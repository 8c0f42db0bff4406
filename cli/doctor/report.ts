import { createHash } from 'node:crypto'
import { counted } from '../../src/base/options/counted.ts'
import { Html, html, THEME } from '../html.ts'
import { type CheckReport, countsOf, type DoctorReport } from './doctor.ts'
import type { Status } from './finding.ts'

const LOOKS: Readonly<
  Record<Status, { readonly mark: string; readonly color: number; readonly label: string }>
> = {
  ok: { mark: '✓', color: 32, label: 'Passed' },
  warn: { mark: '!', color: 33, label: 'Warning' },
  fail: { mark: '✗', color: 31, label: 'Failure' },
  skip: { mark: '-', color: 2, label: 'Skipped' },
}
const BOLD = 1
const DIM = 2

/** Formats a report as text. @param colors `true` to use ANSI colors */
export function textReport(report: DoctorReport, colors: boolean): string {
  const paint = (code: number, text: string): string => (colors ? `\x1b[${code}m${text}\x1b[0m` : text)
  const lines = [paint(BOLD, report.url)]
  let group: string | undefined
  for (const check of report.checks) {
    if (check.group !== group) lines.push('', paint(BOLD, check.group))
    group = check.group
    lines.push(...checkLines(check, paint))
  }
  const { summary, requests, durationMs } = report
  lines.push(
    '',
    paint(LOOKS[report.verdict].color, countsOf(summary).join(', ')),
    paint(DIM, `${counted(requests, 'request')} in ${(durationMs / 1000).toFixed(1)} s`),
  )
  if (report.verdict !== 'ok')
    lines.push(paint(DIM, 'docs/reference/doctor.md of mcp-gatekit describes each check'))
  return `${lines.join('\n')}\n`
}

function checkLines(check: CheckReport, paint: (code: number, text: string) => string): string[] {
  const { status, id, title, seen, hint } = check
  const mark = paint(LOOKS[status].color, LOOKS[status].mark)
  if (status === 'skip') return [`  ${mark} ${paint(DIM, `${title} (${id}): ${seen}`)}`]
  const lines = [`  ${mark} ${title} ${paint(DIM, `(${id})`)}`, `      ${seen}`]
  if (hint !== undefined) lines.push(`      hint: ${hint}`)
  return lines
}

const STYLE = `:root {
${THEME}
  --skip: var(--dim);
  font: 15px/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif;
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 860px; padding: 24px 16px 48px; background: var(--ground); color: var(--text) }
h1, h2, h3, p, ul, dl, dd { margin: 0; padding: 0; overflow-wrap: anywhere }
h1 { font-size: 20px; font-weight: 650 }
h2 { font-size: 16px; font-weight: 650; margin: 28px 0 8px }
h3 { font-size: 15px; font-weight: 600 }
details { margin-top: 12px }
summary { cursor: pointer; color: var(--dim) }
summary h2 { display: inline; margin-right: 6px; color: var(--text) }
details ul { margin-top: 8px }
ul { list-style: none; background: var(--card); border: 1px solid var(--line); border-radius: 10px }
li { display: grid; grid-template-columns: 22px minmax(0, 1fr); padding: 10px 14px }
li + li { border-top: 1px solid var(--line) }
code { font: .87em ui-monospace, 'SF Mono', Menlo, Consolas, monospace; color: var(--dim); overflow-wrap: anywhere }
.mark { font-weight: 700; color: var(--skip) }
.ok .mark, strong.ok { color: var(--good) }
.warn .mark, strong.warn { color: var(--warn) }
.fail .mark, strong.fail { color: var(--bad) }
.skip, .about { color: var(--dim) }
.hint { margin-top: 4px; padding: 6px 10px; border-left: 3px solid currentcolor; color: var(--warn) }
.hint span { color: var(--text) }
.fail .hint { color: var(--bad) }
.summary { margin-top: 12px; display: flex; flex-wrap: wrap; gap: 4px 18px }
.about { margin-top: 8px; font-size: 13px }
.warn .label { color: var(--warn) }
.fail .label { color: var(--bad) }
.ok .label, .skip .label { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap }
@media print { body { max-width: none; padding: 0 } details::details-content { content-visibility: visible; block-size: auto } li { break-inside: avoid } }`

/**
 * Formats a report as an HTML page. The page has no scripts and loads nothing, so it can be sent to others. Its Content
 * Security Policy forbids everything except its own style sheet.
 */
export function htmlReport(report: DoctorReport): string {
  const { url, summary, checks, verdict, version, startedAt, requests, durationMs } = report
  const style = createHash('sha256').update(STYLE).digest('base64')
  const problems = ['fail', 'warn'].flatMap((wanted) => checks.filter(({ status }) => status === wanted))
  const others = checks.filter((check) => !problems.includes(check))
  const counts = countsOf(summary).map((text) => html`<span>${text}</span> `)
  const groups = [...new Set(others.map(({ group }) => group))]
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${style}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>Report on ${url}</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<header>
<h1>Report on ${url}</h1>
<p class="summary"><strong class="${verdict}">${VERDICTS[verdict]}</strong>${counts}</p>
<p class="about">mcp-gatekit doctor ${version}, <time datetime="${startedAt}">${startedAt.slice(0, 19).replace('T', ' ')} UTC</time>, ${requests} requests in ${(durationMs / 1000).toFixed(1)} s</p>
</header>
<main>
${problems.length === 0 ? '' : html`<section>\n<h2>Problems</h2>\n${listOf(problems)}\n</section>`}
${groups.map((title) => closedSection(title, others))}
</main>
</body>
</html>
`.text
}

const VERDICTS: Readonly<Record<DoctorReport['verdict'], string>> = {
  ok: 'No problems found',
  warn: 'The server works, with warnings',
  fail: 'The server has failures',
}

/** Returns the section of a group without problems, which the reader can open. */
function closedSection(title: string, others: readonly CheckReport[]): Html {
  const checks = others.filter(({ group }) => group === title)
  const skipped = checks.filter(({ status }) => status === 'skip').length
  const passed = checks.length - skipped
  const counts = [passed > 0 && `${passed} passed`, skipped > 0 && `${skipped} skipped`]
  return html`<details>
<summary><h2>${title}</h2> ${counts.filter(Boolean).join(', ')}</summary>
${listOf(checks)}
</details>
`
}

function listOf(checks: readonly CheckReport[]): Html {
  return html`<ul>\n${checks.map(item)}</ul>`
}

function item({ status, id, title, seen, hint }: CheckReport): Html {
  const { mark, label } = LOOKS[status]
  return html`<li class="${status}"><span class="mark" aria-hidden="true">${mark.replace('-', '–')}</span><div>
<h3><span class="label">${label}: </span>${title} <code>${id}</code></h3>
<p>${seen}</p>${hint === undefined ? '' : html`\n<p class="hint"><span><b>Fix:</b> ${hint}</span></p>`}
</div></li>
`
}
