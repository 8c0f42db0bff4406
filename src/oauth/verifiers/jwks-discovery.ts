import type { AuthorizationServer } from 'oauth4webapi'
import { isLoopbackHostname } from '../../options/option-checks.ts'
import { IssuerDiscovery } from './issuer-discovery.ts'

/** Finds `jwks_uri` in the issuer's metadata. */
export class JwksDiscovery {
  readonly #discovery: IssuerDiscovery
  readonly #allowInsecureHttp: boolean
  /** The `issuer` in the metadata, after it was found. */
  metadataIssuer: string | undefined
  /** The `jwks_uri`, after it was found. */
  found: string | undefined

  constructor(issuer: string, allowInsecureHttp: boolean, timeoutMs: number, maxBytes?: number) {
    this.#discovery = new IssuerDiscovery(issuer, allowInsecureHttp, timeoutMs, maxBytes)
    this.#allowInsecureHttp = allowInsecureHttp
  }

  /** @throws the first error, if no metadata document names the keys. */
  jwksUri(): Promise<string> {
    return this.#discovery.find((metadata) => this.#jwksUriIn(metadata))
  }

  #jwksUriIn({ issuer, jwks_uri: jwksUri }: AuthorizationServer): string {
    if (jwksUri === undefined) throw new Error('the metadata document has no jwks_uri')
    const { protocol, hostname } = new URL(jwksUri)
    // A remote issuer must not make this machine send requests to itself.
    const local = isLoopbackHostname(hostname) && isLoopbackHostname(this.#discovery.issuer.hostname)
    if (protocol !== 'https:' && !this.#allowInsecureHttp && !local) throw new Error('jwks_uri is not https')
    this.metadataIssuer = issuer
    this.found = jwksUri
    return jwksUri
  }
}
