import { copyWellFormed } from '../../runtime.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'

/** The maximum number of names, and of keys, whose JSON is kept. Clients may send any number of keys. */
const MAX_KEPT = 4096

/** The maximum total length of the JSON that is kept for names, and for keys, in UTF-16 units. */
const MAX_KEPT_LENGTH = 1_048_576

/** The maximum number of levels whose JSON is kept. A manager has five. */
const MAX_LEVELS = 16

/** The maximum length of a name or key whose JSON is kept, in UTF-16 units. */
const MAX_KEPT_KEY = 256

/** The characters that could end a line, control a terminal, or reverse the reading direction. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches control characters on purpose
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** All characters except printable ASCII without `"` and `\`. */
const NEEDS_ESCAPING = /[^ !#-[\]-~]/

/** The length up to which a loop over the characters is faster than a regular expression. */
const SHORT = 12

/** The members of an envelope in the order in which a manager sets them. */
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
 * The JSON before a value of an object: the quote that ends a previous string, a comma unless it is the first, the key, and
 * the quote that starts a string. Concatenating few long strings is faster than concatenating many short ones.
 */
interface KeyText {
  readonly first: string
  readonly firstString: string
  readonly next: string
  readonly nextString: string
  readonly nextAfterString: string
  readonly nextStringAfterString: string
  readonly key: string
  /** The first key in the latest object that was the value of this key, and the key that followed this one last. */
  firstInside: KeyText | undefined
  following: KeyText | undefined
}

/** The session, actor, and scope of an event, and their JSON from the second such event on. */
interface SessionText {
  readonly sessionId: string
  readonly actor: object | undefined
  readonly scope: object | undefined
  readonly text: string | undefined
}

/** Keeps values by key, and removes all of them when they become too many or too long. */
class KeptTexts<Value> {
  readonly #values = new Map<string, Value>()
  #length = 0

  get size(): number {
    return this.#values.size
  }

  get(key: string): Value | undefined {
    return this.#values.get(key)
  }

  /** @param length the length of the JSON in `value`, in UTF-16 units. */
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
 * Writes envelopes as lines of JSON. A line is the result of `JSON.stringify` with unsafe characters escaped. It is faster
 * than `JSON.stringify`, because envelopes consist only of JSON values, and because the JSON of members that many events
 * share is kept: service, session, and keys.
 */
export class JsonLineWriter {
  readonly #includeTimestamp: boolean
  readonly #keys = new KeptTexts<KeyText>()
  readonly #names = new KeptTexts<string>()
  /** Stands for the key of the attributes. */
  readonly #attributes: { firstInside: KeyText | undefined } = { firstInside: undefined }
  /** By actor or, without one, by scope. An entry lives as long as the session keeps that object. */
  readonly #sessions = new WeakMap<object, SessionText>()
  #lastTime: unknown
  #timeText = ''
  #service: unknown
  #environment: unknown
  #version: unknown
  /** The JSON of the level and of the members after it, by level. */
  readonly #levels = new Map<string, string>()

  constructor(includeTimestamp: boolean) {
    this.#includeTimestamp = includeTimestamp
  }

  write(envelope: TelemetryEnvelope): string {
    try {
      if (isLaidOut(envelope)) return this.#line(envelope)
    } catch {
      // Envelopes that a manager did not create may contain any value.
    }
    return escapeUnsafe(JSON.stringify(this.#includeTimestamp ? envelope : timeless(envelope)))
  }

  #line(envelope: TelemetryEnvelope): string {
    const { attributes, error, source } = envelope
    let line = this.#names.get(envelope.name) ?? this.#name(envelope.name)
    if (this.#includeTimestamp) line += this.#time(envelope)
    line += this.#levelAndOrigin(envelope)
    line += this.#session(envelope)
    if (attributes !== undefined) line += `,"attributes":${this.#value(attributes, this.#attributes)}`
    if (error !== undefined) line += `,"error":${this.#value(error)}`
    if (source !== undefined) line += `,"source":${this.#value(source)}`
    return `${line}}`
  }

  #name(name: string): string {
    const text = flat(`{"name":${memberText(name)}`)
    this.#names.keep(name, text, text.length)
    return text
  }

  /** Returns the JSON of the time, which the events of one millisecond share. */
  #time({ time }: TelemetryEnvelope): string {
    if (time !== this.#lastTime) {
      this.#timeText = `,"time":${memberText(time)}`
      this.#lastTime = time
    }
    return this.#timeText
  }

  /** Returns the JSON of level and origin, which the events of one level and one manager share. */
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
    // Objects that are not frozen could change before the next event.
    const keeps = recurs && isDeeplyFrozen(actor) && isDeeplyFrozen(scope)
    this.#sessions.set(about, { sessionId, actor, scope, text: keeps ? flat(text) : undefined })
    return text
  }

  /**
   * @param parent the key of the value, if it is known.
   * @throws {TypeError} if `value` is not a JSON value.
   */
  #value(value: unknown, parent?: Pick<KeyText, 'firstInside'>): string {
    switch (typeof value) {
      case 'string':
        return stringText(value)
      case 'number':
        return Number.isFinite(value) ? `${value}` : 'null'
      case 'boolean':
        return value ? 'true' : 'false'
      case 'object':
        if (value === null) return 'null'
        return Array.isArray(value)
          ? this.#array(value)
          : this.#object(value as Record<string, unknown>, parent)
      default:
        throw new TypeError('not JSON')
    }
  }

  #object(object: Record<string, unknown>, parent: Pick<KeyText, 'firstInside'> | undefined): string {
    const keys = plainKeys(object)
    if (keys.length === 0) return '{}'
    let text = ''
    let afterString = false
    let previous: KeyText | undefined
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index] as string
      const value = object[key]
      const expected = previous === undefined ? parent?.firstInside : previous.following
      const keyText =
        expected !== undefined && expected.key === key ? expected : this.#keyAfter(parent, previous, key)
      previous = keyText
      if (typeof value === 'string' && isPlain(value)) {
        if (index === 0) text = keyText.firstString + value
        else text += (afterString ? keyText.nextStringAfterString : keyText.nextString) + value
        afterString = true
      } else {
        if (index === 0) text = keyText.first + this.#value(value, keyText)
        else text += (afterString ? keyText.nextAfterString : keyText.next) + this.#value(value, keyText)
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

  /** Returns the text of a key, and expects it in the same place of the next object. */
  #keyAfter(
    parent: Pick<KeyText, 'firstInside'> | undefined,
    previous: KeyText | undefined,
    key: string,
  ): KeyText {
    const keyText = this.#keys.get(key) ?? this.#key(key)
    if (key.length > MAX_KEPT_KEY) return keyText
    if (previous !== undefined) previous.following = keyText
    else if (parent !== undefined) parent.firstInside = keyText
    return keyText
  }

  #key(key: string): KeyText {
    const text = stringText(key)
    const texts = {
      first: flat(`{${text}:`),
      firstString: flat(`{${text}:"`),
      next: flat(`,${text}:`),
      nextString: flat(`,${text}:"`),
      nextAfterString: flat(`",${text}:`),
      nextStringAfterString: flat(`",${text}:"`),
    }
    const keyText: KeyText = { ...texts, key, firstInside: undefined, following: undefined }
    this.#keys.keep(key, keyText, Object.values(texts).join('').length)
    // The removed texts refer to one another.
    if (this.#keys.size === 1) this.#attributes.firstInside = undefined
    return keyText
  }
}

/** Escapes the unsafe characters of a line, as JSON does. */
export function escapeUnsafe(line: string): string {
  return line.replace(UNSAFE, (unsafe) => {
    if (unsafe === '\n') return '\\n'
    if (unsafe === '\r') return '\\r'
    if (unsafe === '\t') return '\\t'
    return `\\u${unsafe.charCodeAt(0).toString(16).padStart(4, '0')}`
  })
}

/** Returns the JSON of a member that must be a string. @throws {TypeError} for any other value. */
function memberText(member: unknown): string {
  if (typeof member !== 'string') throw new TypeError('not an envelope')
  return stringText(member)
}

/** Returns a string as JSON. */
function stringText(text: string): string {
  return isPlain(text) ? `"${text}"` : escapeUnsafe(JSON.stringify(text))
}

/** Returns `true` if a string does not need escaping. This check is faster than escaping, and most strings pass it. */
function isPlain(text: string): boolean {
  if (text.length > SHORT) return !NEEDS_ESCAPING.test(text)
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code < 0x20 || code > 0x7e || code === 0x22 || code === 0x5c) return false
  }
  return true
}

/** Returns `true` if an envelope contains only members of `LAYOUT`, in that order. */
function isLaidOut(envelope: TelemetryEnvelope): boolean {
  const members = plainKeys(envelope)
  let place = 0
  for (let index = 0; index < LAYOUT.length && place < members.length; index++) {
    if (members[place] === LAYOUT[index]) place++
  }
  return place === members.length
}

/** Returns the keys of a plain object. @throws {TypeError} for any other object. */
function plainKeys(object: object): string[] {
  const prototype = Object.getPrototypeOf(object)
  if (prototype !== Object.prototype && prototype !== null) throw new TypeError('not JSON')
  return Object.keys(object)
}

function isDeeplyFrozen(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  return Object.isFrozen(value) && Object.values(value).every(isDeeplyFrozen)
}

/** Copies a string. A concatenated string keeps its parts, which every line that contains it would have to join again. */
function flat(text: string): string {
  return copyWellFormed(text)
}

function timeless({ time: _time, ...rest }: TelemetryEnvelope): Omit<TelemetryEnvelope, 'time'> {
  return rest
}
