/** One challenge of a `WWW-Authenticate` header. */
export interface Challenge {
  /** As it was sent. */
  readonly scheme: string
  readonly token68: string | undefined
  /** By lower-case name, unquoted. */
  readonly parameters: ReadonlyMap<string, string>
}

/** The header is not what RFC 9110 §11.6.1 allows. Its message says what, without quoting. */
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
 * The challenges of a `WWW-Authenticate` value: schemes, each with a `token68` or with parameters that are tokens or
 * quoted strings (RFC 9110 §11.2, §11.6.1, lists by §5.6.1).
 * @throws {ChallengeSyntaxError}
 */
export function parseChallenges(header: string): Challenge[] {
  const cursor = new Cursor(header.trim())
  const found: { scheme: string; token68: string | undefined; parameters: Map<string, string> }[] = []
  /** Whether the current challenge may have parameters: a space came behind its scheme. */
  let open = false
  cursor.take(COMMAS)
  while (!cursor.ended) {
    const at = cursor.at
    const name = cursor.take(TOKEN)
    if (name === undefined) throw cursor.error('neither a scheme nor a parameter begins there')
    const current = found.at(-1)
    if (cursor.take(EQUALS) !== undefined) {
      if (current === undefined || !open) throw cursor.error('a parameter belongs to no scheme', at)
      addParameter(current.parameters, name, cursor)
    } else {
      const challenge = { scheme: name, token68: undefined as string | undefined, parameters: new Map() }
      found.push(challenge)
      open = cursor.take(SPACES) !== undefined
      if (open) {
        challenge.token68 = firstOf(challenge.parameters, cursor)
        // Nothing else may follow a token68 within its challenge.
        if (challenge.token68 !== undefined) open = false
      }
    }
    if (cursor.take(COMMAS) === undefined && !cursor.ended) throw cursor.error('a comma is missing')
  }
  return found
}

/** What stands right behind a scheme: a parameter, which is added, or a `token68`, which is returned. */
function firstOf(parameters: Map<string, string>, cursor: Cursor): string | undefined {
  const at = cursor.at
  const token68 = cursor.take(TOKEN68)
  // `realm=` alone is a token68 as well as a parameter without a value; with a value behind it, it is a parameter.
  if (token68 !== undefined) return token68
  const name = cursor.take(TOKEN)
  if (name === undefined || cursor.take(EQUALS) === undefined) {
    cursor.at = at
    return undefined
  }
  addParameter(parameters, name, cursor)
  return undefined
}

function addParameter(parameters: Map<string, string>, name: string, cursor: Cursor): void {
  const key = name.toLowerCase()
  const quoted = cursor.take(QUOTED, 1)
  const value = quoted?.replace(/\\(.)/gs, '$1') ?? cursor.take(TOKEN)
  if (value === undefined) throw cursor.error(`the value of ${key} is neither a token nor a quoted string`)
  if (parameters.has(key)) throw cursor.error(`${key} comes twice in one challenge`)
  parameters.set(key, value)
}

/** A place in a text, from which patterns are taken. */
class Cursor {
  at = 0
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  get ended(): boolean {
    return this.at >= this.#text.length
  }

  /** What a sticky pattern matches here, or a group of it; undefined when it does not, and nothing is taken. */
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

/** The `Bearer` challenge of a header, however it is malformed elsewhere: undefined when there is none to read. */
export function bearerChallengeOf(header: string | undefined): Challenge | undefined {
  try {
    return parseChallenges(header ?? '').find(({ scheme }) => scheme.toLowerCase() === 'bearer')
  } catch {
    return undefined
  }
}
