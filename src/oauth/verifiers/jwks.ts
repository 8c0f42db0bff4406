import type { JSONWebKeySet, JWK, createRemoteJWKSet as RemoteJWKSet } from 'jose'
import type { AuthorizationServer } from 'oauth4webapi'
import { boundedFetch, FetchRefusal } from '../../base/http/bounded-fetch.ts'
import { isLoopbackHostname } from '../../base/options/option-checks.ts'
import { within } from '../../base/within.ts'
import type { VerifierUnavailableError } from '../errors.ts'
import { outage, outageReason, plainUrl } from '../outages.ts'
import { IssuerDiscovery } from './issuer-discovery.ts'

/** A source of public keys. */
export interface KeySource {
  /** Returns the keys for a token whose header names `kid`; `undefined` if they may have to be fetched. */
  held(kid: string | undefined): readonly JWK[] | undefined
  /**
   * Returns the keys for a token whose header names `kid`, and fetches them if needed; `undefined` if the issuer has another name.
   * @throws {VerifierUnavailableError} if they cannot be fetched.
   */
  keysFor(kid: string | undefined): Promise<readonly JWK[] | undefined>
  /** Returns other keys for a token that the `tried` ones do not verify; `undefined` if there are none now. */
  newerFor?(kid: string | undefined, tried: readonly JWK[]): Promise<readonly JWK[] | undefined>
}

export interface RemoteKeysOptions {
  readonly issuer: string
  /** `undefined` if it is found with the issuer's metadata. */
  readonly jwksUri: string | undefined
  readonly jwksCooldownSeconds: number
  readonly jwksCacheSeconds: number
  readonly allowInsecureHttp: boolean
  /** The maximum size of the metadata and of the key set in bytes, and of the set in keys. Defaults to 1 MiB. */
  readonly limits?: { readonly maxBytes: number; readonly maxKeys: number }
}

const FETCH_TIMEOUT_MS = 5_000
/** The minimum time from a failed attempt to the next one. */
const PAUSE_MS = 1_000
/** The time that a token waits for newer keys if its key is cached, or for any keys if the last attempt failed. */
const MAX_WAIT_MS = 500

/**
 * The key set of an authorization server. It is fetched when first needed, cached for `jwksCacheSeconds`, and fetched again for a
 * token that no cached key verifies, at most once per `jwksCooldownSeconds`. Cached keys stay in use while the endpoint is down or does not respond.
 * Redirects are not followed. A response above the limits, or one that takes more than 5 s, is an outage. While attempts
 * fail, at most one is made per second, and tokens that need new keys get a 503 at once.
 */
export class RemoteKeys implements KeySource {
  readonly #options: RemoteKeysOptions
  readonly #discovery: IssuerDiscovery
  /** The `issuer` in the metadata. It is `undefined` before the metadata was fetched. */
  metadataIssuer: string | undefined
  /** The `jwks_uri` in the metadata. */
  #foundUri: string | undefined
  #remote: ReturnType<typeof RemoteJWKSet> | undefined
  /** The attempt in progress. */
  #fetching: Promise<JSONWebKeySet> | undefined
  #keys: JSONWebKeySet | undefined
  /** The time of the last fetch because no key verified a token. Other fetches may be older than the rotation. */
  #renewedAt = Number.NEGATIVE_INFINITY
  /** The reason of the latest failure; `undefined` after a success. */
  #failure: { readonly cause: unknown } | undefined
  /** The time before which no attempt is made, because the latest one has failed. */
  #pausedUntilMs = Number.NEGATIVE_INFINITY
  /** `true` while a fetch takes longer than tokens wait. */
  #isSlow = false

  constructor(options: RemoteKeysOptions) {
    this.#options = options
    const { issuer, allowInsecureHttp, limits } = options
    this.#discovery = new IssuerDiscovery(issuer, allowInsecureHttp, FETCH_TIMEOUT_MS, limits?.maxBytes)
  }

  /** `true` if no attempt is in progress, and the next one may start at once. */
  get isIdle(): boolean {
    return this.#fetching === undefined && performance.now() >= this.#pausedUntilMs
  }

  held(kid: string | undefined): readonly JWK[] | undefined {
    const keys = this.#keys
    return keys !== undefined && this.#remote?.fresh === true && holds(keys, kid)
      ? named(keys, kid)
      : undefined
  }

  async keysFor(kid: string | undefined): Promise<readonly JWK[]> {
    return named(await this.#setFor(kid), kid)
  }

  async newerFor(kid: string | undefined, tried: readonly JWK[]): Promise<readonly JWK[] | undefined> {
    const known = this.#keys
    const current = known === undefined ? [] : named(known, kid)
    // Another token has renewed the keys in the meantime: a new set has new objects.
    if (current.length > 0 && current[0] !== tried[0]) return current
    // A token with a wrong signature is invalid, not a reason for a 503.
    const newer = await this.#setFor(kid, true).catch(() => known)
    return newer === undefined || newer === known ? undefined : named(newer, kid)
  }

  async #setFor(kid: string | undefined, isRefused = false): Promise<JSONWebKeySet> {
    const known = this.#keys
    const held = !isRefused && known !== undefined && holds(known, kid)
    const fresh = this.#remote?.fresh === true
    if (held && fresh) return known
    const fetchedLately = Date.now() < this.#renewedAt + this.#options.jwksCooldownSeconds * 1000
    if (known !== undefined && !held && fresh && fetchedLately) return known
    if (performance.now() < this.#pausedUntilMs) {
      if (held) return known
      throw this.#unavailable()
    }
    if (held) return this.#isSlow ? known : await this.#newer(known)
    // During an outage, the time is limited, so that requests do not accumulate.
    const keys = await (this.#failure === undefined
      ? this.#load()
      : within(this.#load(), MAX_WAIT_MS, () => this.#unavailable()))
    if (known !== undefined) this.#renewedAt = Date.now()
    return keys
  }

  /** Returns the newest keys, or `known` if they cannot be fetched in the time that a token waits. */
  #newer(known: JSONWebKeySet): Promise<JSONWebKeySet> {
    const fetched = this.#load().finally(() => {
      this.#isSlow = false
    })
    return within(fetched, MAX_WAIT_MS, () => {
      this.#isSlow = true
      return this.#unavailable()
    }).catch(() => known)
  }

  /** Fetches the keys. Concurrent calls share one fetch. */
  #load(): Promise<JSONWebKeySet> {
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
      this.#pausedUntilMs = performance.now() + PAUSE_MS
      throw this.#unavailable()
    }
  }

  async #connect(): Promise<ReturnType<typeof RemoteJWKSet>> {
    const { createRemoteJWKSet, customFetch } = await import('jose')
    const jwksUri =
      this.#options.jwksUri ?? (await this.#discovery.find((metadata) => this.#jwksUriIn(metadata)))
    return createRemoteJWKSet(new URL(jwksUri), {
      timeoutDuration: FETCH_TIMEOUT_MS,
      cacheMaxAge: this.#options.jwksCacheSeconds * 1000,
      [customFetch]: (url: string, init: RequestInit) => this.#fetchSet(url, init),
    })
  }

  #jwksUriIn({ issuer, jwks_uri: jwksUri }: AuthorizationServer): string {
    if (jwksUri === undefined) throw new Error('the metadata document has no jwks_uri')
    const { protocol, hostname } = new URL(jwksUri)
    // A remote issuer must not make this machine send requests to itself.
    const local = isLoopbackHostname(hostname) && isLoopbackHostname(new URL(this.#options.issuer).hostname)
    if (protocol !== 'https:' && !this.#options.allowInsecureHttp && !local)
      throw new Error('jwks_uri is not https')
    this.metadataIssuer = issuer
    this.#foundUri = jwksUri
    return jwksUri
  }

  async #fetchSet(url: string, init: RequestInit): Promise<Response> {
    const { limits } = this.#options
    const response = await boundedFetch(url, init, { maxBytes: limits?.maxBytes })
    if (response.status !== 200) throw new FetchRefusal(`the response has the status ${response.status}`)
    if (limits === undefined) return response
    const set = (await response.json()) as Partial<JSONWebKeySet> | null
    if (Array.isArray(set?.keys) && set.keys.length > limits.maxKeys)
      throw new FetchRefusal(`the key set has more than ${limits.maxKeys} keys`)
    return Response.json(set)
  }

  #unavailable(): VerifierUnavailableError {
    const { issuer, jwksUri } = this.#options
    const what = this.#remote === undefined && jwksUri === undefined ? 'metadata document' : 'JWKS'
    const from = jwksUri ?? this.#foundUri
    const at = from === undefined || what !== 'JWKS' ? '' : ` at ${plainUrl(from)}`
    const why = this.#failure === undefined ? '' : `: ${outageReason(this.#failure.cause)}`
    return outage(`the ${what} of ${plainUrl(issuer)}${at} is unavailable${why}`, this.#failure)
  }
}

/** Returns the keys that a header with this `kid` names. */
function named({ keys }: JSONWebKeySet, kid: string | undefined): readonly JWK[] {
  return kid === undefined ? keys : keys.filter((key) => key.kid === kid)
}

function holds({ keys }: JSONWebKeySet, kid: string | undefined): boolean {
  return kid === undefined || keys.some((key) => key.kid === kid)
}
