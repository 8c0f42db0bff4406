import { types } from 'node:util'

/** What stands where a token was. */
const ERASED = '[token]'

/** Shorter ones are no secrets (RFC 6749 §10.10 asks for 128 bits and more), and would be found by chance. */
const MIN_SECRET = 16

/** How many causes of an error are followed. */
const MAX_CAUSES = 16

/**
 * Takes the credentials of a request out of what is told of it: the token as it is and percent-encoded, and
 * the parts of a JWT. What was made of it in another way (cut, hashed, decoded) is not found.
 */
export class TokenEraser {
  readonly #secrets: readonly string[]

  /** @param authorization the token, or `Authorization` values. */
  constructor(authorization: string | readonly string[] | undefined) {
    const words = [authorization ?? []].flat().flatMap((value) => value.split(/[\s,]+/))
    const secrets = words.flatMap((word) => [word, encodeURIComponent(word), ...word.split('.')])
    this.#secrets = [...new Set(secrets)].filter((secret) => secret.length >= MIN_SECRET)
  }

  /** Whether none of it is in `text`. */
  isFree(text: string): boolean {
    return this.#secrets.every((secret) => !text.includes(secret))
  }

  text(text: string): string {
    return this.isFree(text)
      ? text
      : this.#secrets.reduce((left, secret) => left.replaceAll(secret, ERASED), text)
  }

  /** A JSON value. */
  json(value: unknown): unknown {
    const text = JSON.stringify(value) as string | undefined
    return text === undefined || this.isFree(text) ? value : JSON.parse(this.text(text))
  }

  /** The texts of an error and of its causes, as an error; undefined for what is none. */
  error(given: unknown, causesLeft: number = MAX_CAUSES): Error | undefined {
    if (!types.isNativeError(given) && !(given instanceof Error)) return undefined
    const { name, message, stack, cause } = given
    const { code } = given as { code?: unknown }
    const copy = new Error(this.text(String(message)))
    if (cause !== undefined && causesLeft > 0) {
      const told = typeof cause === 'string' ? this.text(cause) : this.error(cause, causesLeft - 1)
      if (told !== undefined) copy.cause = told
    }
    const members = {
      name: this.text(String(name)),
      stack: typeof stack === 'string' ? this.text(stack) : undefined,
      ...((typeof code === 'string' || typeof code === 'number') && { code: this.text(String(code)) }),
    }
    for (const [member, value] of Object.entries(members))
      Object.defineProperty(copy, member, { value, configurable: true })
    return copy
  }
}
