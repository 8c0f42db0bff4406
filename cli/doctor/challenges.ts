/** One challenge of a `WWW-Authenticate` header. */
export interface Challenge {
  /** The scheme as sent. */
  readonly scheme: string
  readonly token68: string | undefined
  /** The unquoted values by lowercase name. */
  readonly parameters: ReadonlyMap<string, string>
}

/** A header that RFC 9110 §11.6.1 does not allow. The message contains no part of the header. */
export class ChallengeSyntaxError extends Error {
  override readonly name = 'ChallengeSyntaxError'
}

const TOKEN = /[!#$%&'*+\-.^_`|~0-9A-Za-z]+/y
const TOKEN68 = /[A-Za-z0-9\-._~+/]+=*(?=[ \t]*(?:,|$))/y
const QUOTED = /"((?:[\t \x21\x23-\x5B\x5D-\x7E\x80-\xFF]|\\[\t \x21-\x7E\x80-\xFF])*)"/y
const EQUALS = /[ \t]*=[ \t]*/y
const COMMAS = /[ \t]*(?:,[ \t]*)+/y
const SPACES = / +/y

/**
 * Parses a `WWW-Authenticate` value: schemes, each with a `token68` or with parameters that are tokens or quoted strings
 * (RFC 9110 §11.2, §11.6.1, lists by §5.6.1).
 * @throws {ChallengeSyntaxError}
 */
export function parseChallenges(header: string): Challenge[] {
  const cursor = new Cursor(header.trim())
  const found: { scheme: string; token68: string | undefined; parameters: Map<string, string> }[] = []
  /** `true` if a space follows the scheme of the current challenge, so that it can have parameters. */
  let open = false
  cursor.take(COMMAS)
  while (!cursor.ended) {
    const at = cursor.at
    const name = cursor.take(TOKEN)
    if (name === undefined) throw cursor.error('expected a scheme or a parameter')
    const current = found.at(-1)
    if (cursor.take(EQUALS) !== undefined) {
      if (current === undefined || !open) throw cursor.error('a parameter has no scheme', at)
      addParameter(current.parameters, name, at, cursor)
    } else {
      const challenge = { scheme: name, token68: undefined as string | undefined, parameters: new Map() }
      found.push(challenge)
      open = cursor.take(SPACES) !== undefined
      if (open) {
        challenge.token68 = firstOf(challenge.parameters, cursor)
        // A challenge with a token68 has no parameters.
        if (challenge.token68 !== undefined) open = false
      }
    }
    if (cursor.take(COMMAS) === undefined && !cursor.ended) throw cursor.error('a comma is missing')
  }
  return found
}

/** Reads the first element after a scheme. Adds a parameter to `parameters`, or returns a `token68`. */
function firstOf(parameters: Map<string, string>, cursor: Cursor): string | undefined {
  const at = cursor.at
  const token68 = cursor.take(TOKEN68)
  // `realm=` is a token68, or the beginning of a parameter if a value follows.
  if (token68 !== undefined) return token68
  const name = cursor.take(TOKEN)
  if (name === undefined || cursor.take(EQUALS) === undefined) {
    cursor.at = at
    return undefined
  }
  addParameter(parameters, name, at, cursor)
  return undefined
}

/** Reads the value of the parameter whose name is at `at`, and adds it to `parameters`. */
function addParameter(parameters: Map<string, string>, name: string, at: number, cursor: Cursor): void {
  const key = name.toLowerCase()
  const quoted = cursor.take(QUOTED, 1)
  const value = quoted?.replace(/\\(.)/gs, '$1') ?? cursor.take(TOKEN)
  if (value === undefined) throw cursor.error(`the value of ${key} must be a token or a quoted string`)
  if (parameters.has(key)) throw cursor.error(`${key} occurs twice in one challenge`, at)
  parameters.set(key, value)
}

/** A position in a string, at which patterns are matched. */
class Cursor {
  at = 0
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  get ended(): boolean {
    return this.at >= this.#text.length
  }

  /** Consumes the match of a sticky pattern and returns it or one of its groups. Returns `undefined` without a match. */
  take(pattern: RegExp, group = 0): string | undefined {
    pattern.lastIndex = this.at
    const match = pattern.exec(this.#text)
    if (match === null) return undefined
    this.at = pattern.lastIndex
    return match[group]
  }

  error(what: string, at = this.at): ChallengeSyntaxError {
    return new ChallengeSyntaxError(`at character ${at + 1} of ${this.#text.length}: ${what}`)
  }
}

/** Returns the `Bearer` challenge of a header, or `undefined` if there is none or the header cannot be parsed. */
export function bearerChallengeOf(header: string | undefined): Challenge | undefined {
  try {
    return parseChallenges(header ?? '').find(({ scheme }) => scheme.toLowerCase() === 'bearer')
  } catch {
    return undefined
  }
}
