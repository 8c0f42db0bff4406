import { CORS_RESPONSE_HEADERS, preflightHeaders } from '../http/cors-headers.ts'
import { type PlainResponse, toResponse } from '../http/plain-response.ts'
import { type OAuthOptions, resolveOAuthOptions } from '../oauth/options.ts'
import { notFound } from '../oauth/protected-resource.ts'
import { FAILED_ANSWER } from '../oauth/refusal-answers.ts'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'
import { McpEndpoint, type McpEndpointProps } from './endpoint.ts'
import {
  ADAPTER_OPTIONS,
  checkServerInfo,
  type McpAdapterOptions,
  type ResolvedAdapterOptions,
  resolveAdapterOptions,
  type ServerInfo,
} from './options.ts'
import { KitMcpRouter, tableOf } from './router/router.ts'
import type { ServerFactory } from './sdk/sdk-servers.ts'
import { WebMcpRequest } from './wire/mcp-request.ts'

const { checkKnownOptions, invalidKind, invalidOption, missingOption } = optionChecksOf('createMcpAdapter')

/** A web-standard request handler. */
export type FetchHandler = (request: Request) => Promise<Response>

/** The handlers that go with the MCP route. */
export interface McpAuthHandlers {
  /** Answers OPTIONS on the MCP route and on the metadata route. */
  readonly cors: (request: Request) => Response | Promise<Response>
  /** Serves the protected resource metadata document (RFC 9728). 404 when OAuth is off. */
  readonly resource: (request: Request) => Response | Promise<Response>
}

/** What `KitMcpServer…build()` gives. */
export interface KitMcpAdapter {
  /** Serves MCP, complete: guards, authenticates, answers OPTIONS, carries the CORS headers. */
  readonly handler: FetchHandler
  /** What answers beside the MCP route: preflights, and the metadata document. */
  readonly auth: McpAuthHandlers
  /** Tells clients what has changed. */
  readonly notify: McpNotifier
}

/** What `createMcpAdapter()` gives: the same, with the handler under the name `server`. */
export interface McpAdapter {
  /** Serves MCP, complete: guards, authenticates, answers OPTIONS, carries the CORS headers. */
  readonly server: FetchHandler
  /** What answers beside the MCP route: preflights, and the metadata document. */
  readonly auth: McpAuthHandlers
  /** Tells clients what has changed. */
  readonly notify: McpNotifier
}

/**
 * Tells clients what has changed: those of 2026-07-28 that listen, those of 2025 revisions that have an event stream open. With
 * an `eventBus` those of all nodes, else those of this process.
 */
export interface McpNotifier {
  /** The list of tools has changed. */
  toolsChanged(): void
  /** The list of prompts has changed. */
  promptsChanged(): void
  /** The list of resources, or of templates, has changed. */
  resourcesChanged(): void
  /** For those who have subscribed to this very URI. */
  resourceUpdated(uri: string): void
}

/** The typed router, or a function that makes a server of the official SDK for each request. */
export type RouterOption = KitMcpRouter<any> | ServerFactory

/** What hooks find at `context.context`: anything, where the router does not say. */
type AppOf<Router> = Router extends KitMcpRouter<infer App> ? (unknown extends App ? any : App) : any
type UserOfRouter<Router> = Router extends KitMcpRouter<any, infer User> ? User : any

/** What `createMcpAdapter()` takes. */
export interface CreateMcpAdapterOptions<Router extends RouterOption = RouterOption, User = any>
  extends McpAdapterOptions {
  /**
   * What is served: the typed router, or a function that makes a server of the official SDK for each request.
   */
  readonly router: Router
  /** Absent or undefined: no OAuth. Everything is open then but operations with `scopes`, which nobody may call (403). */
  readonly oauth?: OAuthOptions<AppOf<Router>, User> | undefined
  /** Default `{ name: 'mcp-gatekit', version: '0.0.0' }`. */
  readonly serverInfo?: ServerInfo | undefined
  /** How to use the server, for the model. */
  readonly instructions?: string | undefined
  /** Where the gate and the adapter emit their events. Default: nowhere. */
  readonly telemetry?: KitTelemetryManager<any, any, any> | undefined
}

/** The endpoints of the adapters. */
const endpoints = new WeakMap<object, McpEndpoint>()

/** Returns the endpoint of what `build()` or `createMcpAdapter()` returned; undefined for anything else. */
export function endpointOf(adapter: unknown): McpEndpoint | undefined {
  return typeof adapter === 'object' && adapter !== null ? endpoints.get(adapter) : undefined
}

/**
 * An MCP server over HTTP: `{ server, auth }`.
 * @throws {KitMcpConfigError} naming the option that is wrong.
 */
export function createMcpAdapter<
  Router extends RouterOption,
  User extends UserOfRouter<Router> = UserOfRouter<Router>,
>(options: CreateMcpAdapterOptions<Router, User>): McpAdapter {
  if (!isOptionsObject(options))
    throw invalidKind('createMcpAdapter', 'takes an object with at least { router }', options)
  checkKnownOptions('createMcpAdapter', options, CREATE_OPTIONS)
  const { router, oauth, serverInfo, instructions, telemetry, ...rest } = options
  const endpoint = new McpEndpoint({
    router: checkRouter(router),
    oauth: oauth === undefined ? undefined : resolveOAuthOptions(oauth),
    serverInfo: serverInfo === undefined ? DEFAULT_SERVER_INFO : checkServerInfo(serverInfo),
    instructions: instructions === undefined ? undefined : checkInstructions(instructions),
    telemetry: telemetry === undefined ? undefined : checkTelemetry(telemetry),
    options: resolveAdapterOptions(rest),
  })
  const { handler, auth } = webHandlersOf(endpoint)
  const adapter = Object.freeze(withNotify({ server: handler, auth }, endpoint))
  endpoints.set(adapter, endpoint)
  return adapter
}

const CREATE_OPTIONS = ['router', 'oauth', 'serverInfo', 'instructions', 'telemetry', ...ADAPTER_OPTIONS]
const DEFAULT_SERVER_INFO: ServerInfo = Object.freeze({ name: 'mcp-gatekit', version: '0.0.0' })

type BuilderProps = Partial<Omit<McpEndpointProps, 'options'>> & {
  readonly given: McpAdapterOptions
  readonly options: ResolvedAdapterOptions
}

/** Builds an MCP server over HTTP step by step. Immutable: every method returns a new builder. */
export class KitMcpServer<App = unknown, User = any> {
  readonly #props: BuilderProps

  private constructor(props: BuilderProps) {
    this.#props = props
  }

  /** An empty builder; `.router()` must follow before `.build()`. */
  static create(): KitMcpServer<any> {
    return new KitMcpServer({ given: {}, options: resolveAdapterOptions({}) })
  }

  /** What is served: the typed router, or a function that makes a server of the official SDK for each request. */
  router<Router extends RouterOption>(router: Router): KitMcpServer<AppOf<Router>, UserOfRouter<Router>> {
    return new KitMcpServer({ ...this.#props, router: checkRouter(router) })
  }

  /** Requires a valid bearer token of every request. @throws {KitMcpConfigError} */
  withOAuth<Verified extends User = User>(oauth: OAuthOptions<App, Verified>): KitMcpServer<App, User> {
    return new KitMcpServer({ ...this.#props, oauth: resolveOAuthOptions(oauth) })
  }

  /** Who the server says it is. @throws {KitMcpConfigError} */
  withServerInfo(info: ServerInfo): KitMcpServer<App, User> {
    return new KitMcpServer({ ...this.#props, serverInfo: checkServerInfo(info) })
  }

  /** How to use the server, for the model. @throws {KitMcpConfigError} */
  withInstructions(text: string): KitMcpServer<App, User> {
    return new KitMcpServer({ ...this.#props, instructions: checkInstructions(text) })
  }

  /** Where the gate and the adapter emit their events. @throws {KitMcpConfigError} */
  withTelemetry(manager: KitTelemetryManager<any, any, any>): KitMcpServer<App, User> {
    return new KitMcpServer({ ...this.#props, telemetry: checkTelemetry(manager) })
  }

  /** Adapter options; called again, they merge. @throws {KitMcpConfigError} */
  withOptions(options: McpAdapterOptions): KitMcpServer<App, User> {
    if (!isOptionsObject(options)) throw invalidKind('options', 'must be an object', options)
    const given = { ...this.#props.given, ...options }
    return new KitMcpServer({ ...this.#props, given, options: resolveAdapterOptions(given) })
  }

  /** Makes the adapter. @throws {KitMcpConfigError} without a router. */
  build(): KitMcpAdapter {
    const { router, oauth, serverInfo, instructions, telemetry, options } = this.#props
    if (router === undefined) throw noRouter()
    const endpoint = new McpEndpoint({
      router,
      oauth,
      serverInfo: serverInfo ?? DEFAULT_SERVER_INFO,
      instructions,
      telemetry,
      options,
    })
    const adapter = Object.freeze(withNotify(webHandlersOf(endpoint), endpoint))
    endpoints.set(adapter, endpoint)
    return adapter
  }
}

function checkRouter(router: unknown): McpEndpointProps['router'] {
  if (router === undefined || router === null) throw noRouter()
  if (router instanceof KitMcpRouter) return tableOf(router)
  if (typeof router === 'function') return router as ServerFactory
  throw invalidKind(
    'router',
    'must be a KitMcpRouter, or a function that returns a server of the official SDK',
    router,
  )
}

function noRouter(): Error {
  return missingOption(
    'router',
    'give a KitMcpRouter, or a function that returns a server of the official SDK',
  )
}

function checkInstructions(text: unknown): string {
  if (typeof text !== 'string') throw invalidOption('instructions', 'must be a string', text)
  return text
}

function checkTelemetry(manager: KitTelemetryManager<any, any, any>): KitTelemetryManager<any, any, any> {
  if (typeof (manager as { session?: unknown } | null)?.session !== 'function') {
    throw invalidKind('telemetry', 'must be what KitTelemetry…build() returned', manager)
  }
  return manager
}

function webHandlersOf(endpoint: McpEndpoint): Omit<KitMcpAdapter, 'notify'> {
  const requestOf = (request: Request): WebMcpRequest => new WebMcpRequest(request, endpoint.trustsProxy)
  return {
    async handler(request) {
      try {
        const mcpRequest = requestOf(request)
        return webResponse(mcpRequest, await endpoint.answer(mcpRequest))
      } catch {
        // Whatever goes wrong, the client gets a response.
        return withHeaders(toResponse(FAILED_ANSWER), CORS_RESPONSE_HEADERS)
      }
    },
    auth: Object.freeze({
      cors(request: Request) {
        const mcpRequest = requestOf(request)
        if (endpoint.gate?.resource.owns(mcpRequest.path) === true) {
          const headers = preflightHeaders(mcpRequest.header('access-control-request-headers'))
          return toResponse({ status: 204, headers })
        }
        mcpRequest.addResponseHeaders(CORS_RESPONSE_HEADERS)
        return webResponse(mcpRequest, endpoint.preflight(mcpRequest))
      },
      resource(request: Request) {
        const mcpRequest = requestOf(request)
        return toResponse(metadataResponse(endpoint, mcpRequest), mcpRequest.method)
      },
    }),
  }
}

/** `notify` stands beside the two members that an adapter consists of, not among them. */
function withNotify<Faces extends object>(
  faces: Faces,
  { sdkHandler: { notify } }: McpEndpoint,
): Faces & { notify: McpNotifier } {
  return Object.defineProperty(faces, 'notify', { value: notify }) as Faces & { notify: McpNotifier }
}

function metadataResponse({ gate }: McpEndpoint, request: WebMcpRequest): PlainResponse {
  const root = gate?.options.resourceMetadataPath
  if (gate === undefined || root === undefined) return notFound()
  const { method, origin } = request
  const ifNoneMatch = request.header('if-none-match')
  const respond = (path: string): PlainResponse =>
    gate.resource.respond({ method, path, origin, ifNoneMatch, request: request.request }) ?? notFound()
  if (gate.resource.owns(request.path)) return respond(request.path)
  // Mounted elsewhere by the host: the root form; another resource's path is not ours to answer.
  if (request.path.startsWith(`${root}/`)) return notFound()
  return respond(root)
}

function webResponse(
  { method, responseHeaders }: WebMcpRequest,
  response: PlainResponse | Response,
): Response {
  return withHeaders(response instanceof Response ? response : toResponse(response, method), responseHeaders)
}

function withHeaders(response: Response, headers: Readonly<Record<string, string>>): Response {
  const hasNonce = response.headers.has('DPoP-Nonce')
  for (const name of Object.keys(headers)) response.headers.set(name, headers[name] as string)
  if (hasNonce) response.headers.append('Access-Control-Expose-Headers', 'DPoP-Nonce')
  return response
}
