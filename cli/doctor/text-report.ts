import { counted } from '../../src/options/counted.ts'
import { type CheckReport, countsOf, type DoctorReport } from './doctor.ts'
import type { Status } from './finding.ts'

const MARKS: Readonly<Record<Status, string>> = { ok: '✓', warn: '!', fail: '✗', skip: '-' }
const COLORS: Readonly<Record<Status, number>> = { ok: 32, warn: 33, fail: 31, skip: 2 }
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
    paint(COLORS[report.verdict], countsOf(summary).join(', ')),
    paint(DIM, `${counted(requests, 'request')} in ${(durationMs / 1000).toFixed(1)} s`),
  )
  if (report.verdict !== 'ok')
    lines.push(paint(DIM, 'docs/reference/doctor.md of mcp-gatekit describes each check'))
  return `${lines.join('\n')}\n`
}

function checkLines(check: CheckReport, paint: (code: number, text: string) => string): string[] {
  const { status, id, title, seen, hint } = check
  const mark = paint(COLORS[status], MARKS[status])
  if (status === 'skip') return [`  ${mark} ${paint(DIM, `${title} (${id}): ${seen}`)}`]
  const lines = [`  ${mark} ${title} ${paint(DIM, `(${id})`)}`, `      ${seen}`]
  if (hint !== undefined) lines.push(`      hint: ${hint}`)
  return lines
}
