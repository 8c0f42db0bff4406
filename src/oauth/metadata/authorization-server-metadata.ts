import type { PlainResponse } from '../../base/http/plain-response.ts'
import { refreshed } from '../../base/refreshed.ts'
import { IssuerDiscovery } from '../verifiers/issuer-discovery.ts'
import {
  CROSS_ORIGIN,
  PUBLIC,
  type RenderedDocument,
  refusedMethod,
  renderDocument,
  respondWith,
  UNCACHED,
} from './metadata-document.ts'
import type { MetadataRequest } from './protected-resource.ts'

const FETCH_TIMEOUT_MS = 5_000
/** The time after which a copy is fetched again. */
const FRESH_MS = 600_000
/** The time between a failed attempt and the next one. */
const PAUSE_MS = 1_000

const OAUTH_PATH = '/.well-known/oauth-authorization-server'
const OPENID_PATH = '/.well-known/openid-configuration'

/**
 * A copy of an authorization server's metadata (RFC 8414, OpenID Connect Discovery), for clients that look for it at the
 * origin of the MCP server. It is fetched when first requested, and again if it is older than ten minutes. The old copy is
 * served in the meantime, and while the authorization server is down. At most one fetch is in progress, and after a failure
 * the next one starts one second later at the earliest.
 */
export class AuthorizationServerMetadata {
  readonly #discovery: IssuerDiscovery
  /** The path of the resource, without a final slash; `undefined` if it is not known. */
  readonly #resourcePath: string | undefined
  readonly #copy: () => Promise<RenderedDocument>

  /**
   * @param resource the URI of the resource, if it is fixed
   * @param now returns a monotonic time in milliseconds
   */
  constructor(issuer: string, resource: string | undefined, allowInsecureHttp: boolean, now?: () => number) {
    this.#discovery = new IssuerDiscovery(issuer, allowInsecureHttp, FETCH_TIMEOUT_MS)
    this.#copy = refreshed(
      () => this.#discovery.find((metadata) => renderDocument(JSON.stringify(metadata), PUBLIC)),
      FRESH_MS,
      PAUSE_MS,
      now,
    )
    const path = resource === undefined ? undefined : new URL(resource).pathname
    this.#resourcePath = path?.endsWith('/') === true ? path.slice(0, -1) : path
  }

  /**
   * Returns `true` for the well-known paths at which clients look for the metadata: at the root, with the path of the
   * resource after the well-known name, and for OpenID Connect also before it.
   */
  owns(path: string): boolean {
    const suffix = this.#resourcePath
    return (
      [OAUTH_PATH, OPENID_PATH].some(
        (root) =>
          path === root || (suffix === undefined ? path.startsWith(`${root}/`) : path === root + suffix),
      ) ||
      (suffix !== undefined && path === suffix + OPENID_PATH)
    )
  }

  /** Returns `true` if the authorization server has its own metadata at a path of the copy. */
  isServedAt(origin: string): boolean {
    const issuer = new URL(this.#discovery.issuer)
    const path = issuer.pathname === '/' ? '' : issuer.pathname
    const own = [OAUTH_PATH + path, path + OPENID_PATH, OPENID_PATH + path]
    return issuer.origin === origin && own.some((one) => this.owns(one))
  }

  /** Returns the response to a request whose path `owns` accepts. Never rejects. */
  async respond(request: Pick<MetadataRequest, 'method' | 'header'>): Promise<PlainResponse> {
    const refused = refusedMethod(request.method)
    if (refused !== undefined) return refused
    const copy = await this.#copy().catch(() => undefined)
    return copy === undefined ? UNAVAILABLE : respondWith(copy, request.header('if-none-match'))
  }
}

const UNAVAILABLE: PlainResponse = {
  status: 503,
  headers: { ...CROSS_ORIGIN, ...UNCACHED, 'Retry-After': '5' },
  body: '{"error":"temporarily_unavailable","error_description":"The metadata of the authorization server could not be fetched right now"}',
}
