import { cutText } from '../../../base/cut-text.ts'
import { counted } from '../../../base/options/counted.ts'
import { AsyncContext } from '../../../base/runtime.ts'
import type { TelemetryEnvelope, TelemetryErrorInfo } from '../../envelope/envelope.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from '../../levels.ts'

/** An event of a message, or the latest of several events of one group. */
export interface Alert {
  readonly envelope: TelemetryEnvelope
  /** The number of events that it stands for. */
  readonly count: number
  /** The time in which the events occurred, in milliseconds, if a message about their group was sent before. */
  readonly withinMs?: number
}

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
  const first = alerts.reduce((most, alert) =>
    LEVEL_PRIORITY[alert.envelope.level] > LEVEL_PRIORITY[most.envelope.level] ? alert : most,
  )
  const { level, name, service, time, attributes = {}, error: info } = first.envelope
  const error = info === undefined ? '' : errorLine(info)
  const details = [
    info?.stack === undefined ? error : `${error}\n${stackLines(info, 799)}`.trimEnd(),
    fittingLines(attributeLines(attributes), 'attribute', 1100),
    fittingLines(otherLines(alerts, first), 'kind', 700, MAX_OTHER_KINDS),
  ]
  // `Date.parse` accepts more formats than the services, such as comments in parentheses.
  const timeMs = /^\d{4}-/.test(time) ? Date.parse(time) : Number.NaN
  return {
    level,
    name: oneLine(name, 200),
    more: moreOf(alerts, first),
    error,
    details: details.filter((detail) => detail !== ''),
    origin: originOf(first.envelope, 600),
    service: oneLine(service, 80),
    ...(!Number.isNaN(timeMs) && { time: new Date(timeMs).toISOString() }),
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

/** Cuts a string to `max` UTF-16 units, so that it ends with `…`. Never splits a character. */
function cut(text: string, max: number): string {
  return cutText(text, max, '…')
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

function attributeLines(attributes: Readonly<Record<string, unknown>>): readonly string[] {
  return Object.entries(attributes).map(([key, value]) => {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
    return `${oneLine(key, 80)}: ${oneLine(text, 240)}`
  })
}

/** Returns a line for each group of the other events with their number, the most severe and most frequent first. */
function otherLines(alerts: readonly Alert[], lead: Alert): readonly string[] {
  const groups = new Map<string, { readonly envelope: TelemetryEnvelope; count: number }>()
  for (const alert of alerts) {
    if (alert === lead) continue
    const key = groupOf(alert.envelope)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, { ...alert })
    else group.count += alert.count
  }
  return [...groups.values()]
    .sort((a, b) => LEVEL_PRIORITY[b.envelope.level] - LEVEL_PRIORITY[a.envelope.level] || b.count - a.count)
    .map(({ envelope: { level, name, error }, count }) => {
      const kind = error === undefined ? name : `${name} ${error.name}`
      return `${count} × ${level.toUpperCase()} ${oneLine(kind, 120)}`
    })
}

/** Joins the lines that fit, and counts the others. */
function fittingLines(
  lines: readonly string[],
  noun: string,
  max: number,
  maxLines = Number.POSITIVE_INFINITY,
): string {
  const shown: string[] = []
  // Leaves room for the line that counts the others.
  let room = max - 40
  for (const line of lines) {
    const trimmed = line.trimEnd()
    room -= trimmed.length + 1
    if (room < 0 || shown.length === maxLines) break
    shown.push(trimmed)
  }
  const left = lines.length - shown.length
  if (left > 0) shown.push(`… ${counted(left, noun)} left out`)
  return shown.join('\n')
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
  const shown = parts.map((part = '') => oneLine(part, 80).trim()).filter((part) => part !== '')
  return cut(shown.join(' · '), max)
}

/** Returns what the events of a group have in common. */
function groupOf({ level, name, error }: TelemetryEnvelope): string {
  return JSON.stringify([level, name, error?.name])
}

/** The events of a group that wait for the end of its window. They share one promise. */
interface Held {
  latest: TelemetryEnvelope
  count: number
  readonly promise: Promise<void>
  readonly settle: (sent: Promise<void>) => void
}

interface Group {
  sinceMs: number
  timer: ReturnType<typeof setTimeout>
  held: Held | undefined
}

/** The maximum number of groups. Events of further groups are sent one by one. */
const MAX_GROUPS = 1_000

/** If so many events of a group wait, their number is sent before the window ends. */
const MAX_HELD = 1_000

/** The timers outlive the requests whose events start them. */
const context = /* @__PURE__ */ new AsyncContext('KitTelemetryAlertGroups')

/**
 * Groups events of the same name, level, and kind of error. The first event of a group is sent at once. The following ones are
 * counted, and their number is sent with the latest of them at the end of each window. A group ends with a window without events.
 */
export class AlertGroups {
  readonly #windowMs: number
  readonly #send: (alert: Alert) => Promise<void>
  readonly #groups = new Map<string, Group>()

  /** @param windowMs 0 for no groups */
  constructor(windowMs: number, send: (alert: Alert) => Promise<void>) {
    this.#windowMs = windowMs
    this.#send = send
  }

  /** Sends or counts an event. @returns a promise that settles with the message that contains the event, or counts it */
  add(envelope: TelemetryEnvelope): Promise<void> {
    const key = groupOf(envelope)
    const group = this.#groups.get(key)
    if (group === undefined) {
      if (this.#windowMs > 0 && this.#groups.size < MAX_GROUPS)
        this.#groups.set(key, { sinceMs: Date.now(), timer: this.#timer(key), held: undefined })
      return this.#send({ envelope, count: 1 })
    }
    group.held ??= newHeld(envelope)
    const { held } = group
    held.latest = envelope
    held.count++
    if (held.count === MAX_HELD) this.#release(group)
    return held.promise
  }

  /** Sends the numbers of all groups now. */
  release(): void {
    for (const group of this.#groups.values()) this.#release(group)
  }

  /** Sends the numbers of all groups, and ends the groups. */
  close(): void {
    this.release()
    for (const { timer } of this.#groups.values()) clearTimeout(timer)
    this.#groups.clear()
  }

  #timer(key: string): ReturnType<typeof setTimeout> {
    const timer = context.runInAsyncScope(() => setTimeout(() => this.#endWindow(key), this.#windowMs))
    timer.unref?.()
    return timer
  }

  #endWindow(key: string): void {
    const group = this.#groups.get(key)
    if (group?.held === undefined) {
      this.#groups.delete(key)
      return
    }
    this.#release(group)
    group.timer = this.#timer(key)
  }

  #release(group: Group): void {
    const { held, sinceMs } = group
    if (held === undefined) return
    const now = Date.now()
    group.held = undefined
    group.sinceMs = now
    const { latest, count, settle } = held
    settle(this.#send({ envelope: latest, count, withinMs: Math.max(0, now - sinceMs) }))
  }
}

function newHeld(latest: TelemetryEnvelope): Held {
  let settle: Held['settle'] = () => undefined
  const promise = new Promise<void>((resolve) => {
    settle = resolve
  })
  // The callers of `add` see the rejection.
  promise.catch(() => undefined)
  return { latest, count: 0, promise, settle }
}
