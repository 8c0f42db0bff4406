import type { PlainResponse } from '../../base/http/plain-response.ts'
import { definedMembers } from '../../base/options/defined-members.ts'
import type { RequestSource } from '../inputs.ts'
import type { ResolvedOAuthOptions } from '../options.ts'
import { unionOfScopes } from '../scope.ts'
import {
  CROSS_ORIGIN,
  PUBLIC,
  type RenderedDocument,
  refusedMethod,
  renderDocument,
  respondWith,
  UNCACHED,
  UNSTORED,
} from './metadata-document.ts'

/** A request for the metadata document. */
export interface MetadataRequest extends RequestSource {
  readonly method: string
  /** The path, without the query. */
  readonly path: string
  /** The origin of the request's URL; `undefined` if the request does not name a valid host. */
  readonly origin: string | undefined
  /** Returns the value of a request header by its lower-case name. */
  header(name: string): string | undefined
}

/** A resource whose URI is known, and what is derived from it. */
interface KnownResource {
  readonly uri: string
  readonly origin: string
  /** The path of its URI; empty for `/`. */
  readonly path: string
}

/**
 * The protected resource metadata of RFC 9728, in its root form (`resourceMetadataPath`) and in the path-suffixed form of
 * §3.1 (`resourceMetadataPath` followed by the path of the resource).
 */
export class ProtectedResource {
  readonly #options: ResolvedOAuthOptions
  readonly #members: Readonly<Record<string, unknown>>
  readonly #configured: KnownResource | undefined
  /** The document that is the same for all clients. `undefined` if it depends on the request. */
  readonly #fixed: RenderedDocument | undefined
  /** The resources that the function `resource` has returned for requests that are in progress. */
  readonly #asked = new WeakMap<RequestSource, KnownResource>()

  /** @param routerScopes every scope that a tool, prompt, or resource names */
  constructor(options: ResolvedOAuthOptions, routerScopes: readonly string[]) {
    this.#options = options
    const { dpop, resourceName, resourceDocumentation, scopesSupported, signedMetadata } = options
    const scopes = (scopesSupported ?? unionOfScopes(options.scopes, routerScopes)).filter(
      (scope) => scope !== 'offline_access',
    )
    this.#members = definedMembers({
      scopes_supported: scopes.length > 0 ? scopes : undefined,
      bearer_methods_supported: ['header'],
      resource_name: resourceName,
      resource_documentation: resourceDocumentation,
      dpop_signing_alg_values_supported: dpop?.algorithms,
      dpop_bound_access_tokens_required: dpop?.required || undefined,
      signed_metadata: signedMetadata,
    })
    if (options.resource === undefined) return
    this.#configured = knownResource(options.resource)
    if (options.authorizationServersOf === undefined) this.#fixed = this.#render(options.resource, PUBLIC)
  }

  /**
   * Returns the URI of the resource of a request; `undefined` if the URL of the request is used instead.
   * @throws what the function `resource` throws, and `KitMcpConfigError` if it returns an invalid URI.
   */
  uriFor(request: RequestSource): string | undefined {
    return this.#resourceFor(request)?.uri
  }

  /**
   * Returns the origin that clients use for a request to a path of the resource.
   * @throws like `uriFor`.
   */
  originFor(request: RequestSource & { readonly origin: string | undefined }): string | undefined {
    return this.#resourceFor(request)?.origin ?? request.origin
  }

  /**
   * Returns the URL of the document for the resource of a request, for a challenge (RFC 9728 §5.1).
   * @param suffixed `true` if the path-suffixed form is served
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

  /** Returns `true` if `path` may be a path of this document. If a function names the resources, `respond` decides. */
  owns(path: string): boolean {
    const root = this.#options.resourceMetadataPath
    if (path === root) return true
    if (!path.startsWith(root) || (root !== '/' && path[root.length] !== '/')) return false
    return this.#configured === undefined || path.slice(root.length) === this.#configured.path
  }

  /**
   * Returns the response to a request whose path `owns` accepts: 200, 304, or 405 for methods other than GET and HEAD.
   * Returns `undefined` for a path that does not belong to a resource that the function names.
   * @param path the path of the document, if it is not that of the request
   */
  respond(request: MetadataRequest, path: string = request.path): PlainResponse | undefined {
    try {
      const document = this.#document(request, path)
      if (document === 'elsewhere') return undefined
      const found =
        document === undefined ? notFound() : respondWith(document, request.header('if-none-match'))
      return refusedMethod(request.method) ?? found
    } catch {
      return { status: 500, headers: { ...CROSS_ORIGIN, ...UNCACHED }, body: '{"error":"server_error"}' }
    }
  }

  #document(request: MetadataRequest, path: string): RenderedDocument | 'elsewhere' | undefined {
    if (this.#fixed !== undefined) return this.#fixed
    const configured = this.#configured
    const { origin } = request
    if (origin === undefined) return undefined
    const root = this.#options.resourceMetadataPath
    const suffix = configured?.path ?? (path.startsWith(`${root}/`) ? path.slice(root.length) : '')
    const url = `${origin}${suffix}`
    const asked = (): Request => requestTo(url, request)
    const { resourceOf, authorizationServersOf } = this.#options
    const named = configured?.uri ?? resourceOf?.(asked())
    if (named !== undefined && suffix !== '' && suffix !== knownResource(named).path) return 'elsewhere'
    return this.#render(named ?? url, UNSTORED, authorizationServersOf?.(asked()))
  }

  #resourceFor(request: RequestSource): KnownResource | undefined {
    const { resourceOf } = this.#options
    if (resourceOf === undefined) return this.#configured
    let known = this.#asked.get(request)
    if (known !== undefined) return known
    const uri = resourceOf(request.request)
    if (uri === undefined) return undefined
    known = knownResource(uri)
    this.#asked.set(request, known)
    return known
  }

  #render(
    resource: string,
    cacheControl: string,
    servers = this.#options.authorizationServers,
  ): RenderedDocument {
    const document = { resource, authorization_servers: servers, ...this.#members }
    return renderDocument(JSON.stringify(document), cacheControl)
  }
}

function knownResource(uri: string): KnownResource {
  const { origin, pathname } = new URL(uri)
  return { uri, origin, path: pathname === '/' ? '' : pathname }
}

/** Returns a request to the resource itself, with the headers of the request for its document. */
export function requestTo(url: string, { request }: RequestSource): Request {
  return new Request(url, { headers: request.headers })
}

/** Returns the response for a path without a document. */
export function notFound(): PlainResponse {
  return { status: 404, headers: { ...CROSS_ORIGIN, ...UNCACHED }, body: '{"error":"not_found"}' }
}
