import type { JSONWebKeySet, createRemoteJWKSet as RemoteJWKSet } from 'jose'
import { VerifierUnavailableError } from '../errors.ts'
import { isLoopbackHostname } from '../option-checks.ts'
import { boundedFetch } from './bounded-fetch.ts'

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
}

const FETCH_TIMEOUT_MS = 5_000
/** After a failed fetch there is no other for so long, or for `cooldownSeconds` where that is shorter. */
const FAILURE_PAUSE_MS = 1_000
/** How long a token whose key is at hand waits for newer keys. */
const PATIENCE_MS = 500

/**
 * The key set of an authorization server: fetched when first needed, kept for `cacheSeconds`, fetched
 * again for a `kid` it does not hold, at most once per `cooldownSeconds`. Keys once fetched go on working
 * while the endpoint is down, or does not answer. Redirects are not followed; answers over 1 MiB or 5 s are an outage.
 */
export class RemoteKeys implements KeySource {
  readonly #options: RemoteKeysOptions
  #remote: ReturnType<typeof RemoteJWKSet> | undefined
  #opening: Promise<ReturnType<typeof RemoteJWKSet>> | undefined
  #keys: JSONWebKeySet | undefined
  /** When the keys were last fetched because of a `kid`: the fetch before may be older than the rotation. */
  #soughtAt = Number.NEGATIVE_INFINITY
  #failedAt = Number.NEGATIVE_INFINITY
  /** Whether a fetch is under way that has tried somebody's patience. */
  #isSlow = false

  constructor(options: RemoteKeysOptions) {
    this.#options = options
  }

  held(kid: string | undefined): JSONWebKeySet | undefined {
    const keys = this.#keys
    return keys !== undefined && this.#remote?.fresh === true && holds(keys, kid) ? keys : undefined
  }

  async keysFor(kid: string | undefined): Promise<JSONWebKeySet> {
    const remote = this.#remote ?? (await this.#open())
    const known = this.#keys
    if (known === undefined) return await this.#reload(remote)
    const held = holds(known, kid)
    if (held && remote.fresh) return known
    const cooldownMs = this.#options.cooldownSeconds * 1000
    if (!held && remote.fresh && Date.now() < this.#soughtAt + cooldownMs) return known
    if (Date.now() < this.#failedAt + Math.min(FAILURE_PAUSE_MS, cooldownMs)) {
      if (held) return known
      throw unavailable(`the JWKS of ${this.#options.issuer} could not be fetched`, undefined)
    }
    if (held) return this.#isSlow ? known : await this.#newer(remote, known)
    const keys = await this.#reload(remote)
    this.#soughtAt = Date.now()
    return keys
  }

  /** What is fetched now, or `known` where that fails, or takes too long for those who wait. */
  async #newer(remote: ReturnType<typeof RemoteJWKSet>, known: JSONWebKeySet): Promise<JSONWebKeySet> {
    let timer: NodeJS.Timeout | undefined
    const patience = new Promise<JSONWebKeySet>((resolve) => {
      timer = setTimeout(() => {
        this.#isSlow = true
        resolve(known)
      }, PATIENCE_MS)
    })
    const fetched = this.#reload(remote)
      .catch(() => known)
      .finally(() => {
        clearTimeout(timer)
        this.#isSlow = false
      })
    return await Promise.race([fetched, patience])
  }

  async #reload(remote: ReturnType<typeof RemoteJWKSet>): Promise<JSONWebKeySet> {
    try {
      await remote.reload()
    } catch (cause) {
      this.#failedAt = Date.now()
      throw unavailable(`the JWKS of ${this.#options.issuer} could not be fetched`, cause)
    }
    const keys = remote.jwks()
    if (keys === undefined) throw unavailable(`the JWKS of ${this.#options.issuer} is empty`, undefined)
    this.#keys = keys
    return keys
  }

  #open(): Promise<ReturnType<typeof RemoteJWKSet>> {
    this.#opening ??= this.#connect().then(
      (remote) => {
        this.#remote = remote
        return remote
      },
      (error) => {
        this.#opening = undefined
        throw error
      },
    )
    return this.#opening
  }

  async #connect(): Promise<ReturnType<typeof RemoteJWKSet>> {
    const { issuer, cacheSeconds, allowInsecureHttp } = this.#options
    const { createRemoteJWKSet, customFetch } = await import('jose')
    const jwksUri = this.#options.jwksUri ?? (await discoverJwksUri(issuer, allowInsecureHttp))
    return createRemoteJWKSet(new URL(jwksUri), {
      timeoutDuration: FETCH_TIMEOUT_MS,
      cacheMaxAge: cacheSeconds * 1000,
      [customFetch]: boundedFetch,
    })
  }
}

/** Where the metadata of an issuer may be, in the order in which it is looked for. */
const METADATA_FORMS = [
  ['oauth2', 'oauth-authorization-server'],
  ['oidc', 'openid-configuration'],
  // As RFC 8414 §5 has it for an issuer with a path.
  ['oauth2', 'openid-configuration'],
] as const

/** `jwks_uri` from the issuer's metadata: RFC 8414, or else OpenID Connect Discovery. */
async function discoverJwksUri(issuer: string, allowInsecureHttp: boolean): Promise<string> {
  const oauth = await import('oauth4webapi')
  const url = new URL(issuer)
  const options = {
    [oauth.allowInsecureRequests]: allowInsecureHttp || isLoopbackHostname(url.hostname),
    signal: () => AbortSignal.timeout(FETCH_TIMEOUT_MS),
  }
  let cause: unknown
  for (const [algorithm, document] of METADATA_FORMS.slice(0, url.pathname === '/' ? 2 : 3)) {
    try {
      const response = await oauth.discoveryRequest(url, {
        algorithm,
        ...options,
        [oauth.customFetch]: (href: string, init: object) =>
          boundedFetch(
            href.replace('/.well-known/oauth-authorization-server', `/.well-known/${document}`),
            init,
          ),
      })
      const metadata = await oauth.processDiscoveryResponse(url, response)
      const jwksUri = metadata.jwks_uri
      if (jwksUri === undefined) throw new Error('the metadata document has no jwks_uri')
      const { protocol, hostname } = new URL(jwksUri)
      // An issuer elsewhere has no say about what this machine serves to itself.
      const local = isLoopbackHostname(hostname) && isLoopbackHostname(url.hostname)
      if (protocol !== 'https:' && !allowInsecureHttp && !local) throw new Error('jwks_uri is not https')
      return jwksUri
    } catch (error) {
      cause ??= error
    }
  }
  throw unavailable(`the metadata document of ${issuer} could not be fetched`, cause)
}

function holds({ keys }: JSONWebKeySet, kid: string | undefined): boolean {
  return kid === undefined || keys.some((key) => key.kid === kid)
}

function unavailable(message: string, cause: unknown): VerifierUnavailableError {
  return new VerifierUnavailableError(message, cause === undefined ? {} : { cause })
}
