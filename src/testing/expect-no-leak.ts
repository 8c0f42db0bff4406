import { AssertionError } from 'node:assert'
import { types } from 'node:util'

/** Where a secret was found. */
interface Finding {
  /** Which of the secrets, from 1. */
  readonly secret: number
  readonly form: string
  readonly place: string
}

/** How often a text is decoded in the search: percent-encoded JSON within JSON, and the like. */
const MAX_DECODING = 3

/** Shorter pieces of base64 would be found by chance. */
const MIN_BASE64 = 6

/** Shorter secrets are looked for as they are and decoded, but not as hex or base64. */
const MIN_ENCODED = 4

const MAX_FINDINGS = 10

/**
 * Expects that no secret is in any of the events (or log lines, or other values), in any text or number at any depth, nor
 * in a key. A secret is found as it is, and JSON-escaped, percent-encoded, in base64 or base64url (also within a longer
 * encoded text, such as Basic credentials) and in hex.
 *
 * Not found are secrets that were hashed, cut, compressed, or written in another case, nor what an object keeps private.
 * Where nothing was recorded nothing is found: expect the events as well.
 * @param events what to search: envelopes, strings, objects, arrays, maps, sets, headers, errors or buffers; a single one as
 * well, or a transport that has recorded events, such as that of `createTelemetryRecorder`
 * @param secrets the secrets themselves, none of them empty
 * @throws {AssertionError} which tells where the secrets are, but never what they are
 * @throws {TypeError} when there is no secret, or one that is no string or empty; and for a promise, a `Request` or a
 * `Response`, into which nobody can look: await it, read its body first
 *
 * @example
 * expectNoLeak(recorder.events(), ['hunter2', token])
 */
export function expectNoLeak(events: unknown, secrets: string | Iterable<string>): void {
  const wanted = typeof secrets === 'string' ? [secrets] : [...secrets]
  if (wanted.length === 0 || wanted.some((secret) => typeof secret !== 'string' || secret === ''))
    throw new TypeError('expectNoLeak() takes secrets that are strings and not empty, at least one')
  const search = new Search(wanted.map((secret, index) => new Needle(secret, index + 1)))
  const recorded = recordedIn(events)
  const list = Array.isArray(recorded) || recorded instanceof Set ? [...recorded] : [recorded]
  for (const [index, event] of list.entries()) {
    refuseOpaque(event)
    search.walk(event, search.nameOf(event, index))
  }
  if (search.findings.length === 0) return
  const shown = search.findings
    .slice(0, MAX_FINDINGS)
    .map(({ secret, form, place }) => `  secret ${secret} of ${wanted.length}, ${form}: ${place}`)
  const left = search.findings.length - shown.length
  throw new AssertionError({
    message: ['secrets have leaked:', ...shown, ...(left > 0 ? [`  and ${left} more places`] : [])].join(
      '\n',
    ),
    operator: 'expectNoLeak',
    stackStartFn: expectNoLeak,
  })
}

/** What a recording transport was given; anything else as it is. */
function recordedIn(events: unknown): unknown {
  const { events: all, getEvents } = (events ?? {}) as { events?: unknown; getEvents?: unknown }
  const list = [all, getEvents].find((member) => typeof member === 'function') as (() => unknown) | undefined
  return list === undefined ? events : list.call(events)
}

/** One secret in its forms. */
class Needle {
  readonly number: number
  readonly #secret: string
  readonly #hex: string | undefined
  readonly #base64: readonly string[]

  constructor(secret: string, number: number) {
    this.number = number
    this.#secret = secret
    const bytes = Buffer.from(secret, 'utf8')
    this.#hex = bytes.length < MIN_ENCODED ? undefined : bytes.toString('hex')
    this.#base64 = bytes.length < MIN_ENCODED ? [] : base64Forms(bytes)
  }

  /** The form in which the secret is in `text`, if it is. */
  formIn(text: string): string | undefined {
    if (text.includes(this.#secret)) return 'as it is'
    if (this.#base64.some((form) => text.includes(form))) return 'in base64'
    if (this.#base64.some((form) => text.includes(form.replaceAll('+', '-').replaceAll('/', '_'))))
      return 'in base64url'
    if (this.#hex !== undefined && text.toLowerCase().includes(this.#hex)) return 'in hex'
    for (const [form, decoded] of decodings(text, MAX_DECODING))
      if (this.formIn(decoded) !== undefined) return form
    return undefined
  }
}

/** What the bytes look like in base64 at each of the three positions they can have in a longer text. */
function base64Forms(bytes: Buffer): string[] {
  const forms = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    // Only the characters that no neighbour has a part in.
    return text.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
  })
  return forms.filter((form, index) => index === 0 || form.length >= MIN_BASE64)
}

/** The text without its escapes, where it has any, each with the name of its form. */
function* decodings(text: string, left: number): Generator<[string, string]> {
  if (left === 0) return
  if (text.includes('%')) {
    const decoded = text.replace(/(?:%[0-9a-f]{2})+/gi, (run) =>
      Buffer.from(run.replaceAll('%', ''), 'hex').toString(),
    )
    if (decoded !== text) yield* forms('percent-encoded', decoded)
  }
  if (/%[0-9a-f]{2}|=/i.test(text) && text.includes('+')) yield ['percent-encoded', text.replaceAll('+', ' ')]
  if (text.includes('\\')) {
    const decoded = text.replace(
      /\\(?:u([0-9a-f]{4})|(.))/gi,
      (_all, unit: string | undefined, character: string) =>
        unit === undefined
          ? (JSON_ESCAPES[character] ?? character)
          : String.fromCharCode(Number.parseInt(unit, 16)),
    )
    if (decoded !== text) yield* forms('JSON-escaped', decoded)
  }

  function* forms(form: string, decoded: string): Generator<[string, string]> {
    yield [form, decoded]
    for (const [, deeper] of decodings(decoded, left - 1)) yield [form, deeper]
  }
}

const JSON_ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

class Search {
  readonly findings: Finding[] = []
  readonly #needles: readonly Needle[]
  readonly #seen = new Set<object>()

  constructor(needles: readonly Needle[]) {
    this.#needles = needles
  }

  /** `event 3 (billing.invoice.paid)`, without a name that holds a secret itself. */
  nameOf(event: unknown, index: number): string {
    const name: unknown = (event as { name?: unknown } | null | undefined)?.name
    const named = typeof name === 'string' && name !== '' && this.#isClean(name) ? ` (${name})` : ''
    return `event ${index + 1}${named}`
  }

  /** @param path where in `event`; `''` for itself */
  walk(value: unknown, event: string, path = ''): void {
    if (typeof value !== 'object' || value === null) {
      if (value !== undefined && typeof value !== 'function') this.#look(String(value), event, path)
      return
    }
    if (this.#seen.has(value)) return
    this.#seen.add(value)
    if (value instanceof Date || value instanceof URL || value instanceof RegExp) {
      this.#look(String(value), event, path)
    } else if (ArrayBuffer.isView(value)) {
      this.#look(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString(), event, path)
    } else if (Array.isArray(value) || value instanceof Set) {
      for (const [index, item] of [...value].entries()) this.walk(item, event, `${path}[${index}]`)
    } else {
      for (const [index, [key, member]] of membersOf(value).entries()) {
        const clean = this.#isClean(key)
        const within = `${path}${path === '' ? '' : '.'}${clean ? key : `(key ${index + 1})`}`
        if (!clean) this.#look(key, event, `${within}, the key itself`)
        this.walk(member, event, within)
      }
    }
  }

  #isClean(text: string): boolean {
    return this.#needles.every((needle) => needle.formIn(text) === undefined)
  }

  #look(text: string, event: string, path: string): void {
    for (const needle of this.#needles) {
      const form = needle.formIn(text)
      if (form === undefined) continue
      this.findings.push({ secret: needle.number, form, place: path === '' ? event : `${event} at ${path}` })
    }
  }
}

/** What would be found clean whatever is in it. @throws {TypeError} */
function refuseOpaque(value: unknown): void {
  if (types.isPromise(value)) throw new TypeError('expectNoLeak() cannot look into a promise; await it')
  if (value instanceof Request || value instanceof Response)
    throw new TypeError(
      'expectNoLeak() cannot look into a Request or Response; give its headers, and await its text()',
    )
}

/** What an object holds; of an error also message and stack, which are not enumerable. */
function membersOf(value: object): [string, unknown][] {
  if (value instanceof Map || value instanceof Headers || value instanceof URLSearchParams)
    return Array.from(value, ([key, member]) => [String(key), member])
  const keys = value instanceof Error ? Object.getOwnPropertyNames(value) : Object.keys(value)
  return keys.map((key) => [key, readMember(value, key)])
}

function readMember(value: object, key: string): unknown {
  try {
    return (value as Record<string, unknown>)[key]
  } catch {
    return undefined
  }
}
