import type { NodeRequest } from '../base/http/node-middleware.ts'
import type { Exchange } from '../mcp/wire/exchange.ts'
import { AuthInfo, attachedTo, attachTo } from '../oauth/auth-info.ts'
import type { Gate } from '../oauth/gate.ts'

/**
 * A request that a gate has authenticated, linked to earlier gates of the same request. It is attached to `req.auth`, because
 * another property of Express's request object, or an entry in a `WeakMap`, would take more time than the gate itself.
 */
interface AuthenticatedRequest {
  readonly req: NodeRequest
  readonly exchange: Exchange
  /** `true` if the gate belongs to an adapter, `false` if it was created from OAuth options. */
  readonly ofAdapter: boolean
  readonly earlier: AuthenticatedRequest | undefined
}

/** Returns the result of the latest gate of this request. An `auth` that was copied from another request is ignored. */
function latest(req: NodeRequest): AuthenticatedRequest | undefined {
  const attached = attachedTo(req.auth) as AuthenticatedRequest | undefined
  return attached?.req === req ? attached : undefined
}

/** Sets `req.auth` and records that a gate has authenticated this request. */
export function setAuthenticated(req: NodeRequest, exchange: Exchange, ofAdapter: boolean): void {
  const auth = exchange.auth as AuthInfo
  const authenticated: AuthenticatedRequest = { req, exchange, ofAdapter, earlier: latest(req) }
  attachTo(auth, authenticated)
  req.auth = auth
}

/** Returns the authentication of the request by `gate`; without one, by `mcpAuth(oauthOptions)`, for an adapter without OAuth. */
export function authenticatedBy(req: NodeRequest, gate: Gate | undefined): Exchange | undefined {
  for (let entry = latest(req); entry !== undefined; entry = entry.earlier) {
    if (gate === undefined ? !entry.ofAdapter : entry.exchange.gate === gate) return entry.exchange
  }
  return undefined
}

/**
 * Returns the verified token and user of a request that passed `mcpAuth`, and `undefined` for other requests.
 * @param req the request of Express, Connect, or Node.js
 * @example
 * ```ts
 * import express from 'express'
 * import { authOf, type JwtUser } from 'mcp-gatekit/gate'
 *
 * express().get('/me', (req, res) => {
 *   res.json({ name: authOf<JwtUser>(req)?.user?.id })
 * })
 * ```
 */
export function authOf<User = unknown>(req: object): AuthInfo<User> | undefined {
  const { auth } = req as { readonly auth?: unknown }
  return auth instanceof AuthInfo ? auth : undefined
}
