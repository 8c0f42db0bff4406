import { createHash } from 'node:crypto'
import fresh from 'fresh'
import type { Answer } from './answer.ts'
import type { ResolvedOAuthOptions } from './options.ts'
import { unionOfScopes } from './scope.ts'

/** Where a request for the metadata document came in. */
export interface MetadataRequest {
  readonly method: string
  /** The path, without the query. */
  readonly path: string
  /** Origin of the request's URL; undefined when the request names no usable host. */
  readonly origin: string | undefined
  /** The `If-None-Match` header. */
  readonly ifNoneMatch: string | undefined
}

interface RenderedDocument {
  readonly body: string
  readonly etag: string
}

/**
 * The protected resource metadata of RFC 9728, in its root form (`resourceMetadataPath`) and in the
 * path-suffixed form of §3.1 (`resourceMetadataPath` followed by the path of the resource).
 */
export class ProtectedResource {
  readonly #options: ResolvedOAuthOptions
  readonly #members: Readonly<Record<string, unknown>>
  readonly #configured:
    | { readonly origin: string; readonly path: string; readonly document: RenderedDocument }
    | undefined

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
    }
    if (options.resource !== undefined) {
      const { origin, pathname } = new URL(options.resource)
      this.#configured = {
        origin,
        path: pathname === '/' ? '' : pathname,
        document: this.#render(options.resource),
      }
    }
  }

  /**
   * The URL of the document for the resource at `path`, for a challenge (RFC 9728 §5.1).
   * @param suffixed whether the path-suffixed form is served.
   */
  metadataUrl(origin: string | undefined, path: string, suffixed: boolean): string | undefined {
    const base = this.#configured?.origin ?? origin
    if (base === undefined) return undefined
    const suffix = this.#configured?.path ?? (path === '/' ? '' : path)
    return `${base}${this.#options.resourceMetadataPath}${suffixed ? suffix : ''}`
  }

  /** Whether a request for `path` is for this document, in either form. */
  owns(path: string): boolean {
    const root = this.#options.resourceMetadataPath
    if (path === root) return true
    if (!path.startsWith(root) || (root !== '/' && path[root.length] !== '/')) return false
    return this.#configured === undefined || path.slice(root.length) === this.#configured.path
  }

  /** The answer to a request that `owns` accepted: 200, 304, or 405 for other methods than GET and HEAD. */
  respond(request: MetadataRequest): Answer {
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      return {
        status: 405,
        headers: { Allow: 'GET, HEAD, OPTIONS', ...CROSS_ORIGIN, 'Content-Type': 'application/json' },
        body: '{"error":"method_not_allowed"}',
      }
    }
    const document = this.#document(request)
    if (document === undefined) return notFound()
    const headers = { ...CROSS_ORIGIN, 'Cache-Control': 'public, max-age=3600', ETag: document.etag }
    // Only the entity tag decides: fetch() adds `Cache-Control: no-cache` of its own to a conditional request.
    if (fresh({ 'if-none-match': request.ifNoneMatch }, { etag: document.etag }))
      return { status: 304, headers }
    return { status: 200, headers: { ...headers, 'Content-Type': 'application/json' }, body: document.body }
  }

  #document({ origin, path }: MetadataRequest): RenderedDocument | undefined {
    if (this.#configured !== undefined) return this.#configured.document
    if (origin === undefined) return undefined
    const root = this.#options.resourceMetadataPath
    return this.#render(path.startsWith(`${root}/`) ? `${origin}${path.slice(root.length)}` : origin)
  }

  #render(resource: string): RenderedDocument {
    const body = JSON.stringify({ resource, ...this.#members })
    return { body, etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"` }
  }
}

const CROSS_ORIGIN = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Expose-Headers': 'ETag' }

/** What is answered where no document is: no OAuth, or another resource's path. */
export function notFound(): Answer {
  return {
    status: 404,
    headers: { ...CROSS_ORIGIN, 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
    body: '{"error":"not_found"}',
  }
}
