import type { NodeRequest } from '../http/node-middleware.ts'
import type { Exchange } from '../mcp/wire/exchange.ts'
import { type AuthInfo, attachedTo, attachTo } from '../oauth/auth-info.ts'
import type { Gate } from '../oauth/gate.ts'

/**
 * A request that a gate has authenticated, and the gates before it. It travels with `req.auth`: one more property of
 * Express's request object, or an entry of a `WeakMap`, would cost each request more than the gate does.
 */
class AuthenticatedRequest {
  readonly req: NodeRequest
  readonly exchange: Exchange
  /** Whether the gate belongs to an adapter. Otherwise it was made from OAuth options. */
  readonly ofAdapter: boolean
  readonly earlier: AuthenticatedRequest | undefined

  constructor(
    req: NodeRequest,
    exchange: Exchange,
    ofAdapter: boolean,
    earlier: AuthenticatedRequest | undefined,
  ) {
    this.req = req
    this.exchange = exchange
    this.ofAdapter = ofAdapter
    this.earlier = earlier
  }
}

/** Returns what the last gate has authenticated of this very request. An `auth` copied from another request does not count. */
function latest(req: NodeRequest): AuthenticatedRequest | undefined {
  const attached = attachedTo(req.auth)
  return attached instanceof AuthenticatedRequest && attached.req === req ? attached : undefined
}

/** Sets `req.auth`, and remembers that a gate has authenticated this request. */
export function setAuthenticated(req: NodeRequest, exchange: Exchange, ofAdapter: boolean): void {
  const auth = exchange.auth as AuthInfo
  attachTo(auth, new AuthenticatedRequest(req, exchange, ofAdapter, latest(req)))
  req.auth = auth
}

/** Returns the request as `gate` has authenticated it. */
export function authenticatedBy(req: NodeRequest, gate: Gate): Exchange | undefined {
  for (let one = latest(req); one !== undefined; one = one.earlier) {
    if (one.exchange.gate === gate) return one.exchange
  }
  return undefined
}

/** Returns the request as `mcpAuth(oauthOptions)` has authenticated it, for an adapter without OAuth. */
export function authenticatedByOptions(req: NodeRequest): Exchange | undefined {
  for (let one = latest(req); one !== undefined; one = one.earlier) {
    if (!one.ofAdapter) return one.exchange
  }
  return undefined
}
