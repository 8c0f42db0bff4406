import { LRUCache } from 'lru-cache'
import { isPromiseLike } from '../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { within } from '../../base/within.ts'
import { VerifierUnavailableError } from '../errors.ts'
import { outage } from '../outages.ts'
import type { KeySource, RemoteKeys } from './jwks.ts'

/** Decides whether tokens of an issuer are accepted. Only `true` accepts. */
export type AskIssuer = (iss: string) => boolean | Promise<boolean>

/** The maximum size of the metadata and of the key set of an issuer, in bytes, and of the set in keys. */
export const ASKED_ISSUER_LIMITS = { maxBytes: 65_536, maxKeys: 100 } as const

/** The maximum length of an `iss` that the function gets. */
const MAX_ISSUER_LENGTH = 1_024
/** The maximum number of issuers whose keys are kept. */
const MAX_KEPT = 100
/** The maximum number of issuers whose keys are being fetched or could not be fetched within the last second. */
const MAX_TRIED = 1_000
const ASK_TIMEOUT_MS = 5_000

/**
 * The issuers that a function of the application accepts. It is asked for each token, because it may change its mind.
 *
 * The keys of the issuers that were used last are kept. An issuer is among them when its keys have been fetched, so that tokens
 * of invented issuers do not replace the keys of real ones.
 */
export class AskedIssuers {
  readonly #ask: AskIssuer
  readonly #keysOf: (issuer: string) => RemoteKeys
  readonly #kept = new LRUCache<string, RemoteKeys>({
    max: MAX_KEPT,
    dispose: (keys, issuer, reason) => {
      // An issuer that is forgotten too early could be asked more than once in a second.
      if (reason === 'evict' && !keys.isIdle) this.#tried.set(issuer, keys)
    },
  })
  readonly #tried = new Map<string, RemoteKeys>()

  constructor(ask: AskIssuer, keysOf: (issuer: string) => RemoteKeys) {
    this.#ask = ask
    this.#keysOf = keysOf
  }

  /**
   * Returns the keys of the issuer that a token names; `undefined` if its tokens are not accepted.
   * @param iss the claim of the token, which is untrusted
   * @throws {VerifierUnavailableError} if the function fails.
   */
  async keysOf(iss: unknown): Promise<KeySource | undefined> {
    if (!isPlainHttpsUrl(iss) || !(await this.#accepts(iss))) return undefined
    return this.#kept.get(iss) ?? { held: () => undefined, keysFor: (kid) => this.#firstKeys(iss, kid) }
  }

  async #accepts(iss: string): Promise<boolean> {
    const late = () => outage(`the function issuers did not settle within ${ASK_TIMEOUT_MS} ms`)
    try {
      const answer: unknown = this.#ask(iss)
      return (isPromiseLike(answer) ? await within(answer, ASK_TIMEOUT_MS, late) : answer) === true
    } catch (cause) {
      if (VerifierUnavailableError.is(cause)) throw cause
      throw outage('the function issuers has failed', { cause })
    }
  }

  async #firstKeys(issuer: string, kid: string | undefined): ReturnType<KeySource['keysFor']> {
    const source = this.#kept.get(issuer) ?? this.#tried.get(issuer) ?? this.#try(issuer)
    const keys = await source.keysFor(kid)
    // Otherwise, a user would have two names: with and without a slash at the end of the issuer.
    if (source.metadataIssuer !== issuer) return undefined
    if (this.#tried.delete(issuer)) this.#kept.set(issuer, source)
    return keys
  }

  #try(issuer: string): RemoteKeys {
    if (this.#tried.size >= MAX_TRIED) {
      for (const [other, keys] of this.#tried) if (keys.isIdle) this.#tried.delete(other)
    }
    if (this.#tried.size >= MAX_TRIED) throw outage('the keys of too many issuers are being fetched')
    const source = this.#keysOf(issuer)
    this.#tried.set(issuer, source)
    return source
  }
}

/**
 * Returns `true` for an issuer that can be asked for its metadata: an https URL without credentials, query, and fragment. It must
 * be in the form that the URL parser writes, so that an issuer has one spelling.
 */
function isPlainHttpsUrl(iss: unknown): iss is string {
  if (typeof iss !== 'string' || iss.length > MAX_ISSUER_LENGTH || /[?#]/.test(iss)) return false
  const url = tryOrUndefined(() => new URL(iss))
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '') return false
  return url.href === iss || url.href === `${iss}/`
}
