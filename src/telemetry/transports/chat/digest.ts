import { counted } from '../../../options/counted.ts'
import type { TelemetryEnvelope, TelemetryErrorInfo } from '../../envelope/envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../../levels.ts'
import type { Alert } from './alert-groups.ts'

/**
 * The parts of a message about one or more events, as plain text: the most severe event in full, and the number of the
 * others. All strings are well-formed and without control characters, except for line feeds in `details`. Their lengths are
 * in UTF-16 units, and below 4000 in total.
 */
export interface Digest {
  readonly level: TelemetryLevel
  /** The name of the event, at most 200. */
  readonly name: string
  /** The number of other events, as in ` and 214 more` or ` (37 more in 5 minutes)`, or an empty string. */
  readonly more: string
  /** The error, as in `TypeError: message`, or an empty string. At most 400. */
  readonly error: string
  /**
   * Up to three parts of one or more lines: the error with its stack, at most 1200; the attributes as `key: value`, at most
   * 1100; the other events as `200 × ERROR billing.invoice.failed`, at most 700.
   */
  readonly details: readonly string[]
  /** The origin of the event, as in `billing · production · user:u1 · …`. At most 600. */
  readonly origin: string
  /** The service, at most 80. */
  readonly service: string
  /** The time of the event in ISO 8601. Missing if the time of the event is not. */
  readonly time?: string
}

const MAX_OTHER_KINDS = 10

/** Returns the digest of alerts. @param alerts at least one, in the order of the `emit` calls. */
export function digestOf(alerts: readonly Alert[]): Digest {
  const first = mostSevere(alerts)
  const { envelope: lead } = first
  const error = lead.error === undefined ? '' : errorLine(lead.error)
  const details = [
    lead.error?.stack === undefined ? error : `${error}\n${stackLines(lead.error, 799)}`.trimEnd(),
    attributeLines(lead.attributes ?? {}, 1100),
    otherLines(alerts, first, 700),
  ]
  return {
    level: lead.level,
    name: oneLine(lead.name, 200),
    more: moreOf(alerts, first),
    error,
    details: details.filter((detail) => detail !== ''),
    origin: originOf(lead, 600),
    service: oneLine(lead.service, 80),
    ...timeOf(lead),
  }
}

function moreOf(alerts: readonly Alert[], { count, withinMs }: Alert): string {
  const all = alerts.reduce((sum, alert) => sum + alert.count, 0)
  const repeated = withinMs === undefined ? '' : ` (${count} more in ${durationOf(withinMs)})`
  const others = all - (withinMs === undefined ? 1 : count)
  return others === 0 ? repeated : `${repeated} and ${others} more`
}

function durationOf(ms: number): string {
  const seconds = Math.max(1, Math.round(ms / 1000))
  return seconds < 60 ? counted(seconds, 'second') : counted(Math.round(seconds / 60), 'minute')
}

/** Returns a time in ISO 8601. `Date.parse` accepts more formats than the services, such as comments in parentheses. */
function timeOf({ time }: TelemetryEnvelope): { readonly time?: string } {
  const ms = /^\d{4}-/.test(time) ? Date.parse(time) : Number.NaN
  return Number.isNaN(ms) ? {} : { time: new Date(ms).toISOString() }
}

/** Cuts a string to `max` UTF-16 units, so that it ends with `…`. Never splits a character. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text
  const splits = /[\ud800-\udbff]/.test(text.charAt(max - 2))
  return `${text.slice(0, splits ? max - 2 : max - 1)}…`
}

/** The characters that could end a line, reverse the reading direction, or be removed by the service. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** Escapes the characters that `UNSAFE` matches, as in `\n`. */
function oneLine(text: string, max: number): string {
  return cut(wellFormed(cut(text, max)).replace(UNSAFE, escapeUnit), max)
}

function manyLines(text: string, max: number): string {
  const lines = wellFormed(cut(text, max)).replaceAll('\r\n', '\n').replaceAll('\t', ' ')
  return cut(
    lines.replace(UNSAFE, (unit) => (unit === '\n' ? unit : escapeUnit(unit))),
    max,
  )
}

function escapeUnit(unit: string): string {
  const json = JSON.stringify(unit).slice(1, -1)
  return json === unit ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}` : json
}

/** Replaces lone surrogates, which no service accepts. */
function wellFormed(text: string): string {
  // All supported versions of Node have this method, but the types of the compilation target do not.
  return (text as string & { toWellFormed(): string }).toWellFormed()
}

/** Returns the first alert of the highest level. */
function mostSevere(alerts: readonly Alert[]): Alert {
  return alerts.reduce((most, alert) =>
    LEVEL_PRIORITY[alert.envelope.level] > LEVEL_PRIORITY[most.envelope.level] ? alert : most,
  )
}

function errorLine({ name, message, code }: TelemetryErrorInfo): string {
  const suffix = code === undefined ? '' : ` (${oneLine(code, 80)})`
  return oneLine(`${name}: ${message}`, 400 - suffix.length) + suffix
}

/** Returns the stack without its beginning, which repeats the error. */
function stackLines({ name, message, stack = '' }: TelemetryErrorInfo, max: number): string {
  const head = `${name}: ${message}`
  const frames = stack.startsWith(head) ? stack.slice(head.length) : stack
  return manyLines(frames.replace(/^[^\S\n]*\n/, ''), max)
}

function attributeLines(attributes: Readonly<Record<string, unknown>>, max: number): string {
  const keys = Object.keys(attributes)
  const lines: string[] = []
  // Leaves room for the line that counts the omitted ones.
  let room = max - 40
  for (const key of keys) {
    const line = `${oneLine(key, 80)}: ${oneLine(textOf(attributes[key]), 240)}`.trimEnd()
    if (line.length + 1 > room) break
    room -= line.length + 1
    lines.push(line)
  }
  if (lines.length < keys.length) lines.push(`… ${counted(keys.length - lines.length, 'attribute')} left out`)
  return lines.join('\n')
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
}

/** Returns the other events by level and name with their number, the most severe and most frequent first. */
function otherLines(alerts: readonly Alert[], lead: Alert, max: number): string {
  const kinds = new Map<string, { readonly envelope: TelemetryEnvelope; count: number }>()
  for (const alert of alerts) {
    const { envelope } = alert
    if (alert === lead) continue
    const key = JSON.stringify([envelope.level, envelope.name, envelope.error?.name])
    const kind = kinds.get(key)
    if (kind === undefined) kinds.set(key, { envelope, count: alert.count })
    else kind.count += alert.count
  }
  const sorted = [...kinds.values()].sort(
    (a, b) => LEVEL_PRIORITY[b.envelope.level] - LEVEL_PRIORITY[a.envelope.level] || b.count - a.count,
  )
  const lines: string[] = []
  let room = max - 40
  for (const { envelope, count } of sorted.slice(0, MAX_OTHER_KINDS)) {
    const error = envelope.error === undefined ? '' : ` ${envelope.error.name}`
    const line =
      `${count} × ${envelope.level.toUpperCase()} ${oneLine(`${envelope.name}${error}`, 120)}`.trimEnd()
    if (line.length + 1 > room) break
    room -= line.length + 1
    lines.push(line)
  }
  if (lines.length < sorted.length) lines.push(`… ${counted(sorted.length - lines.length, 'kind')} left out`)
  return lines.join('\n')
}

function originOf(envelope: TelemetryEnvelope, max: number): string {
  const { service, environment, version, actor, scope, source, sessionId } = envelope
  const parts = [
    service,
    environment,
    version,
    actor && (actor.id === undefined ? actor.type : `${actor.type}:${actor.id}`),
    scope && `${scope.type}:${scope.id}`,
    source?.causer,
    source?.file && (source.line === undefined ? source.file : `${source.file}:${source.line}`),
    sessionId,
    envelope.time,
  ]
  const origin = parts
    .filter((part) => part !== undefined && part.trim() !== '')
    .map((part) => oneLine(part as string, 80).trim())
  return cut(origin.join(' · '), max)
}
