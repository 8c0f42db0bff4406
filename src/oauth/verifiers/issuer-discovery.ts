import type { AuthorizationServer } from 'oauth4webapi'
import { boundedFetch } from '../../base/http/bounded-fetch.ts'
import { isLoopbackHostname } from '../../base/options/option-checks.ts'
import { outageReason, plainUrl } from '../outages.ts'

/** The locations of an issuer's metadata, in the order in which they are tried. */
const METADATA_FORMS = [
  ['oauth2', 'oauth-authorization-server'],
  ['oidc', 'openid-configuration'],
  // RFC 8414 §5, for an issuer with a path.
  ['oauth2', 'openid-configuration'],
] as const

type MetadataForm = (typeof METADATA_FORMS)[number]

/** Fetches the metadata of an issuer: RFC 8414, or else OpenID Connect Discovery. */
export class IssuerDiscovery {
  /** The issuer as it is configured. */
  readonly issuer: string
  readonly #allowInsecureHttp: boolean
  readonly #timeoutMs: number
  readonly #maxBytes: number | undefined
  readonly #forms: readonly MetadataForm[]
  #next = 0

  /** @param maxBytes the maximum size of the metadata. Defaults to 1 MiB. */
  constructor(issuer: string, allowInsecureHttp: boolean, timeoutMs: number, maxBytes?: number) {
    this.issuer = issuer
    this.#allowInsecureHttp = allowInsecureHttp
    this.#timeoutMs = timeoutMs
    this.#maxBytes = maxBytes
    this.#forms = METADATA_FORMS.slice(0, new URL(issuer).pathname === '/' ? 2 : 3)
  }

  /**
   * Tries one location after the other while the server responds that the document does not exist. It stops at the first
   * sign of an outage. The next call continues with the next location, because some servers fail at unknown locations.
   * @param read reads the document. If it throws, the next location is tried.
   * @throws the first error.
   */
  async find<T>(read: (metadata: AuthorizationServer) => T): Promise<T> {
    let cause: unknown
    for (let tried = 0; tried < this.#forms.length; tried++) {
      const form = this.#forms[this.#next] as MetadataForm
      this.#next = (this.#next + 1) % this.#forms.length
      const answered = { definitely: false, url: '' }
      try {
        return read(await this.#ask(form, answered))
      } catch (error) {
        cause ??= new Error(`${answered.url}: ${outageReason(error, this.issuer)}`, { cause: error })
        if (!answered.definitely) break
      }
    }
    throw cause
  }

  async #ask(
    [algorithm, document]: MetadataForm,
    answered: { definitely: boolean; url: string },
  ): Promise<AuthorizationServer> {
    const oauth = await import('oauth4webapi')
    const issuer = new URL(this.issuer)
    const response = await oauth.discoveryRequest(issuer, {
      algorithm,
      [oauth.allowInsecureRequests]: this.#allowInsecureHttp || isLoopbackHostname(issuer.hostname),
      signal: () => AbortSignal.timeout(this.#timeoutMs),
      [oauth.customFetch]: (href: string, init: object) => {
        const url = href.replace('/.well-known/oauth-authorization-server', `/.well-known/${document}`)
        answered.url = plainUrl(url)
        return boundedFetch(url, init, { maxBytes: this.#maxBytes })
      },
    })
    answered.definitely = response.status < 500 && response.status !== 408 && response.status !== 429
    return await oauth.processDiscoveryResponse(issuer, response)
  }
}
