import type { Exchange } from '../wire/exchange.ts'
import type { McpRequest } from '../wire/mcp-request.ts'

/** Where the SDK's server factory finds the exchange of the request it is called for. */
const EXCHANGE: unique symbol = Symbol('exchange')
/** And what that request asks for. */
const MESSAGES: unique symbol = Symbol('messages')
/** Where a signal keeps the request that it is of. */
const REQUEST: unique symbol = Symbol('request')

/** A web-standard request on its way through the SDK, which carries what its servers are made for. */
export interface ServedRequest extends Request {
  [EXCHANGE]?: Exchange
  [MESSAGES]?: readonly unknown[]
}

/** @param messages what the request asks for; none where it goes to a session, whose server has every handler. */
export function servedRequest(
  incoming: McpRequest,
  exchange: Exchange,
  messages: readonly unknown[] = [],
): ServedRequest {
  const request: ServedRequest = spelledOut(incoming)
  request[EXCHANGE] = exchange
  request[MESSAGES] = messages
  // A signal hears of the client only as long as its request is there, and the SDK keeps the signal alone.
  Object.defineProperty(request.signal, REQUEST, { value: request, configurable: true })
  return request
}

/** The exchange that a request belongs to; undefined for one that was not made here. */
export function exchangeOf(request: Request | undefined): Exchange | undefined {
  return (request as ServedRequest | undefined)?.[EXCHANGE]
}

/** The methods that a request asks for. */
export function methodsOf(request: Request | undefined): Set<unknown> {
  const messages = (request as ServedRequest | undefined)?.[MESSAGES] ?? []
  return new Set(messages.map((message) => (message as { method?: unknown } | null)?.method))
}

/** The SDK wants both media types spelled out; a client that accepts anything accepts them too. */
function spelledOut({ request }: McpRequest): Request {
  const accept = request.headers.get('accept')
  const namesBoth = accept !== null && !accept.includes('*/*')
  if (namesBoth) return request
  const headers = new Headers(request.headers)
  headers.set('accept', 'application/json, text/event-stream')
  return new Request(request.url, { method: request.method, headers, signal: request.signal })
}
