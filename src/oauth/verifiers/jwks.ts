import type { JSONWebKeySet, createRemoteJWKSet as RemoteJWKSet } from 'jose'
import { VerifierUnavailableError } from '../errors.ts'
import { boundedFetch } from './bounded-fetch.ts'
import { JwksDiscovery } from './jwks-discovery.ts'
import type { OutagePace } from './outage-pace.ts'

/** Where a verifier's public keys come from. */
export interface KeySource {
  /** The keys to try for a token whose header names `kid`, where they are at hand; undefined when they may have to be fetched. */
  held(kid: string | undefined): JSONWebKeySet | undefined
  /**
   * The keys to try for a token whose header names `kid`.
   * @throws {VerifierUnavailableError} when they cannot be had right now.
   */
  keysFor(kid: string | undefined): Promise<JSONWebKeySet>
}

export interface RemoteKeysOptions {
  readonly issuer: string
  /** Found through the issuer's metadata when absent. */
  readonly jwksUri: string | undefined
  readonly cooldownSeconds: number
  readonly cacheSeconds: number
  readonly allowInsecureHttp: boolean
  /** The pace that all issuers of the verifier share. */
  readonly pace: OutagePace
}

const FETCH_TIMEOUT_MS = 5_000
/** The time that a token waits for newer keys if its key is at hand, or for any keys if the last attempt has failed. */
const PATIENCE_MS = 500

/**
 * The key set of an authorization server: fetched when first needed, kept for `cacheSeconds`, fetched
 * again for a `kid` it does not hold, at most once per `cooldownSeconds`. Keys once fetched go on working
 * while the endpoint is down, or does not answer. Redirects are not followed; answers over 1 MiB or 5 s are an outage.
 * While attempts fail, the verifier makes one per second at most. Tokens that need keys meanwhile are not kept waiting.
 */
export class RemoteKeys implements KeySource {
  readonly #options: RemoteKeysOptions
  readonly #discovery: JwksDiscovery
  #remote: ReturnType<typeof RemoteJWKSet> | undefined
  /** The attempt under way. */
  #fetching: Promise<JSONWebKeySet> | undefined
  /** The attempt that is to be made when others let it. */
  #turn: Promise<JSONWebKeySet | undefined> | undefined
  #keys: JSONWebKeySet | undefined
  /** When the keys were last fetched because of a `kid`: the fetch before may be older than the rotation. */
  #soughtAt = Number.NEGATIVE_INFINITY
  /** The reason why the latest attempt has failed, if it has. */
  #failure: { readonly cause: unknown } | undefined
  /** Whether a fetch is under way that has tried somebody's patience. */
  #isSlow = false

  constructor(options: RemoteKeysOptions) {
    this.#options = options
    this.#discovery = new JwksDiscovery(options.issuer, options.allowInsecureHttp, FETCH_TIMEOUT_MS)
  }

  held(kid: string | undefined): JSONWebKeySet | undefined {
    const keys = this.#keys
    return keys !== undefined && this.#remote?.fresh === true && holds(keys, kid) ? keys : undefined
  }

  async keysFor(kid: string | undefined): Promise<JSONWebKeySet> {
    const known = this.#keys
    const held = known !== undefined && holds(known, kid)
    const fresh = this.#remote?.fresh === true
    if (held && fresh) return known
    const soughtLately = Date.now() < this.#soughtAt + this.#options.cooldownSeconds * 1000
    if (known !== undefined && !held && fresh && soughtLately) return known
    if (this.#options.pace.turnsAway(this.#attempt)) {
      if (held) return known
      throw this.#unavailable()
    }
    if (held) return this.#isSlow ? known : await this.#newer(known)
    const keys = await (this.#failure === undefined ? this.#load() : this.#soon(this.#load()))
    if (known !== undefined) this.#soughtAt = Date.now()
    return keys
  }

  /** The newest keys, or `known` if they cannot be fetched, or not in the time that a token waits. */
  async #newer(known: JSONWebKeySet): Promise<JSONWebKeySet> {
    const fetched = this.#load()
      .catch(() => known)
      .finally(() => {
        this.#isSlow = false
      })
    return await inTime(fetched, () => {
      this.#isSlow = true
      return known
    })
  }

  /** Keys that are fetched during an outage: an endpoint that hangs must not make requests pile up. */
  async #soon(keys: Promise<JSONWebKeySet>): Promise<JSONWebKeySet> {
    return await inTime(keys, () => {
      throw this.#unavailable()
    })
  }

  /** Fetches the keys, once for all who need them. */
  async #load(): Promise<JSONWebKeySet> {
    if (this.#fetching !== undefined) return await this.#fetching
    this.#turn ??= this.#takeTurn().finally(() => {
      this.#turn = undefined
    })
    const keys = await this.#turn
    if (keys === undefined) throw this.#unavailable()
    return keys
  }

  async #takeTurn(): Promise<JSONWebKeySet | undefined> {
    // Loaded before the attempt begins, so that the time between two attempts is the time between their requests.
    if (this.#options.jwksUri === undefined) await import('oauth4webapi')
    return await this.#options.pace.make(this.#attempt)
  }

  readonly #attempt = (): Promise<JSONWebKeySet> => {
    this.#fetching ??= this.#fetch().finally(() => {
      this.#fetching = undefined
    })
    return this.#fetching
  }

  async #fetch(): Promise<JSONWebKeySet> {
    try {
      this.#remote ??= await this.#connect()
      await this.#remote.reload()
      const keys = this.#remote.jwks()
      if (keys === undefined) throw new Error('the key set is empty')
      this.#failure = undefined
      this.#keys = keys
      return keys
    } catch (cause) {
      this.#failure = { cause }
      throw this.#unavailable()
    }
  }

  async #connect(): Promise<ReturnType<typeof RemoteJWKSet>> {
    const { createRemoteJWKSet, customFetch } = await import('jose')
    const jwksUri = this.#options.jwksUri ?? (await this.#discovery.jwksUri())
    return createRemoteJWKSet(new URL(jwksUri), {
      timeoutDuration: FETCH_TIMEOUT_MS,
      cacheMaxAge: this.#options.cacheSeconds * 1000,
      [customFetch]: boundedFetch,
    })
  }

  #unavailable(): VerifierUnavailableError {
    const { issuer, jwksUri } = this.#options
    const what = this.#remote === undefined && jwksUri === undefined ? 'metadata document' : 'JWKS'
    return new VerifierUnavailableError(`the ${what} of ${issuer} could not be fetched`, this.#failure ?? {})
  }
}

/** The outcome of `promise`, or of `late` if it is not there in the time that a token waits. */
async function inTime<T>(promise: Promise<T>, late: () => T): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const patience = new Promise<T>((resolve, reject) => {
    timer = setTimeout(() => {
      try {
        resolve(late())
      } catch (error) {
        reject(error)
      }
    }, PATIENCE_MS)
  })
  try {
    return await Promise.race([promise, patience])
  } finally {
    clearTimeout(timer)
  }
}

function holds({ keys }: JSONWebKeySet, kid: string | undefined): boolean {
  return kid === undefined || keys.some((key) => key.kid === kid)
}
