import { AuthInfo } from '../oauth/auth-info.ts'

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
