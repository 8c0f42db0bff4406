import {
  type CacheHint,
  type McpServer,
  type Server,
  type ServerCapabilities,
  type ServerContext,
  type ServerOptions,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/server'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { lastingClaims } from '../../oauth/lasting-claims.ts'
import type { Events } from '../events/events.ts'
import { MODERN_REVISION } from '../methods.ts'
import { Confirmations } from '../operations/confirmations.ts'
import { RequestStates } from '../operations/request-state.ts'
import type { Subscriptions } from '../operations/subscriptions.ts'
import type { ResolvedAdapterOptions, ServerInfo } from '../options.ts'
import type { RouterTable } from '../router/router-table.ts'
import { resolveTaskOptions } from '../tasks/task-options.ts'
import { TASKS_CAPABILITY } from '../tasks/task-outcome.ts'
import { Tasks } from '../tasks/tasks.ts'
import type { Exchange } from '../wire/exchange.ts'
import { buildCheckingServer, buildServer, type SdkServing } from './build-server.ts'
import type { FastRequest } from './fast-path.ts'
import { allowRequests, refuseRequests } from './refused-requests.ts'
import { exchangeOf } from './served-request.ts'
import type { Session } from './sessions/session.ts'
import type { SessionCall } from './sessions/session-call.ts'
import { watchMessages } from './watch-messages.ts'

const { unusableOption } = optionChecksOf('createMcpAdapter')

/**
 * The argument of a router function. The function is called once per request or, with sessions, once per session. A token with
 * another user, client, or other scopes than the one that has begun the session does not find it (404).
 */
export interface ServerFactoryContext {
  /** The same object as `context.context` of `verifyToken` and `onVerified`. */
  readonly context: unknown
  /** The MCP request. */
  readonly request: Request
  /** The verified token. Absent if OAuth is disabled, and for a request that is served without a token (`anonymous`). */
  readonly auth?: AuthInfo<any>
  /** The same as `auth`, under the name that `createMcpHandler` of the official SDK uses. */
  readonly authInfo?: AuthInfo<any>
  /** The same as `request`, under the name that `createMcpHandler` of the official SDK uses. */
  readonly requestInfo: Request
  /** `modern` for revision 2026-07-28, `legacy` for the revisions of 2025. */
  readonly era: 'modern' | 'legacy'
}

/** Returns a server of the official SDK for one request, or in a session for several requests. */
export type ServerFactory = (
  context: ServerFactoryContext,
) => McpServer | Server | Promise<McpServer | Server>

export interface SdkServersProps {
  readonly router: RouterTable | ServerFactory
  readonly serverInfo: ServerInfo
  readonly instructions: string | undefined
  readonly options: ResolvedAdapterOptions
  /** Undefined if no event type is declared. */
  readonly events?: Events | undefined
}

/** The revisions of a server that serves the modern revision without the SDK's handler around it. */
const MODERN_REVISIONS = [MODERN_REVISION, ...SUPPORTED_PROTOCOL_VERSIONS]

/** The revisions of Streamable HTTP, the newest first. The SDK also knows some of before. */
export const SERVED_REVISIONS: readonly string[] = MODERN_REVISIONS.filter((revision) => revision >= '2025')

/** Creates servers of the official SDK from the router's table, or with the application's router function. */
export class SdkServers {
  readonly #props: SdkServersProps
  readonly #states: RequestStates
  readonly #confirmations: Confirmations
  readonly #options: ServerOptions
  readonly #modernOptions: ServerOptions
  /** The options for requests of 2026-07-28 that the handler of the SDK serves. */
  readonly #discoveryOptions: ServerOptions
  /** Undefined if no tool runs as a task. */
  readonly tasks: Tasks | undefined

  constructor(props: SdkServersProps) {
    this.#props = props
    const { requestStateSecret, confirmations, authorizeTimeoutMs } = props.options
    this.#states = new RequestStates(requestStateSecret)
    this.#confirmations = new Confirmations(confirmations?.store, authorizeTimeoutMs)
    this.#options = serverOptions(props)
    this.#modernOptions = { ...this.#options, supportedProtocolVersions: MODERN_REVISIONS }
    this.tasks = tasksOf(props)
    this.#discoveryOptions =
      this.tasks === undefined
        ? this.#options
        : { ...this.#options, capabilities: withTasks(this.#options.capabilities) }
  }

  /** Returns a server for one request on the fast path. */
  forFastPath(
    table: RouterTable,
    exchange: Exchange,
    subscriptions: Subscriptions,
    { message, classification }: FastRequest,
  ): Server {
    const serving = this.#serving(table, exchange, subscriptions)
    const options = classification.era === 'modern' ? this.#modernOptions : this.#options
    return buildServer(table, () => serving, this.#props.serverInfo, options, [message.method])
  }

  /** Returns a server for one request that the SDK's handler serves. */
  async forRequest(
    request: Request,
    subscriptions: Subscriptions,
    era: 'modern' | 'legacy',
  ): Promise<Server | McpServer> {
    const exchange = exchangeOf(request) as Exchange
    const { router } = this.#props
    const isForeign = typeof router === 'function'
    const server = isForeign
      ? await callFactory(router, exchange, request, era)
      : this.#build(this.#serving(router, exchange, subscriptions), era)
    tryOrUndefined(() => refuseRequests(server))
    const { telemetry } = exchange
    watchMessages(server, {
      delivered: (message, deliver) => telemetry.delivered(message, deliver),
      responded: (response) => telemetry.messageSent(response, isForeign),
      outflowOf: () => exchange.outflow,
    })
    return server
  }

  #build(serving: SdkServing, era: 'modern' | 'legacy'): Server | McpServer {
    const { table, exchange } = serving
    const options = era === 'modern' ? this.#discoveryOptions : this.#options
    const methods = [exchange.method]
    return table.declaresHeaders
      ? buildCheckingServer(serving, this.#props.serverInfo, options, methods)
      : buildServer(table, () => serving, this.#props.serverInfo, options, methods)
  }

  /**
   * Returns a key of what a token permits: its client, its scopes, its actor, and its user without the claims that each token has anew.
   * The server of a session serves only tokens with the same key. A server of a router's table checks the token of each request
   * itself, so it serves all tokens of the user.
   */
  authorityOf(auth: AuthInfo | undefined): string {
    if (typeof this.#props.router !== 'function' || auth === undefined) return ''
    const { clientId, scopes, user, act } = auth
    return JSON.stringify([clientId, [...new Set(scopes)].sort(), lastingClaims(user), act])
  }

  /** Returns a server for a session. It finds the exchange of each request by the id of the request. */
  async forSession(session: Session, { exchange, request }: SessionCall): Promise<Server | McpServer> {
    const { router, serverInfo } = this.#props
    let server: Server | McpServer
    if (typeof router === 'function') {
      server = await callFactory(router, exchange, request.request, 'legacy')
      tryOrUndefined(() => allowRequests(server))
    } else {
      const serving = (sdk: ServerContext): SdkServing => {
        const exchange = session.requestOf(sdk.mcpReq.id)?.received.exchange
        // Without its own exchange, the request might get the token of another request.
        if (exchange === undefined) throw new TypeError('A request of a session has no exchange')
        const sessionCapabilities = own.getClientCapabilities()
        return { ...this.#serving(router, exchange, session), sessionCapabilities }
      }
      const own = buildServer(router, serving, serverInfo, this.#options)
      server = own
    }
    watchMessages(server, { outflowOf: (id) => session.requestOf(id)?.outflow })
    return server
  }

  #serving(table: RouterTable, exchange: Exchange, subscriptions: Subscriptions): SdkServing {
    const { listOnlyPermitted, toolsets, cache, policy } = this.#props.options
    return {
      table,
      exchange,
      states: this.#states,
      confirmations: this.#confirmations,
      subscriptions,
      listOnlyPermitted,
      toolsets,
      cache,
      policy,
      tasks: this.tasks,
      events: this.#props.events,
    }
  }
}

function withTasks(capabilities: ServerCapabilities = {}): ServerCapabilities {
  return { ...capabilities, extensions: { ...capabilities.extensions, ...TASKS_CAPABILITY.extensions } }
}

function tasksOf({ router, options }: SdkServersProps): Tasks | undefined {
  if (typeof router === 'function' || !router.hasTasks) return undefined
  return new Tasks(options.tasks ?? resolveTaskOptions({}), router, options.policy)
}

/** @throws {KitMcpConfigError} for a server of SDK v1, which lacks a method of every server of v2. */
function refuseSdkV1(server: Server | McpServer): void {
  const inner: Partial<Server> = 'server' in server ? server.server : server
  if (typeof inner.setRequestHandler !== 'function' || inner.projectCallToolResult !== undefined) return
  throw unusableOption(
    'router',
    'returned a server of @modelcontextprotocol/sdk 1.x, but needs one of @modelcontextprotocol/server',
    'Build the server with @modelcontextprotocol/server, or keep it and put mcpAuth(oauth, { scopes }) in front of it.',
  )
}

async function callFactory(
  router: ServerFactory,
  exchange: Exchange,
  request: Request,
  era: 'modern' | 'legacy',
): Promise<Server | McpServer> {
  try {
    const { context, auth } = exchange
    const given = {
      context: context.context,
      request,
      era,
      ...(auth !== undefined && { auth, authInfo: auth }),
    }
    // It is not printed, because it is the same as `request`.
    Object.defineProperty(given, 'requestInfo', { value: request })
    const server = await router(given as ServerFactoryContext)
    refuseSdkV1(server)
    return server
  } catch (cause) {
    exchange.telemetry.finished({ outcome: 'failed', cause })
    throw cause
  }
}

/** Returns the options that all servers share. */
function serverOptions({ router, instructions, options }: SdkServersProps): ServerOptions {
  const table = typeof router === 'function' ? undefined : router
  const { cache, listOnlyPermitted, policy, toolsets } = options
  const ownLists: CacheHint =
    listOnlyPermitted || policy?.filtersLists === true ? { ...cache, cacheScope: 'private' } : cache
  const listing = table?.templates.some(({ list }) => list !== undefined) === true
  return {
    ...(table !== undefined && { capabilities: table.capabilities }),
    ...(instructions !== undefined && { instructions }),
    ...(Object.keys(cache).length > 0 && {
      cacheHints: {
        'server/discover': cache,
        // A shared cache does not distinguish headers.
        'tools/list': toolsets === undefined ? ownLists : { ...ownLists, cacheScope: 'private' },
        'prompts/list': ownLists,
        'resources/templates/list': ownLists,
        // Templates may list resources of the user.
        'resources/list': listing ? { ...ownLists, cacheScope: 'private' } : ownLists,
      },
    }),
  }
}
