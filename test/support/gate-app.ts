import express, { type Express, type RequestHandler } from 'express'
import { type GateTarget, mcpAuth, type NodeRequest } from '../../src/index.ts'
import type { OAuthOptions, VerifiedToken } from '../../src/oauth/options.ts'

/** Options whose verifier accepts only the token `good`. */
export function oauthOptions(
  changes: Partial<OAuthOptions> = {},
  result: Partial<VerifiedToken> = {},
): OAuthOptions {
  return {
    issuer: 'https://auth.example.com',
    verifyToken: async ({ bearerToken }) => (bearerToken === 'good' ? { valid: true, ...result } : undefined),
    ...changes,
  }
}

/** Returns an Express application with one route behind the gate. The route responds with the authenticated user. */
export function gatedApp(
  target: GateTarget,
  { path = '/mcp', before = [] as RequestHandler[] } = {},
): Express {
  const app = express()
  app.set('env', 'test')
  for (const middleware of before) app.use(middleware)
  app.use(path, mcpAuth(target), (req, res) => {
    const { auth } = req as NodeRequest
    res.json({ auth, token: (auth as { token?: string } | undefined)?.token })
  })
  return app
}
