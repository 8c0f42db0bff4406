import type { TelemetryEnvelope, TelemetryErrorInfo } from '../../envelope/envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../../levels.ts'

/**
 * One message about one or many events, as plain text: the most severe event in full, the rest counted.
 * Every text is well-formed, without control characters other than the line feeds of `details`, and within the length
 * stated, in UTF-16 units; together they have less than 4000.
 */
export interface Digest {
  readonly level: TelemetryLevel
  /** The name of the event; at most 200. */
  readonly name: string
  /** ` and 214 more`, or empty. */
  readonly more: string
  /** `TypeError: message`, or empty; at most 400. */
  readonly error: string
  /**
   * What there is of: the error and its stack, at most 1200; `key: value` of each attribute, 1100;
   * `200 × ERROR billing.invoice.failed` of the other events, 700. Each is one or more lines.
   */
  readonly details: readonly string[]
  /** `billing · production · user:u1 · …`; at most 600. */
  readonly origin: string
  /** The service by itself, at most 80. */
  readonly service: string
  /** ISO 8601; absent where the event's time is not. */
  readonly time?: string
}

const MAX_OTHER_KINDS = 10

/** @param envelopes at least one, in the order of the emits */
export function digestOf(envelopes: readonly TelemetryEnvelope[]): Digest {
  const lead = mostSevere(envelopes)
  const error = lead.error === undefined ? '' : errorLine(lead.error)
  const details = [
    lead.error?.stack === undefined ? error : `${error}\n${stackLines(lead.error, 799)}`.trimEnd(),
    attributeLines(lead.attributes ?? {}, 1100),
    otherLines(envelopes, lead, 700),
  ]
  return {
    level: lead.level,
    name: oneLine(lead.name, 200),
    more: envelopes.length === 1 ? '' : ` and ${envelopes.length - 1} more`,
    error,
    details: details.filter((detail) => detail !== ''),
    origin: originOf(lead, 600),
    service: oneLine(lead.service, 80),
    ...timeOf(lead),
  }
}

/** Written anew, because `Date.parse` takes more than services do, such as a comment in parentheses. */
function timeOf({ time }: TelemetryEnvelope): { readonly time?: string } {
  const ms = /^\d{4}-/.test(time) ? Date.parse(time) : Number.NaN
  return Number.isNaN(ms) ? {} : { time: new Date(ms).toISOString() }
}

/** `text` in at most `max` UTF-16 units; where it is cut, the last is `…` and no character is split. */
export function cut(text: string, max: number): string {
  if (text.length <= max) return text
  const splits = /[\ud800-\udbff]/.test(text.charAt(max - 2))
  return `${text.slice(0, splits ? max - 2 : max - 1)}…`
}

/** What could end a line, reverse the reading direction, or be taken out by the service. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g

/** Escapes what `UNSAFE` finds, as in `\n`. */
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

/** Replaces lone surrogates, which no service takes. */
function wellFormed(text: string): string {
  // In every Node this package runs on, but not yet in the library typings of its target.
  return (text as string & { toWellFormed(): string }).toWellFormed()
}

/** The first of the highest level. */
function mostSevere(envelopes: readonly TelemetryEnvelope[]): TelemetryEnvelope {
  return envelopes.reduce((most, envelope) =>
    LEVEL_PRIORITY[envelope.level] > LEVEL_PRIORITY[most.level] ? envelope : most,
  )
}

function errorLine({ name, message, code }: TelemetryErrorInfo): string {
  const suffix = code === undefined ? '' : ` (${oneLine(code, 80)})`
  return oneLine(`${name}: ${message}`, 400 - suffix.length) + suffix
}

/** The stack without its beginning, which repeats the error. */
function stackLines({ name, message, stack = '' }: TelemetryErrorInfo, max: number): string {
  const head = `${name}: ${message}`
  const frames = stack.startsWith(head) ? stack.slice(head.length) : stack
  return manyLines(frames.replace(/^[^\S\n]*\n/, ''), max)
}

function attributeLines(attributes: Readonly<Record<string, unknown>>, max: number): string {
  const keys = Object.keys(attributes)
  const lines: string[] = []
  // Room for the line that tells what is missing.
  let room = max - 40
  for (const key of keys) {
    const line = `${oneLine(key, 80)}: ${oneLine(textOf(attributes[key]), 240)}`.trimEnd()
    if (line.length + 1 > room) break
    room -= line.length + 1
    lines.push(line)
  }
  if (lines.length < keys.length) lines.push(`… ${keys.length - lines.length} attributes left out`)
  return lines.join('\n')
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
}

/** What else is told of: how many events of which kind, the most severe and most frequent first. */
function otherLines(envelopes: readonly TelemetryEnvelope[], lead: TelemetryEnvelope, max: number): string {
  const kinds = new Map<string, { readonly envelope: TelemetryEnvelope; count: number }>()
  for (const envelope of envelopes) {
    if (envelope === lead) continue
    const key = JSON.stringify([envelope.level, envelope.name, envelope.error?.name])
    const kind = kinds.get(key)
    if (kind === undefined) kinds.set(key, { envelope, count: 1 })
    else kind.count++
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
  if (lines.length < sorted.length) lines.push(`… ${sorted.length - lines.length} kinds left out`)
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
  const told = parts
    .filter((part) => part !== undefined && part.trim() !== '')
    .map((part) => oneLine(part as string, 80).trim())
  return cut(told.join(' · '), max)
}
