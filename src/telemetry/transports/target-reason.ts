import { cutText } from '../../base/cut-text.ts'

/** The maximum length of the reason of a target, in UTF-16 units. */
const MAX_REASON = 200

/** Shorter values of headers are not secrets, and would be found by chance. */
const MIN_SECRET = 6

/** Shorter parts of a path are not secrets. */
const MIN_PATH_SECRET = 16

/** Credentials that a target may quote, although they are not in the headers. */
const CREDENTIALS = /\b(?:Bearer|Basic) \S+|\beyJ[\w.-]+/gi

/** Reads the reasons that a target gives, without the secrets that its URL and the headers contain. */
export class ReasonReader {
  readonly #secrets: readonly string[]

  constructor(url: string, headers: Readonly<Record<string, string>>) {
    const { pathname, searchParams } = new URL(url)
    const values = Object.values(headers).flatMap((value) => [value, ...value.split(/[\s,;=]+/)])
    const words = [...values, ...searchParams.values()].filter(({ length }) => length >= MIN_SECRET)
    words.push(...pathname.split('/').filter(({ length }) => length >= MIN_PATH_SECRET))
    this.#secrets = words
      .flatMap((word) => [word, new URLSearchParams([['', word]]).toString().slice(1)])
      .sort((one, other) => other.length - one.length)
  }

  /** Returns the reason in quotes after a space, or an empty string. */
  quote(reason: unknown): string {
    if (typeof reason !== 'string') return ''
    const known = reason.replace(CREDENTIALS, '[removed]')
    const masked = this.#secrets.reduce((text, secret) => text.replaceAll(secret, '[removed]'), known)
    const line = masked.replace(/\s+/g, ' ').trim()
    return line === '' ? '' : ` ${JSON.stringify(cutText(line, MAX_REASON, '…'))}`
  }
}

/** Returns the message in the body of a response: a member of JSON, or the text itself unless it is HTML. */
export function messageOf(body: string): unknown {
  try {
    const { message, error, detail, partialSuccess } = JSON.parse(body)
    return message ?? partialSuccess?.errorMessage ?? error?.message ?? error ?? detail
  } catch {
    return /^\s*[<{[]/.test(body) ? undefined : body
  }
}
