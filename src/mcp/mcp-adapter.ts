import { optionChecksOf } from '../base/options/option-checks.ts'
import type { EmitOptions } from './events/event-emitter.ts'
import { type EventStats, newLedger } from './events/event-ledger.ts'

/** A web-standard request handler. */
export type FetchHandler = (request: Request) => Promise<Response>

/** Handlers for requests outside the MCP route: CORS preflights, and the protected resource metadata document. */
export interface McpAuthHandlers {
  /** Responds to OPTIONS requests to the MCP route and to the metadata route. */
  readonly cors: (request: Request) => Response | Promise<Response>
  /** Serves the protected resource metadata document (RFC 9728). Responds with 404 if OAuth is disabled. */
  readonly resource: (request: Request) => Response | Promise<Response>
}

/** Handlers for the documents with which clients find a server before they connect. */
export interface McpDiscoveryHandlers {
  /** Serves the server card (SEP-2127), at the path of the MCP route followed by `/server-card`. */
  readonly card: (request: Request) => Response
  /** Serves the catalog with the entry of this server, at `/.well-known/ai-catalog.json`. */
  readonly catalog: (request: Request) => Response
}

/**
 * An MCP server over HTTP, as {@link createMcpAdapter} and `KitMcpServer…build()` return it. `handler` and `server` are
 * the same function. `createMcpAdapter()` returns an object that lists `{ server, auth }`, and `build()` one that lists
 * `{ handler, auth }`; the other members are not enumerable.
 */
export interface McpAdapter<Events = any> {
  /**
   * Serves MCP: checks `Origin` and `Host`, authenticates the request, responds to OPTIONS requests, and adds the CORS
   * headers.
   */
  readonly handler: FetchHandler
  /** The same function as `handler`. */
  readonly server: FetchHandler
  /** Handlers for requests outside the MCP route: CORS preflights, and the protected resource metadata document. */
  readonly auth: McpAuthHandlers
  /** Handlers for the server card and the catalog, for hosts of the web-standard handler. `mcpServer` serves both by itself. */
  readonly discovery: McpDiscoveryHandlers
  /** Notifies clients of changes. */
  readonly notify: McpNotifier
  /** The tasks that run in this process. Pass it to `gracefulShutdown` to let them end. */
  readonly tasks: McpTasks
  /** The events of the router: sends them, and counts them. */
  readonly events: McpEvents<Events>
}

/**
 * Notifies clients of changes: clients of 2026-07-28 that listen, and clients of 2025 revisions that have an event stream
 * open. With an `eventBus` it notifies the clients of all nodes, otherwise those of this process.
 */
export interface McpNotifier {
  /** Notifies clients that the list of tools has changed. */
  toolsChanged(): void
  /** Notifies clients that the list of prompts has changed. */
  promptsChanged(): void
  /** Notifies clients that the list of resources, or of resource templates, has changed. */
  resourcesChanged(): void
  /** Notifies the clients that have subscribed to `uri` that this resource has changed. */
  resourceUpdated(uri: string): void
}

/** The type of a member. */
type MemberOf<Type, Key extends string> = Key extends keyof Type ? Type[Key] : never

/** The events of a router (SEP-3415). `Events` has the types of each event type by its name. */
export interface McpEvents<Events = any> {
  /**
   * Sends an event to its subscribers: those that poll, those with a stream, and webhooks. When the promise resolves, the event and
   * its deliveries are in the store.
   * @param name the name of an event type of the router.
   * @param data the data, which must fit the `payload` of the event type. The event has at most 256 KiB.
   * @param options the receivers. All subscribers by default.
   * @returns the id of the event.
   * @throws {KitMcpConfigError} if an argument is invalid. The error of the store if it is unavailable: call `emit` again with the
   * same `eventId`.
   * @see docs/guides/events.md
   */
  emit<Name extends keyof Events & string>(
    name: Name,
    data: MemberOf<Events[Name], 'data'>,
    options?: EmitOptions<MemberOf<Events[Name], 'args'>>,
  ): Promise<{ readonly eventId: string }>
  /** Returns the numbers of this node since its start. */
  stats(): EventStats
  /**
   * Ends the open streams of events, takes no more deliveries, and waits for the running ones, at most `timeoutMs`. Never rejects.
   * Deliveries that wait stay in the store.
   * @param options `timeoutMs` defaults to 0 ms.
   */
  close(options?: { readonly timeoutMs?: number | undefined }): Promise<void>
}

/** The tasks that run in this process. */
export interface McpTasks {
  /** The number of tasks that run in this process. */
  readonly running: number
  /**
   * Accepts no further tasks, waits for the running ones, and marks those as failed that have not ended in time. Never rejects.
   * @param options `timeoutMs` is the time to wait. Defaults to 0 ms.
   */
  close(options?: { readonly timeoutMs?: number | undefined }): Promise<void>
}

/** Returns the part of events that the application uses. */
export function eventsFor(events: McpEvents | undefined): McpEvents {
  return Object.freeze<McpEvents>({
    async emit(name: string, data: unknown, options?: EmitOptions) {
      if (events !== undefined) return await events.emit(name, data, options)
      const { unusableOption } = optionChecksOf('emit')
      throw unusableOption('emit', 'needs an event type', 'Declare it with router.event().')
    },
    stats: () => events?.stats() ?? newLedger(),
    close: async (options) => await events?.close(options),
  })
}
