import { tryOrUndefined } from '../../src/base/try-or-undefined.ts'

/** One challenge of a `WWW-Authenticate` header. */
export interface Challenge {
  /** The scheme as sent. */
  readonly scheme: string
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
 * Parses a `WWW-Authenticate` value: schemes, each with a `token68`, which is left out, or with parameters that are tokens or
 * quoted strings (RFC 9110 §11.2, §11.6.1, lists by §5.6.1).
 * @throws {ChallengeSyntaxError}
 */
export function parseChallenges(header: string): Challenge[] {
  const text = header.trim()
  let at = 0
  /** Consumes the match of a sticky pattern and returns it or one of its groups. Returns `undefined` without a match. */
  const take = (pattern: RegExp, group = 0): string | undefined => {
    pattern.lastIndex = at
    const match = pattern.exec(text)
    if (match !== null) at = pattern.lastIndex
    return match?.[group]
  }
  const error = (what: string, place = at): ChallengeSyntaxError =>
    new ChallengeSyntaxError(`at character ${place + 1} of ${text.length}: ${what}`)
  /** Reads the value of the parameter whose name is at `start`. */
  const readParameter = (parameters: Map<string, string>, name: string, start: number): void => {
    const key = name.toLowerCase()
    const value = take(QUOTED, 1)?.replace(/\\(.)/gs, '$1') ?? take(TOKEN)
    if (value === undefined) throw error(`the value of ${key} must be a token or a quoted string`)
    if (parameters.has(key)) throw error(`${key} occurs twice in one challenge`, start)
    parameters.set(key, value)
  }

  const found: { scheme: string; parameters: Map<string, string> }[] = []
  /** The parameters of the current challenge, if it can have any. */
  let parameters: Map<string, string> | undefined
  take(COMMAS)
  while (at < text.length) {
    const start = at
    const name = take(TOKEN)
    if (name === undefined) throw error('expected a scheme or a parameter')
    if (take(EQUALS) !== undefined) {
      if (parameters === undefined) throw error('a parameter has no scheme', start)
      readParameter(parameters, name, start)
    } else {
      const challenge = { scheme: name, parameters: new Map<string, string>() }
      found.push(challenge)
      // `realm=` is a token68, or the beginning of a parameter if a value follows.
      const isOpen = take(SPACES) !== undefined && take(TOKEN68) === undefined
      parameters = isOpen ? challenge.parameters : undefined
      const first = at
      const own = isOpen ? take(TOKEN) : undefined
      if (own !== undefined && take(EQUALS) !== undefined) readParameter(challenge.parameters, own, first)
      else at = first
    }
    if (take(COMMAS) === undefined && at < text.length) throw error('a comma is missing')
  }
  return found
}

/** Returns the `Bearer` challenge of a header, or `undefined` if there is none or the header cannot be parsed. */
export function bearerChallengeOf(header: string | undefined): Challenge | undefined {
  const challenges = tryOrUndefined(() => parseChallenges(header ?? ''))
  return challenges?.find(({ scheme }) => scheme.toLowerCase() === 'bearer')
}
