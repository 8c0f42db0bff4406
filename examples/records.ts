import type { OtlpRecord } from './otlp-receiver.ts'
import { paint, shorten } from './wire.ts'

const COLUMNS = ['event', 'level', 'actor', 'about', 'times', 'session', 'duration']

/**
 * Prints the records as a table. Records that differ only in session and duration share a row; in the short form, also those
 * that differ only in their method and tool.
 */
export function printTable(records: readonly OtlpRecord[], form: 'short' | 'full'): void {
  const about = form === 'short' ? ['reason'] : ['reason', 'mcp.method.name', 'gen_ai.tool.name']
  const cellsOf = (record: OtlpRecord) => cells(record, about)
  const groups = new Map<string, OtlpRecord[]>()
  for (const record of records) {
    const key = cellsOf(record).join('\n')
    groups.set(key, [...(groups.get(key) ?? []), record])
  }
  const rows = [...groups.values()].map((group) => [
    ...cellsOf(group[0] as OtlpRecord),
    `${group.length}×`,
    sessionsOf(group),
    durationsOf(group),
  ])
  const widths = COLUMNS.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  const line = (cells: readonly string[]) =>
    `    ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')}`.trimEnd()

  console.log(paint('bold', line(COLUMNS)))
  for (const row of rows) {
    const text = line(row)
    console.log(row[1] === 'info' || row[1] === 'debug' ? text : paint('yellow', text))
  }
}

/** Returns the cells by which records are grouped: event, level, actor, and subject. */
function cells(record: OtlpRecord, about: readonly string[]): string[] {
  const { eventName, severityText, attributes } = record
  const actor = attributes['kit.actor.type']
  return [
    String(eventName),
    String(severityText).toLowerCase(),
    actor === undefined ? '–' : `${actor}:${attributes['kit.actor.id']}`,
    about
      .filter((key) => attributes[key] !== undefined)
      .map((key) => String(attributes[key]))
      .join(' ') || '–',
  ]
}

function sessionsOf(records: readonly OtlpRecord[]): string {
  const sessions = new Set(records.map(({ attributes }) => String(attributes['session.id'])))
  // The IDs begin with the time, so only their ends differ visibly.
  const [first = ''] = [...sessions].map((id) => `…${id.slice(-8)}`)
  return sessions.size > 1 ? `${first} +${sessions.size - 1}` : first
}

function durationsOf(records: readonly OtlpRecord[]): string {
  const durations = records.map(({ attributes }) => Number(attributes.duration_ms)).filter(Number.isFinite)
  if (durations.length === 0) return '–'
  const [least, most] = [Math.min(...durations).toFixed(1), Math.max(...durations).toFixed(1)]
  return least === most ? `${least} ms` : `${least} – ${most} ms`
}

/** Returns the given secrets and strings, and values of `Authorization` headers, that occur in `text`. */
export function findLeaks(text: string, secrets: Iterable<string>, texts: readonly string[]): string[] {
  const leaks: string[] = []
  for (const secret of secrets) {
    // The payload or the signature of a JWT is also secret. Its header is not.
    const jwt = /^eyJ[\w-]+\.([\w-]+)\.([\w-]+)$/.exec(secret)
    const parts = jwt === null ? [secret] : jwt.slice(1)
    if (parts.some((part) => text.includes(part))) leaks.push(`the secret ${shorten(secret)}`)
  }
  for (const searched of texts) {
    if (text.toLowerCase().includes(searched.toLowerCase())) leaks.push(searched)
  }
  const authorization = /\b(?:Bearer|Basic|DPoP) +[\w~+/.-]{8,}/i.exec(text)
  if (authorization !== null) leaks.push(`an Authorization value, ${authorization[0].slice(0, 15)}…`)
  return leaks
}
