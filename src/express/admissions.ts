import type { Exchange } from '../mcp/exchange.ts'
import { type AuthInfo, attachedTo, attachTo } from '../oauth/auth-info.ts'
import type { Gate } from '../oauth/gate.ts'
import type { NodeRequest } from './node-http.ts'

/**
 * What one gate has let in, and what others before it have. It goes with `req.auth`: one more property of Express's
 * request object, or an entry of a `WeakMap`, would cost each request more than the gate does.
 */
class Admission {
  readonly req: NodeRequest
  readonly exchange: Exchange
  /** Whether the gate belongs to an adapter; else it stands alone, made from OAuth options. */
  readonly ofAdapter: boolean
  readonly earlier: Admission | undefined

  constructor(req: NodeRequest, exchange: Exchange, ofAdapter: boolean, earlier: Admission | undefined) {
    this.req = req
    this.exchange = exchange
    this.ofAdapter = ofAdapter
    this.earlier = earlier
  }
}

/** The latest admission of this very request; an `auth` taken over from another request counts for nothing. */
function latest(req: NodeRequest): Admission | undefined {
  const attached = attachedTo(req.auth)
  return attached instanceof Admission && attached.req === req ? attached : undefined
}

/** Puts who is calling on `req.auth`, and remembers that a gate has let this request in. */
export function admit(req: NodeRequest, auth: AuthInfo, exchange: Exchange, ofAdapter: boolean): void {
  attachTo(auth, new Admission(req, exchange, ofAdapter, latest(req)))
  req.auth = auth
}

/** What `gate` has let in of this request. */
export function admissionBy(req: NodeRequest, gate: Gate | undefined): Exchange | undefined {
  if (gate === undefined) return undefined
  for (let one = latest(req); one !== undefined; one = one.earlier) {
    if (one.exchange.gate === gate) return one.exchange
  }
  return undefined
}

/** What `mcpAuth(oauthOptions)` has let in, for an adapter that has no OAuth of its own. */
export function admissionByOptions(req: NodeRequest): Exchange | undefined {
  for (let one = latest(req); one !== undefined; one = one.earlier) {
    if (!one.ofAdapter) return one.exchange
  }
  return undefined
}
