import type { CheckReport, DoctorReport } from './doctor.ts'
import type { Status } from './finding.ts'

const MARKS: Readonly<Record<Status, string>> = { ok: '✓', warn: '!', fail: '✗', skip: '-' }
const COLOURS: Readonly<Record<Status, number>> = { ok: 32, warn: 33, fail: 31, skip: 2 }
const BOLD = 1
const DIM = 2

/** The report for people. @param colours whether the terminal shows any */
export function textReport(report: DoctorReport, colours: boolean): string {
  const paint = (code: number, text: string): string => (colours ? `\x1b[${code}m${text}\x1b[0m` : text)
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
    paint(COLOURS[report.verdict], counts(summary)),
    paint(DIM, `${requests} requests in ${(durationMs / 1000).toFixed(1)} s`),
  )
  if (report.verdict !== 'ok')
    lines.push(paint(DIM, 'What each check means: docs/reference/doctor.md of mcp-gatekit'))
  return `${lines.join('\n')}\n`
}

function checkLines(check: CheckReport, paint: (code: number, text: string) => string): string[] {
  const { status, id, title, seen, hint } = check
  const mark = paint(COLOURS[status], MARKS[status])
  if (status === 'skip') return [`  ${mark} ${paint(DIM, `${title} (${id}): ${seen}`)}`]
  const lines = [`  ${mark} ${title} ${paint(DIM, `(${id})`)}`, `      ${seen}`]
  if (hint !== undefined) lines.push(`      hint: ${hint}`)
  return lines
}

function counts({ ok, warn, fail, skip }: DoctorReport['summary']): string {
  const of = (count: number, name: string): string => `${count} ${name}${count === 1 ? '' : 's'}`
  return `${ok} good, ${of(warn, 'warning')}, ${of(fail, 'failure')}, ${skip} skipped`
}
