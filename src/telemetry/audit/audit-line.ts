import { builtinModule } from '../../base/runtime.ts'
import { AUDIT_MAC as MAC } from '../delivery/transport.ts'
import { errorWithHelp, telemetryOptions } from '../options.ts'

/** The attributes that `withAudit` adds to each line. */
export const CHAIN = 'kit.audit.chain'
export const SEQ = 'kit.audit.seq'
export { AUDIT_MAC as MAC } from '../delivery/transport.ts'
/** The version of the format, in the opening line. */
export const FORMAT = 'kit.audit.format'
/** `true` in the closing line. */
export const END = 'kit.audit.end'
/** The number of events that were lost before a line. */
export const LOST = 'kit.audit.lost'
/** The size of an event that was too large, in a line without its attributes. */
export const OMITTED = 'kit.audit.omitted'

/** The beginning of the names of these attributes. An application cannot set such attributes. */
export const PREFIX = 'kit.audit.'

/** The names of the opening and the closing line. */
export const OPENED = 'kit.audit.opened'
export const CLOSED = 'kit.audit.closed'

/** The version of the format, which is also the first line of each message. */
export const VERSION = 1

/** The maximum length of the canonical form of a line, in characters. */
export const MAX_CANONICAL = 1_048_576

/** The maximum length of a line. The JSON of a value is at most six times as long as its canonical form. */
export const MAX_LINE: number = 8 * MAX_CANONICAL

/** The maximum nesting of a line. An event has at most ten levels. */
const MAX_DEPTH = 64

/** Returns the string that the MAC of a line is computed of. @param previous the MAC of the previous line of the chain. */
export function messageOf(previous: string, canonical: string): string {
  return `${PREFIX}${VERSION}\n${previous}\n${canonical}`
}

/**
 * Writes the canonical form of a line, which depends only on its JSON values: not on spaces, the order of members, escapes, or
 * the notation of numbers. It consists of printable ASCII characters.
 */
export class CanonicalForm {
  /** The number of members of all objects that were written. */
  members = 0
  /** `true` if a string contains half of a surrogate pair. */
  hasLoneSurrogate = false

  /**
   * Returns the canonical form of a line without its MAC.
   * @throws {RangeError} if it is nested too deeply.
   */
  of(line: object): string {
    return this.#object(line, 0, '')
  }

  #object(object: object, depth: number, parent: string): string {
    checkDepth(depth)
    const members: string[] = []
    for (const [key, value] of Object.entries(object)) {
      this.members++
      if (depth === 1 && parent === 'attributes' && key === MAC) continue
      members.push(`${this.#string(key)}:${this.#value(value, depth + 1, key)}`)
    }
    return `{${members.sort().join(',')}}`
  }

  #value(value: unknown, depth: number, key: string): string {
    switch (typeof value) {
      case 'string':
        return this.#string(value)
      case 'number':
        return numberText(value)
      case 'boolean':
        return String(value)
      default:
        if (value === null || typeof value !== 'object') return 'null'
        return Array.isArray(value) ? this.#array(value, depth) : this.#object(value, depth, key)
    }
  }

  /** Returns a string as JSON in printable ASCII characters. Each lone surrogate becomes U+FFFD. */
  #string(text: string): string {
    if (!NOT_PRINTABLE.test(text)) return JSON.stringify(text)
    const sound = withoutLoneSurrogates(text)
    if (sound !== text) this.hasLoneSurrogate = true
    return JSON.stringify(sound).replace(
      EACH_NOT_PRINTABLE,
      (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
  }

  #array(array: readonly unknown[], depth: number): string {
    checkDepth(depth)
    return `[${array.map((value) => this.#value(value, depth + 1, '')).join(',')}]`
  }
}

function checkDepth(depth: number): void {
  if (depth > MAX_DEPTH) throw new RangeError('nested too deeply')
}

/** The characters that are escaped in addition to those that JSON escapes. */
const NOT_PRINTABLE = /[^ -~]/
const EACH_NOT_PRINTABLE = /[^ -~]/g
/** Half of a surrogate pair. Many programs reject it, or replace it with U+FFFD. */
const LONE_SURROGATE = /\p{Surrogate}/gu

/** Replaces each lone surrogate with U+FFFD. */
export function withoutLoneSurrogates(text: string): string {
  return text.replace(LONE_SURROGATE, '\ufffd')
}

const double = new DataView(new ArrayBuffer(8))

/** Returns the IEEE 754 double of a number, in hex. Adding zero changes -0, which many programs write as 0. */
function numberText(value: number): string {
  double.setFloat64(0, value + 0)
  return `#${double.getBigUint64(0).toString(16).padStart(16, '0')}`
}

/** The minimum length of a secret, in bytes. */
const MIN_BYTES = 32

/** Computes the MAC (HMAC-SHA-256) of a string, in hex. The secret is not visible in `inspect` and JSON. */
export type AuditKey = (message: string) => string

/**
 * Copies a secret.
 * @param call the function that takes the secret, and `option` the secret as it is named in errors.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if it is shorter than 32 bytes.
 */
export function auditKey(call: string, option: string, secret: unknown): AuditKey {
  // It is loaded only if there is a secret.
  const crypto = builtinModule('node:crypto')
  if (crypto === undefined)
    throw errorWithHelp(
      'TELEMETRY_CONFIGURATION_INVALID',
      `${call}() can be used only in a runtime with node:crypto. Use Node.js, Deno, or Bun`,
      { anchor: call.toLowerCase() },
    )
  const bytes = typeof secret === 'string' ? new TextEncoder().encode(secret) : secret
  if (!(bytes instanceof Uint8Array) || bytes.byteLength < MIN_BYTES)
    throw telemetryOptions.invalidKind(
      option,
      `must be a string or Uint8Array of at least ${MIN_BYTES} random bytes`,
      secret,
      'Create a secret, for example with openssl rand -hex 32.',
    )
  const key = crypto.createSecretKey(bytes)
  return (message) => crypto.createHmac('sha256', key).update(message).digest('hex')
}
