import { createHash } from 'node:crypto'
import fresh from 'fresh'
import { LRUCache } from 'lru-cache'
import type { PlainResponse } from '../http/plain-response.ts'
import type { RequestSource } from './inputs.ts'
import type { ResolvedOAuthOptions } from './options.ts'
import { unionOfScopes } from './scope.ts'

/** Where a request for the metadata document came in. */
export interface MetadataRequest extends RequestSource {
  readonly method: string
  /** The path, without the query. */
  readonly path: string
  /** Origin of the request's URL; undefined when the request names no usable host. */
  readonly origin: string | undefined
  /** The `If-None-Match` header. */
  readonly ifNoneMatch: string | undefined
}

/** The document, and the answers it is given in. */
interface RenderedDocument {
  readonly etag: string
  readonly whole: PlainResponse
  readonly unchanged: PlainResponse
}

/** A resource whose URI is known, and all that is made of it. */
interface KnownResource {
  readonly uri: string
  readonly origin: string
  /** The path of its URI, empty for `/`. */
  readonly path: string
  readonly document: RenderedDocument
}

/** Of so many resources the documents are kept, where a function names them. */
const MAX_RESOURCES = 1_000

/**
 * The protected resource metadata of RFC 9728, in its root form (`resourceMetadataPath`) and in the
 * path-suffixed form of §3.1 (`resourceMetadataPath` followed by the path of the resource).
 */
export class ProtectedResource {
  readonly #options: ResolvedOAuthOptions
  readonly #members: Readonly<Record<string, unknown>>
  readonly #configured: KnownResource | undefined
  /** Resources that the option `resource`, as a function, has named. */
  readonly #named: LRUCache<string, KnownResource> | undefined
  /** What it has named for a request that is being answered. */
  readonly #asked: WeakMap<RequestSource, KnownResource> | undefined

  /** @param routerScopes every scope that a tool, prompt or resource names. */
  constructor(options: ResolvedOAuthOptions, routerScopes: readonly string[]) {
    this.#options = options
    const scopes = (options.scopesSupported ?? unionOfScopes(options.scopes, routerScopes)).filter(
      (scope) => scope !== 'offline_access',
    )
    this.#members = {
      authorization_servers: options.authorizationServers,
      ...(scopes.length > 0 && { scopes_supported: scopes }),
      bearer_methods_supported: ['header'],
      ...(options.resourceName !== undefined && { resource_name: options.resourceName }),
      ...(options.resourceDocumentation !== undefined && {
        resource_documentation: options.resourceDocumentation,
      }),
      ...(options.dpop !== undefined && { dpop_signing_alg_values_supported: options.dpop.algorithms }),
      ...(options.dpop?.required === true && { dpop_bound_access_tokens_required: true }),
      ...(options.signedMetadata !== undefined && { signed_metadata: options.signedMetadata }),
    }
    if (options.resource !== undefined) this.#configured = this.#known(options.resource)
    if (options.resourceOf !== undefined) {
      this.#named = new LRUCache({ max: MAX_RESOURCES })
      this.#asked = new WeakMap()
    }
  }

  /**
   * The URI of the resource that a request is for; undefined where it follows from the request's own URL.
   * @throws what the option `resource` throws, as a function, and `KitMcpConfigError` for what it should not give.
   */
  uriFor(request: RequestSource): string | undefined {
    return this.#resourceFor(request)?.uri
  }

  /**
   * The origin that clients see, for a request to a path of the resource.
   * @throws as `uriFor` does.
   */
  originFor(request: RequestSource & { readonly origin: string | undefined }): string | undefined {
    return this.#resourceFor(request)?.origin ?? request.origin
  }

  /**
   * The URL of the document for the resource of a request, for a challenge (RFC 9728 §5.1).
   * @param suffixed whether the path-suffixed form is served.
   */
  metadataUrl(
    request: RequestSource & { readonly origin: string | undefined; readonly path: string },
    suffixed: boolean,
  ): string | undefined {
    const known = this.#resourceFor(request)
    const base = known?.origin ?? request.origin
    if (base === undefined) return undefined
    const suffix = known?.path ?? (request.path === '/' ? '' : request.path)
    return `${base}${this.#options.resourceMetadataPath}${suffixed ? suffix : ''}`
  }

  /** Whether a request for `path` is for this document, in either form; for one of several, `respond` tells. */
  owns(path: string): boolean {
    const root = this.#options.resourceMetadataPath
    if (path === root) return true
    if (!path.startsWith(root) || (root !== '/' && path[root.length] !== '/')) return false
    return this.#configured === undefined || path.slice(root.length) === this.#configured.path
  }

  /** The answer to a GET of exactly this path, where it is the same for all; made beforehand. */
  wholeAt(path: string): PlainResponse | undefined {
    if (this.#configured === undefined) return undefined
    const root = this.#options.resourceMetadataPath
    return path === root || path === root + this.#configured.path
      ? this.#configured.document.whole
      : undefined
  }

  /**
   * The answer to a request that `owns` accepted: 200, 304, or 405 for other methods than GET and HEAD. Undefined
   * for a path that is none of the resources a function names.
   */
  respond(request: MetadataRequest): PlainResponse | undefined {
    let document: RenderedDocument | 'elsewhere' | undefined
    try {
      document = this.#document(request)
    } catch {
      return { status: 500, headers: { ...CROSS_ORIGIN, ...UNCACHED }, body: '{"error":"server_error"}' }
    }
    if (document === 'elsewhere') return undefined
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return {
        status: 405,
        headers: { Allow: 'GET, HEAD, OPTIONS', ...CROSS_ORIGIN, 'Content-Type': 'application/json' },
        body: '{"error":"method_not_allowed"}',
      }
    }
    if (document === undefined) return notFound()
    const { ifNoneMatch } = request
    // Only the entity tag decides: fetch() adds `Cache-Control: no-cache` of its own to a conditional request.
    const isFresh =
      ifNoneMatch !== undefined && fresh({ 'if-none-match': ifNoneMatch }, { etag: document.etag })
    return isFresh ? document.unchanged : document.whole
  }

  #document(request: MetadataRequest): RenderedDocument | 'elsewhere' | undefined {
    if (this.#configured !== undefined) return this.#configured.document
    const { origin, path } = request
    if (origin === undefined) return undefined
    const root = this.#options.resourceMetadataPath
    const suffix = path.startsWith(`${root}/`) ? path.slice(root.length) : ''
    const own = `${origin}${suffix}`
    const named = this.#options.resourceOf?.(requestTo(own, request))
    if (named === undefined) return this.#render(own, UNSTORED)
    const known = this.#known(named)
    return suffix === '' || suffix === known.path ? known.document : 'elsewhere'
  }

  #resourceFor(request: RequestSource): KnownResource | undefined {
    const { resourceOf } = this.#options
    if (resourceOf === undefined) return this.#configured
    let known = this.#asked?.get(request)
    if (known !== undefined) return known
    const uri = resourceOf(request.request)
    if (uri === undefined) return undefined
    known = this.#known(uri)
    this.#asked?.set(request, known)
    return known
  }

  #known(uri: string): KnownResource {
    let known = this.#named?.get(uri)
    if (known !== undefined) return known
    const { origin, pathname } = new URL(uri)
    const document = this.#render(uri, this.#options.resourceOf === undefined ? PUBLIC : UNSTORED)
    known = { uri, origin, path: pathname === '/' ? '' : pathname, document }
    this.#named?.set(uri, known)
    return known
  }

  #render(resource: string, cacheControl: string): RenderedDocument {
    const body = JSON.stringify({ resource, ...this.#members })
    const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`
    const headers = { ...CROSS_ORIGIN, 'Cache-Control': cacheControl, ETag: etag }
    return {
      etag,
      unchanged: { status: 304, headers },
      whole: {
        status: 200,
        headers: {
          ...headers,
          'Content-Type': 'application/json',
          'Content-Length': String(Buffer.byteLength(body)),
        },
        body,
      },
    }
  }
}

/** For a document of a fixed `resource`, which is the same for everyone. */
const PUBLIC = 'public, max-age=3600'

/**
 * For a document that depends on the request, by its host or by what the function `resource` makes of it: a cache that
 * does not tell hosts apart would hand the resource of one request to everyone.
 */
const UNSTORED = 'no-store'

/** A request to the resource itself, with the headers of the one for its document. */
function requestTo(url: string, { request }: RequestSource): Request {
  return new Request(url, { headers: request.headers })
}

const CROSS_ORIGIN = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': 'ETag' }
const UNCACHED = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }

/** What is answered where no document is: no OAuth, or another resource's path. */
export function notFound(): PlainResponse {
  return { status: 404, headers: { ...CROSS_ORIGIN, ...UNCACHED }, body: '{"error":"not_found"}' }
}
