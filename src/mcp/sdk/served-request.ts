import { classifyInboundRequest } from '@modelcontextprotocol/server'
import { methodNamed } from '../methods.ts'
import type { TaskRequest } from '../tasks/tasks.ts'
import type { Exchange } from '../wire/exchange.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import { accepts, SERVED_TYPES } from '../wire/request-headers.ts'

/** The property in which the SDK's server factory finds the exchange of a request. */
const EXCHANGE: unique symbol = Symbol('exchange')
/** The property in which a signal keeps its request. */
const REQUEST: unique symbol = Symbol('request')

/** A web-standard request for the SDK, which carries its exchange. */
export interface ServedRequest extends Request {
  [EXCHANGE]?: Exchange
}

/** Returns a request for the SDK. */
export function servedRequest(received: McpRequest, exchange: Exchange): ServedRequest {
  const request: ServedRequest = withAccept(received)
  request[EXCHANGE] = exchange
  // The signal of a request aborts only while the request exists, and the SDK keeps only the signal.
  Object.defineProperty(request.signal, REQUEST, { value: request, configurable: true })
  return request
}

/** Returns the exchange of a request, or undefined if `servedRequest` has not created the request. */
export function exchangeOf(request: Request | undefined): Exchange | undefined {
  return (request as ServedRequest | undefined)?.[EXCHANGE]
}

/** Returns a request whose `Accept` header names the media types that it accepts. The SDK only looks for their names in it. */
function withAccept({ request }: McpRequest): Request {
  const accept = request.headers.get('accept') ?? undefined
  const accepted = SERVED_TYPES.filter((type) => accepts(accept, type)).join(', ')
  if (accept === accepted) return request
  const headers = new Headers(request.headers)
  headers.set('accept', accepted)
  return new Request(request.url, { method: request.method, headers, signal: request.signal })
}

/** Returns `true` for `events/stream`, whose response is an event stream. */
export function isEventStreamRequest(message: unknown): boolean {
  return (message as { method?: unknown } | null)?.method === 'events/stream'
}

/** Returns `true` for `subscriptions/listen`. */
export function isListening(message: unknown): boolean {
  const { method } = (message ?? {}) as { method?: unknown }
  return methodNamed(method)?.names === 'subscription'
}

/** Returns `true` for a request about a task. */
export function isTaskRequest(body: unknown): body is TaskRequest {
  const { method, id } = (body ?? {}) as { method?: unknown; id?: unknown }
  const isMethod = method === 'tasks/get' || method === 'tasks/update' || method === 'tasks/cancel'
  return isMethod && (typeof id === 'string' || typeof id === 'number')
}

/** A `subscriptions/listen` that names tasks. */
export interface ListenRequest extends TaskRequest {
  readonly params: { readonly _meta?: unknown; readonly notifications: { readonly taskIds: unknown[] } }
}

/** Returns the ids of the tasks that `subscriptions/listen` names, or undefined if it does not name any. */
export function watchedTaskIds(body: unknown): readonly unknown[] | undefined {
  const ids = (body as Partial<ListenRequest> | undefined)?.params?.notifications?.taskIds
  return Array.isArray(ids) && ids.length > 0 ? ids : undefined
}

/** Returns `true` if the SDK takes a POST for one of a 2025 revision. */
export function isLegacy(request: McpRequest, body: unknown): boolean {
  const protocolVersionHeader = request.header('mcp-protocol-version')
  const { kind } = classifyInboundRequest({
    httpMethod: 'POST',
    ...(protocolVersionHeader !== undefined && { protocolVersionHeader }),
    body,
  })
  return kind === 'legacy'
}
