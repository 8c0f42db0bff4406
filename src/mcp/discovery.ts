import type { PlainResponse } from '../base/http/plain-response.ts'
import {
  CROSS_ORIGIN,
  type DocumentKind,
  PUBLIC,
  type RenderedDocument,
  refusedMethod,
  renderDocument,
  respondWith,
  UNCACHED,
  UNSTORED,
} from '../oauth/metadata/metadata-document.ts'
import { type MetadataRequest, notFound, requestTo } from '../oauth/metadata/protected-resource.ts'
import type { ResolvedOAuthOptions } from '../oauth/options.ts'
import type { ServerInfo } from './options.ts'
import { CARD_TYPE, type CardValues, cardName, catalogIdentifier, serverCard } from './server-card.ts'

/** The path of the catalog, at the root of a host. */
export const CATALOG_PATH = '/.well-known/ai-catalog.json'
/** The end of the path of a server card, behind the path of the MCP endpoint. */
export const CARD_SUFFIX = '/server-card'
/** The path of an MCP endpoint without a fixed resource. */
export const DEFAULT_MCP_PATH = '/mcp'

const CATALOG_TYPE = 'application/ai-catalog+json'

/** The CORS headers that discovery.md requires. */
const CORS = {
  ...CROSS_ORIGIN,
  'Access-Control-Allow-Methods': 'GET',
  'Access-Control-Allow-Headers': 'Content-Type, If-None-Match',
} as const

const CARD: DocumentKind = { cors: CORS, mediaType: CARD_TYPE }
const CATALOG: DocumentKind = { cors: CORS, mediaType: CATALOG_TYPE }

/** The values that an application sets for the server card and the catalog. */
export interface DiscoveryValues extends CardValues {
  readonly identifier?: string | undefined
}

/** A request for a server card or a catalog. */
export type DiscoveryRequest = Omit<MetadataRequest, 'path'>

/** An entry of a catalog. */
interface CatalogEntry {
  readonly identifier: string
  readonly type: typeof CARD_TYPE
  readonly url: string
}

/** The server card of SEP-2127 and the catalog entry of a server. */
export class Discovery {
  readonly #serverInfo: ServerInfo
  readonly #versions: readonly string[]
  readonly #oauth: ResolvedOAuthOptions | undefined
  #values: DiscoveryValues = {}
  #isOff = false
  #path = DEFAULT_MCP_PATH
  #hasWarned = false

  /** @param versions the protocol versions of the endpoint, the newest first */
  constructor(serverInfo: ServerInfo, versions: readonly string[], oauth: ResolvedOAuthOptions | undefined) {
    this.#serverInfo = serverInfo
    this.#versions = versions
    this.#oauth = oauth
  }

  /**
   * Sets what `mcpServer` has got.
   * @param path the path of the endpoint, if no resource is fixed
   */
  configure(values: DiscoveryValues | false, path: string): void {
    this.#isOff = values === false
    this.#values = values === false ? {} : values
    this.#path = path
  }

  /** `true` if the documents are the same for all requests. */
  get isFixed(): boolean {
    return this.#oauth?.resource !== undefined
  }

  /** Returns the response to a request for the card. Without a fixed resource, its path shows the path of the endpoint. */
  card(request: MetadataRequest): PlainResponse {
    return respond(request, () => {
      const { path } = request
      const isBehindEndpoint = path.endsWith(CARD_SUFFIX)
      const endpointPath = isBehindEndpoint ? path.slice(0, -CARD_SUFFIX.length) : this.#path
      const resource = this.#resourceFor(request, endpointPath)
      if (resource === undefined) return undefined
      const { hostname } = new URL(resource)
      const card = serverCard(this.#serverInfo, resource, hostname, this.#versions, this.#values)
      return renderDocument(JSON.stringify(card), this.isFixed ? PUBLIC : UNSTORED, CARD)
    })
  }

  /** Returns the response to a request for the catalog with this server only. */
  catalog(request: DiscoveryRequest): PlainResponse {
    return catalogResponse([this], request)
  }

  /** Returns the entry of a catalog; `undefined` if the card is not served, or its URL is not known. */
  entry(request: DiscoveryRequest): CatalogEntry | undefined {
    const resource = this.#isOff ? undefined : this.#resourceFor(request, this.#path)
    if (resource === undefined) return undefined
    const { origin, hostname, pathname } = new URL(resource)
    const { identifier = catalogIdentifier(cardName(this.#serverInfo, hostname, this.#values), hostname) } =
      this.#values
    return { identifier, type: CARD_TYPE, url: `${origin}${withoutSlash(pathname)}${CARD_SUFFIX}` }
  }

  /** Writes a warning, once, that the server is left out of a catalog. */
  warnOfDuplicate(identifier: string): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    process.emitWarning(
      `aiCatalog: two servers have the identifier ${JSON.stringify(identifier)}, so the catalog contains only the first one. Set serverInfo.name of each adapter, or discovery.identifier of mcpServer, to different values.`,
      { type: 'KitMcpWarning' },
    )
  }

  /** Returns the URL of the endpoint; `undefined` for a request without a valid host. */
  #resourceFor(request: DiscoveryRequest, path: string): string | undefined {
    const fixed = this.#oauth?.resource
    if (fixed !== undefined) return fixed
    if (request.origin === undefined) return undefined
    const { href } = new URL(`${request.origin}${path}`)
    return this.#oauth?.resourceOf?.(requestTo(href, request)) ?? href
  }
}

/** Returns the response to a request for the catalog of some servers. */
export function catalogResponse(servers: readonly Discovery[], request: DiscoveryRequest): PlainResponse {
  return respond(request, () => {
    const isFixed = servers.every((server) => server.isFixed)
    const catalog = { specVersion: '1.0', entries: entriesOf(servers, request) }
    return renderDocument(JSON.stringify(catalog), isFixed ? PUBLIC : UNSTORED, CATALOG)
  })
}

/** The response to a CORS preflight. */
const PREFLIGHT: PlainResponse = { status: 204, headers: CORS }

/** Removes the slash at the end of a path. */
export function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

/** Returns the entries of the servers. Each identifier occurs once, as the specification of catalogs requires. */
function entriesOf(servers: readonly Discovery[], request: DiscoveryRequest): readonly CatalogEntry[] {
  const entries = new Map<string, CatalogEntry>()
  for (const server of servers) {
    const entry = server.entry(request)
    if (entry === undefined) continue
    if (entries.has(entry.identifier)) server.warnOfDuplicate(entry.identifier)
    else entries.set(entry.identifier, entry)
  }
  return [...entries.values()]
}

/** @param find returns the document, or `undefined` for a request without a valid host */
function respond(request: DiscoveryRequest, find: () => RenderedDocument | undefined): PlainResponse {
  if (request.method === 'OPTIONS') return PREFLIGHT
  const refused = refusedMethod(request.method, CORS)
  if (refused !== undefined) return refused
  try {
    const document = find()
    return document === undefined ? notFound() : respondWith(document, request.header('if-none-match'))
  } catch {
    // The function `resource` has failed.
    return { status: 500, headers: { ...CORS, ...UNCACHED }, body: '{"error":"server_error"}' }
  }
}
