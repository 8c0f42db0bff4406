import type { TelemetryEnvelope } from '../envelope/envelope.ts'

/** The maximum number of names, and of keys, whose text is kept. Applications can invent any number. */
const MAX_KEPT = 4096

/** The maximum length of all texts that are kept of names, and of keys, in UTF-16 units. */
const MAX_KEPT_LENGTH = 1_048_576

/** The maximum number of levels whose text is kept. A manager has five. */
const MAX_LEVELS = 16

/** Longer names and keys are written anew each time. In UTF-16 units. */
const MAX_KEPT_KEY = 256

/** What could end a line, drive a terminal or reverse the reading direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it finds
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** Anything but printable ASCII without `"` and `\`. */
const NEEDS_ESCAPING = /[^ !#-[\]-~]/

/** Up to this length, a loop over the characters is quicker than a regular expression. */
const SHORT = 12

/** The members of an envelope in the order a manager gives them. */
const LAYOUT = [
  'name',
  'time',
  'level',
  'service',
  'environment',
  'version',
  'sessionId',
  'actor',
  'scope',
  'attributes',
  'error',
  'source',
] as const satisfies readonly (keyof TelemetryEnvelope)[]

/**
 * What stands before a value of an object: the quote that ends a string before it, a comma except before the first, the
 * key, and the quote that begins a string. Few and long pieces: each that is put together apart has its price, now and
 * when the line is sent.
 */
interface KeyText {
  readonly first: string
  readonly firstString: string
  readonly next: string
  readonly nextString: string
  readonly nextAfterString: string
  readonly nextStringAfterString: string
}

/** Session, actor, and scope of an event, and from the second such event on their text. */
interface SessionText {
  readonly sessionId: string
  readonly actor: object | undefined
  readonly scope: object | undefined
  readonly text: string | undefined
}

/** Keeps values by key, and forgets all of them when they become too many or too long. */
class KeptTexts<Value> {
  readonly #values = new Map<string, Value>()
  #length = 0

  get(key: string): Value | undefined {
    return this.#values.get(key)
  }

  /** @param length the length of the texts in `value`, in UTF-16 units. */
  keep(key: string, value: Value, length: number): void {
    if (key.length > MAX_KEPT_KEY) return
    this.#length += length
    if (this.#values.size >= MAX_KEPT || this.#length > MAX_KEPT_LENGTH) {
      this.#values.clear()
      this.#length = length
    }
    this.#values.set(key, value)
  }
}

/**
 * Writes envelopes as lines of JSON. A line is what `JSON.stringify` makes of the envelope, with every character that
 * a line should not have escaped. Envelopes being JSON already, it need not look for what JSON does not know; and it
 * keeps the text of what many events share: service, session and keys.
 */
export class JsonLineWriter {
  readonly #includeTimestamp: boolean
  readonly #keys = new KeptTexts<KeyText>()
  readonly #names = new KeptTexts<string>()
  /** By actor or, without one, by scope: what they say is kept no longer than the session keeps them itself. */
  readonly #sessions = new WeakMap<object, SessionText>()
  #lastTime: unknown
  #timeText = ''
  #service: unknown
  #environment: unknown
  #version: unknown
  /** By level: the level and the members that follow it. */
  readonly #levels = new Map<string, string>()

  constructor(includeTimestamp: boolean) {
    this.#includeTimestamp = includeTimestamp
  }

  write(envelope: TelemetryEnvelope): string {
    try {
      if (isLaidOut(envelope)) return this.#line(envelope)
    } catch {
      // No envelope of a manager comes here; one that somebody else made may hold anything.
    }
    return escapeUnsafe(JSON.stringify(this.#includeTimestamp ? envelope : timeless(envelope)))
  }

  #line(envelope: TelemetryEnvelope): string {
    const { attributes, error, source } = envelope
    let line = this.#names.get(envelope.name) ?? this.#name(envelope.name)
    if (this.#includeTimestamp) line += this.#time(envelope)
    line += this.#levelAndOrigin(envelope)
    line += this.#session(envelope)
    if (attributes !== undefined) line += `,"attributes":${this.#value(attributes)}`
    if (error !== undefined) line += `,"error":${this.#value(error)}`
    if (source !== undefined) line += `,"source":${this.#value(source)}`
    return `${line}}`
  }

  #name(name: string): string {
    const text = flat(`{"name":${memberText(name)}`)
    this.#names.keep(name, text, text.length)
    return text
  }

  /** Events of one millisecond share it. */
  #time({ time }: TelemetryEnvelope): string {
    if (time !== this.#lastTime) {
      this.#timeText = `,"time":${memberText(time)}`
      this.#lastTime = time
    }
    return this.#timeText
  }

  /** Events of one level and one manager share it. */
  #levelAndOrigin({ level, service, environment, version }: TelemetryEnvelope): string {
    if (service !== this.#service || environment !== this.#environment || version !== this.#version) {
      this.#service = service
      this.#environment = environment
      this.#version = version
      this.#levels.clear()
    }
    return this.#levels.get(level) ?? this.#level(level)
  }

  #level(level: string): string {
    let text = `,"level":${memberText(level)},"service":${memberText(this.#service)}`
    text += `,"environment":${memberText(this.#environment)}`
    if (this.#version !== undefined) text += `,"version":${memberText(this.#version)}`
    if (this.#levels.size >= MAX_LEVELS) this.#levels.clear()
    this.#levels.set(level, flat(text))
    return text
  }

  #session({ sessionId, actor, scope }: TelemetryEnvelope): string {
    const about = actor ?? scope
    if (about === undefined) return `,"sessionId":${memberText(sessionId)}`
    const known = this.#sessions.get(about)
    const recurs =
      known !== undefined && known.sessionId === sessionId && known.actor === actor && known.scope === scope
    if (recurs && known.text !== undefined) return known.text
    let text = `,"sessionId":${memberText(sessionId)}`
    if (actor !== undefined) text += `,"actor":${this.#value(actor)}`
    if (scope !== undefined) text += `,"scope":${this.#value(scope)}`
    // What is not frozen could say something else the next time.
    const keeps = recurs && isDeeplyFrozen(actor) && isDeeplyFrozen(scope)
    this.#sessions.set(about, { sessionId, actor, scope, text: keeps ? flat(text) : undefined })
    return text
  }

  /** @throws when `value` is nothing that JSON knows */
  #value(value: unknown): string {
    switch (typeof value) {
      case 'string':
        return stringText(value)
      case 'number':
        return Number.isFinite(value) ? `${value}` : 'null'
      case 'boolean':
        return value ? 'true' : 'false'
      case 'object':
        if (value === null) return 'null'
        return Array.isArray(value) ? this.#array(value) : this.#object(value as Record<string, unknown>)
      default:
        throw new TypeError('not JSON')
    }
  }

  #object(object: Record<string, unknown>): string {
    const keys = plainKeys(object)
    if (keys.length === 0) return '{}'
    let text = ''
    let afterString = false
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index] as string
      const value = object[key]
      const keyText = this.#keys.get(key) ?? this.#key(key)
      if (typeof value === 'string' && isPlain(value)) {
        if (index === 0) text = keyText.firstString + value
        else text += (afterString ? keyText.nextStringAfterString : keyText.nextString) + value
        afterString = true
      } else {
        if (index === 0) text = keyText.first + this.#value(value)
        else text += (afterString ? keyText.nextAfterString : keyText.next) + this.#value(value)
        afterString = false
      }
    }
    return text + (afterString ? '"}' : '}')
  }

  #array(array: readonly unknown[]): string {
    if ('toJSON' in array) throw new TypeError('not JSON')
    let text = '['
    for (let index = 0; index < array.length; index++) {
      if (index > 0) text += ','
      text += this.#value(array[index])
    }
    return `${text}]`
  }

  #key(key: string): KeyText {
    const text = stringText(key)
    const keyText = {
      first: flat(`{${text}:`),
      firstString: flat(`{${text}:"`),
      next: flat(`,${text}:`),
      nextString: flat(`,${text}:"`),
      nextAfterString: flat(`",${text}:`),
      nextStringAfterString: flat(`",${text}:"`),
    }
    this.#keys.keep(key, keyText, Object.values(keyText).join('').length)
    return keyText
  }
}

/** Escapes what a line should not have, as JSON does. */
export function escapeUnsafe(line: string): string {
  return line.replace(UNSAFE, (unsafe) => {
    if (unsafe === '\n') return '\\n'
    if (unsafe === '\r') return '\\r'
    if (unsafe === '\t') return '\\t'
    return `\\u${unsafe.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** The text of a member that has to be a string. @throws when it is none */
function memberText(member: unknown): string {
  if (typeof member !== 'string') throw new TypeError('not an envelope')
  return stringText(member)
}

/** A string in quotes. */
function stringText(text: string): string {
  return isPlain(text) ? `"${text}"` : escapeUnsafe(JSON.stringify(text))
}

/** Whether a string needs no escaping; most do not, which is quicker to see than to have done. */
function isPlain(text: string): boolean {
  if (text.length > SHORT) return !NEEDS_ESCAPING.test(text)
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false
  }
  return true
}

/** Whether an envelope holds nothing but the members of `LAYOUT`, in that order. */
function isLaidOut(envelope: TelemetryEnvelope): boolean {
  const members = plainKeys(envelope)
  let place = 0
  for (let index = 0; index < LAYOUT.length && place < members.length; index++) {
    if (members[place] === LAYOUT[index]) place++
  }
  return place === members.length
}

/** The keys of a plain object. @throws when it is none */
function plainKeys(object: object): string[] {
  const prototype = Object.getPrototypeOf(object)
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError('not JSON')
  return Object.keys(object)
}

function isDeeplyFrozen(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  return Object.isFrozen(value) && Object.values(value).every(isDeeplyFrozen)
}

/** The same text in one piece: a string put together keeps its parts, which every line it is in would walk again. */
function flat(text: string): string {
  return Buffer.from(text).toString()
}

function timeless({ time: _time, ...rest }: TelemetryEnvelope): Omit<TelemetryEnvelope, 'time'> {
  return rest
}
