import { accepts, SERVED_TYPES } from '../wire/accept.ts'
import type { Exchange } from '../wire/exchange.ts'
import type { McpRequest } from '../wire/mcp-request.ts'

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
