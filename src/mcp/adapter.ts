import { preflightHeaders } from '../base/http/cors-headers.ts'
import { type HttpResponse, type PlainResponse, toResponse } from '../base/http/plain-response.ts'
import type { SafeFetchSettings } from '../base/http/safe-fetch.ts'
import { isOptionsObject, optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'
import { notFound } from '../oauth/metadata/protected-resource.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../oauth/options.ts'
import { FAILED_RESPONSE } from '../oauth/refusal-responses.ts'
import type { McpEndpoint, McpEndpointProps } from './endpoint.ts'
import { keepEndpoint } from './endpoint-of.ts'
import { loadServing } from './load-serving.ts'
import { eventsFor, type McpAdapter } from './mcp-adapter.ts'
import {
  ADAPTER_RULES,
  checkServerInfo,
  type McpAdapterOptions,
  type ResolvedAdapterOptions,
  resolveAdapterOptions,
  type ServerInfo,
} from './options.ts'
import { KitMcpRouter, tableOf } from './router/router.ts'
import type { ServerFactory } from './sdk/sdk-servers.ts'
import { checkTelemetry, type TelemetryOption } from './telemetry-option.ts'
import { WebMcpRequest } from './wire/mcp-request.ts'

export type {
  FetchHandler,
  McpAdapter,
  McpAuthHandlers,
  McpDiscoveryHandlers,
  McpEvents,
  McpNotifier,
} from './mcp-adapter.ts'

const checks = optionChecksOf('createMcpAdapter')
const { checkString, invalidKind, missingOption, readOptions } = checks

/** A typed router, or a function that returns a server of the official SDK for each request. */
export type RouterOption = KitMcpRouter<any> | ServerFactory

/** A function that returns a server of `@modelcontextprotocol/sdk` 1.x, which has a method that servers of version 2 lack. */
export type SdkV1Factory = (...args: Parameters<ServerFactory>) => SdkV1Server | Promise<SdkV1Server>

/** The part of a server of `@modelcontextprotocol/sdk` 1.x that distinguishes it. */
export interface SdkV1Server {
  readonly server: object
  readonly tool: (...args: never[]) => unknown
  readonly registerTool: (...args: never[]) => unknown
}

/** The type of the option `router` for a router that cannot be served. The compiler prints its text. */
export type UnservedRouter =
  'This router function returns a server of @modelcontextprotocol/sdk 1.x. Build the server with @modelcontextprotocol/server, or keep it and put mcpAuth(oauth, { scopes }) in front of it.'

/** The type of a router, or an explanation of why it cannot be served. */
export type ServedRouter<Router> = Router extends RouterOption ? Router : UnservedRouter

/** The type of `context.context` in hooks: anything if the router does not define it. */
type AppOf<Router> = Router extends KitMcpRouter<infer App> ? (unknown extends App ? any : App) : any
/** The event types of a router. */
type EventsOf<Router> = Router extends KitMcpRouter<any, any, infer Events> ? Events : any
type UserOfRouter<Router> = Router extends KitMcpRouter<any, infer User> ? User : any

/** Options of {@link createMcpAdapter}. */
export interface CreateMcpAdapterOptions<
  Router extends RouterOption | SdkV1Factory = RouterOption,
  User = any,
> extends McpAdapterOptions<AppOf<Router>, NoInfer<User>> {
  /** The typed router, or a function that returns a server of the official SDK for each request. */
  readonly router: Router
  /**
   * OAuth options. If omitted, no token is required; operations that declare `scopes` then always respond with 403.
   */
  readonly oauth?: OAuthOptions<AppOf<Router>, User> | undefined
  /** Name and version of the server. Defaults to `{ name: 'mcp-gatekit', version: '0.0.0' }`. */
  readonly serverInfo?: ServerInfo | undefined
  /** Instructions for the model on how to use this server. */
  readonly instructions?: string | undefined
  /**
   * The telemetry manager that receives the events of the gate and the adapter. By default, no events are emitted, and failures
   * are written to stderr: at most 10 lines a minute for each kind. `false` turns these lines off.
   */
  readonly telemetry?: TelemetryOption | undefined
}

/**
 * Creates an MCP server that speaks Streamable HTTP and, if `oauth` is given, requires a valid access token.
 * @param options the router, the OAuth options, and the adapter options.
 * @returns `server`, a web-standard request handler, and `auth`, the handlers for CORS preflights and the protected
 * resource metadata document. Pass the whole object to `mcpServer()` or `mcpHandler()` to serve it on Node.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown. The error names the option.
 * @example
 * ```ts
 * import { createMcpAdapter, jwtVerifier, KitMcpRouter } from 'mcp-gatekit'
 *
 * const issuer = 'https://auth.example.com'
 * const resource = 'https://mcp.example.com/mcp'
 * const router = KitMcpRouter.create().tool('ping', { description: 'Replies with pong' }, () => 'pong')
 *
 * export const { server, auth } = createMcpAdapter({
 *   router,
 *   oauth: { issuer, resource, verifyToken: jwtVerifier({ issuer, audience: resource }) },
 * })
 * ```
 * @see docs/reference/mcp.md
 */
export function createMcpAdapter<
  Router extends RouterOption | SdkV1Factory,
  User extends UserOfRouter<Router> = UserOfRouter<Router>,
>(
  options: CreateMcpAdapterOptions<Router, User> & { readonly router: ServedRouter<Router> },
): McpAdapter<EventsOf<Router>> {
  return adapterWith(options)
}

/** Creates an adapter. @param network the access to the network of webhooks, which tests replace */
export function adapterWith(
  options: CreateMcpAdapterOptions<RouterOption | SdkV1Factory>,
  network?: SafeFetchSettings,
): McpAdapter {
  const expected = 'must be called with an object with at least { router }'
  const { router, oauth, serverInfo, instructions, telemetry, ...resolved } = readOptions(
    'createMcpAdapter',
    expected,
    options,
    RULES,
  )
  const props = { router, oauth, serverInfo, instructions, telemetry, options: resolved, network }
  return adapterOf(props, 'server')
}

export const DEFAULT_SERVER_INFO: ServerInfo = Object.freeze({ name: 'mcp-gatekit', version: '0.0.0' })

const RULES = {
  router: (_option: string, router: unknown) => checkRouter(router),
  oauth: optional((_option, oauth) => resolveOAuthOptions(oauth as OAuthOptions)),
  serverInfo: optional((_option, info) => checkServerInfo(info), DEFAULT_SERVER_INFO),
  instructions: optional(checkString),
  telemetry: optional((_option, manager) => checkTelemetry(manager as TelemetryOption, checks)),
  ...ADAPTER_RULES,
} satisfies RulesFor<CreateMcpAdapterOptions>

type BuilderProps = Partial<Omit<McpEndpointProps, 'options'>> & {
  readonly given: McpAdapterOptions
  readonly options: ResolvedAdapterOptions
}

/**
 * Builds an MCP server over HTTP step by step. It is immutable: every method returns a new builder. {@link createMcpAdapter}
 * does the same in one call.
 * @example
 * ```ts
 * import { jwtVerifier, KitMcpRouter, KitMcpServer } from 'mcp-gatekit'
 *
 * const issuer = 'https://auth.example.com'
 * const resource = 'https://mcp.example.com/mcp'
 * const router = KitMcpRouter.create().tool('ping', { description: 'Replies with pong' }, () => 'pong')
 *
 * export const { handler, auth } = KitMcpServer.create()
 *   .router(router)
 *   .withOAuth({ issuer, resource, verifyToken: jwtVerifier({ issuer, audience: resource }) })
 *   .build()
 * ```
 * @see docs/reference/mcp.md
 */
export class KitMcpServer<App = unknown, User = any, Events = any> {
  readonly #props: BuilderProps

  private constructor(props: BuilderProps) {
    this.#props = props
  }

  /**
   * Returns an empty builder.
   * @returns a builder that needs `.router()` before `.build()`.
   */
  static create(): KitMcpServer<any> {
    return new KitMcpServer({ given: {}, options: resolveAdapterOptions({}) })
  }

  /**
   * Sets the router.
   * @param router the typed router, or a function that returns a server of the official SDK for each request.
   * @returns a new builder.
   * @throws {KitMcpConfigError} if `router` is neither of them.
   */
  router<Router extends RouterOption | SdkV1Factory>(
    router: Router & ServedRouter<Router>,
  ): KitMcpServer<AppOf<Router>, UserOfRouter<Router>, EventsOf<Router>> {
    return new KitMcpServer({ ...this.#props, router: checkRouter(router) })
  }

  /**
   * Requires a valid access token for every request.
   * @param oauth the OAuth options.
   * @returns a new builder.
   * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
   */
  withOAuth<Verified extends User = User>(
    oauth: OAuthOptions<App, Verified>,
  ): KitMcpServer<App, User, Events> {
    return new KitMcpServer({ ...this.#props, oauth: resolveOAuthOptions(oauth) })
  }

  /**
   * Sets the name and version of the server.
   * @param info defaults to `{ name: 'mcp-gatekit', version: '0.0.0' }` if this method is not called.
   * @returns a new builder.
   * @throws {KitMcpConfigError} if a member is missing, invalid, or unknown.
   */
  withServerInfo(info: ServerInfo): KitMcpServer<App, User, Events> {
    return new KitMcpServer({ ...this.#props, serverInfo: checkServerInfo(info) })
  }

  /**
   * Sets instructions for the model on how to use this server.
   * @param text the instructions.
   * @returns a new builder.
   * @throws {KitMcpConfigError} if `text` is not a string.
   */
  withInstructions(text: string): KitMcpServer<App, User, Events> {
    return new KitMcpServer({ ...this.#props, instructions: checkString('instructions', text) })
  }

  /**
   * Sets the telemetry manager that receives the events of the gate and the adapter. Without it, failures are written to stderr.
   * @param manager the manager that `KitTelemetry…build()` returned, or `false` for neither events nor lines on stderr.
   * @returns a new builder.
   * @throws {KitMcpConfigError} if `manager` is not a telemetry manager.
   */
  withTelemetry(manager: TelemetryOption): KitMcpServer<App, User, Events> {
    return new KitMcpServer({ ...this.#props, telemetry: checkTelemetry(manager, checks) })
  }

  /**
   * Sets adapter options. Further calls add options, and replace options of the same name.
   * @param options the adapter options.
   * @returns a new builder.
   * @throws {KitMcpConfigError} if an option is invalid or unknown.
   */
  withOptions(options: McpAdapterOptions<App, User>): KitMcpServer<App, User, Events> {
    if (!isOptionsObject(options)) throw invalidKind('options', 'must be an object', options)
    const given = { ...this.#props.given, ...options }
    return new KitMcpServer({ ...this.#props, given, options: resolveAdapterOptions(given) })
  }

  /**
   * Creates the adapter.
   * @returns `handler`, a web-standard request handler, and `auth`, the handlers for CORS preflights and the protected
   * resource metadata document. Pass the whole object to `mcpServer()` or `mcpHandler()` to serve it on Node.
   * @throws {KitMcpConfigError} if no router was set, or if the options do not fit the router.
   */
  build(): McpAdapter<Events> {
    const { router, oauth, serverInfo, instructions, telemetry, options } = this.#props
    if (router === undefined) throw noRouter()
    const props = {
      router,
      oauth,
      serverInfo: serverInfo ?? DEFAULT_SERVER_INFO,
      instructions,
      telemetry,
      options,
    }
    return adapterOf(props, 'handler')
  }
}

/** @param listed the name of the handler that is enumerable, next to `auth` */
function adapterOf(props: McpEndpointProps, listed: 'handler' | 'server'): McpAdapter {
  const caller = listed === 'server' ? 'createMcpAdapter' : 'KitMcpServer'
  const { McpEndpoint } = loadServing(caller, checks)
  const endpoint = new McpEndpoint(props)
  const { handler, auth, discovery } = webHandlersOf(endpoint)
  const adapter = Object.defineProperties(
    { [listed]: handler, auth },
    {
      [listed === 'handler' ? 'server' : 'handler']: { value: handler },
      discovery: { value: discovery },
      notify: { value: endpoint.sdkHandler.notify },
      tasks: { value: endpoint.sdkHandler.tasks },
      events: { value: eventsFor(endpoint.events) },
    },
  ) as unknown as McpAdapter
  keepEndpoint(adapter, endpoint)
  return Object.freeze(adapter)
}

function checkRouter(router: unknown): McpEndpointProps['router'] {
  if (router === undefined || router === null) throw noRouter()
  if (router instanceof KitMcpRouter) return tableOf(router)
  if (typeof router === 'function') return router as ServerFactory
  throw invalidKind(
    'router',
    'must be a KitMcpRouter or a function that returns a server of the official SDK',
    router,
  )
}

function noRouter(): Error {
  return missingOption(
    'router',
    'set it to a KitMcpRouter or to a function that returns a server of the official SDK',
  )
}

function webHandlersOf(endpoint: McpEndpoint): Pick<McpAdapter, 'handler' | 'auth' | 'discovery'> {
  const requestOf = (request: Request): WebMcpRequest => new WebMcpRequest(request, endpoint.trustsProxy)
  const document =
    (respond: (request: WebMcpRequest) => PlainResponse) =>
    (request: Request): Response => {
      const mcpRequest = requestOf(request)
      return toResponse(respond(mcpRequest), mcpRequest.method)
    }
  return {
    async handler(request) {
      const mcpRequest = requestOf(request)
      try {
        return webResponse(mcpRequest, await endpoint.respond(mcpRequest))
      } catch {
        // The client gets a response, whatever has failed.
        endpoint.setCorsHeaders(mcpRequest)
        return webResponse(mcpRequest, FAILED_RESPONSE)
      }
    },
    auth: Object.freeze({
      cors(request: Request) {
        const mcpRequest = requestOf(request)
        const asked = mcpRequest.header('access-control-request-headers')
        if (endpoint.gate?.resource.owns(mcpRequest.path) === true)
          return toResponse({ status: 204, headers: preflightHeaders(asked) })
        endpoint.setCorsHeaders(mcpRequest)
        const permitted = { status: 204, headers: preflightHeaders(asked, {}) }
        return webResponse(mcpRequest, endpoint.forbidden(mcpRequest) ?? permitted)
      },
      resource: document((request) => metadataResponse(endpoint, request)),
    }),
    discovery: Object.freeze({
      card: document((request) => endpoint.discovery.card(request)),
      catalog: document((request) => endpoint.discovery.catalog(request)),
    }),
  }
}

function metadataResponse({ gate }: McpEndpoint, request: WebMcpRequest): PlainResponse {
  const root = gate?.options.resourceMetadataPath
  if (gate === undefined || root === undefined) return notFound()
  const respond = (path: string): PlainResponse => gate.resource.respond(request, path) ?? notFound()
  if (gate.resource.owns(request.path)) return respond(request.path)
  // The host may mount the handler at any path: then the document at the root is served, but not for another resource.
  if (request.path.startsWith(`${root}/`)) return notFound()
  return respond(root)
}

function webResponse(request: WebMcpRequest, response: HttpResponse): Response {
  const { method, responseHeaders } = request
  // Headers that are given to the constructor cost less than headers that are set.
  const headers: Record<string, string> = { ...response.headers, ...responseHeaders }
  const vary = [responseHeaders.Vary, response.headers.Vary].filter((value) => value !== undefined)
  if (vary.length > 0) headers.Vary = vary.join(', ')
  if (headers['DPoP-Nonce'] !== undefined) headers['Access-Control-Expose-Headers'] += ', DPoP-Nonce'
  return toResponse({ ...response, headers }, method)
}
