import { isLoopbackHostname } from '../../options/option-checks.ts'
import { boundedFetch } from './bounded-fetch.ts'

/** The locations of an issuer's metadata, in the order in which they are tried. */
const METADATA_FORMS = [
  ['oauth2', 'oauth-authorization-server'],
  ['oidc', 'openid-configuration'],
  // RFC 8414 §5, for an issuer with a path.
  ['oauth2', 'openid-configuration'],
] as const

type MetadataForm = (typeof METADATA_FORMS)[number]

/** Finds `jwks_uri` in the issuer's metadata: RFC 8414, or else OpenID Connect Discovery. */
export class JwksDiscovery {
  readonly #issuer: URL
  readonly #allowInsecureHttp: boolean
  readonly #timeoutMs: number
  readonly #forms: readonly MetadataForm[]
  #next = 0

  constructor(issuer: string, allowInsecureHttp: boolean, timeoutMs: number) {
    this.#issuer = new URL(issuer)
    this.#allowInsecureHttp = allowInsecureHttp
    this.#timeoutMs = timeoutMs
    this.#forms = METADATA_FORMS.slice(0, this.#issuer.pathname === '/' ? 2 : 3)
  }

  /**
   * Tries one location after the other while the server responds that the document does not exist. It stops at the first
   * sign of an outage. The next call continues with the next location, because some servers fail at unknown locations.
   * @throws the first error.
   */
  async jwksUri(): Promise<string> {
    let cause: unknown
    for (let tried = 0; tried < this.#forms.length; tried++) {
      const form = this.#forms[this.#next] as MetadataForm
      this.#next = (this.#next + 1) % this.#forms.length
      const answered = { definitely: false }
      try {
        return await this.#ask(form, answered)
      } catch (error) {
        cause ??= error
        if (!answered.definitely) break
      }
    }
    throw cause
  }

  async #ask([algorithm, document]: MetadataForm, answered: { definitely: boolean }): Promise<string> {
    const oauth = await import('oauth4webapi')
    const issuer = this.#issuer
    const response = await oauth.discoveryRequest(issuer, {
      algorithm,
      [oauth.allowInsecureRequests]: this.#allowInsecureHttp || isLoopbackHostname(issuer.hostname),
      signal: () => AbortSignal.timeout(this.#timeoutMs),
      [oauth.customFetch]: (href: string, init: object) =>
        boundedFetch(
          href.replace('/.well-known/oauth-authorization-server', `/.well-known/${document}`),
          init,
        ),
    })
    answered.definitely = response.status < 500 && response.status !== 408 && response.status !== 429
    const metadata = await oauth.processDiscoveryResponse(issuer, response)
    const jwksUri = metadata.jwks_uri
    if (jwksUri === undefined) throw new Error('the metadata document has no jwks_uri')
    const { protocol, hostname } = new URL(jwksUri)
    // A remote issuer must not make this machine send requests to itself.
    const local = isLoopbackHostname(hostname) && isLoopbackHostname(issuer.hostname)
    if (protocol !== 'https:' && !this.#allowInsecureHttp && !local) throw new Error('jwks_uri is not https')
    return jwksUri
  }
}
