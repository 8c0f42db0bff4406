import { createServer } from 'node:http'
import { requireBearerAuth } from '@modelcontextprotocol/express'
import express, { type RequestHandler } from 'express'
import { mcpAuth } from '../src/express/mcp-auth.ts'
import type { Contestant } from './contestants.ts'
import { measureLoad } from './load.ts'
import { printRatios } from './report.ts'

const EXPIRES_AT = Math.floor(Date.now() / 1000) + 86_400

/** One Express route behind each gate, with a verifier that costs nothing. */
export const contestants: Record<string, Contestant> = {
  'bare Express': () => app(),
  'SDK requireBearerAuth': () =>
    app(
      requireBearerAuth({
        verifier: {
          verifyAccessToken: async (token) => ({
            token,
            clientId: 'c',
            scopes: ['mcp:read'],
            expiresAt: EXPIRES_AT,
          }),
        },
        requiredScopes: ['mcp:read'],
        resourceMetadataUrl: 'https://mcp.example.com/.well-known/oauth-protected-resource/mcp',
      }),
    ),
  'mcp-gatekit mcpAuth': () =>
    app(
      mcpAuth({
        issuer: 'https://auth.example.com',
        resource: 'https://mcp.example.com/mcp',
        scopes: ['mcp:read'],
        verifyToken: async ({ bearerToken }) =>
          bearerToken === undefined || bearerToken === 'bad'
            ? undefined
            : { valid: true, clientId: 'c', scopes: ['mcp:read'], expiresAt: EXPIRES_AT },
      }),
    ),
}

function app(...gates: RequestHandler[]) {
  const served = express()
  served.use('/mcp', ...gates, (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end('{"ok":true}')
  })
  return createServer(served)
}

/** (a) Requests per second through the gate. */
export async function benchGate(): Promise<void> {
  const common = { module: new URL(import.meta.url), path: '/mcp' }
  const accepted = await measureLoad({
    ...common,
    names: Object.keys(contestants),
    request: { headers: { authorization: 'Bearer good-token' } },
    expectStatus: 200,
  })
  printRatios('(a) accepted requests through the gate', accepted, 'SDK requireBearerAuth', 'requests/s')
  const refused = await measureLoad({
    ...common,
    names: Object.keys(contestants).slice(1),
    request: { headers: {} },
    expectStatus: 401,
  })
  printRatios('(a) refused requests (401, no token)', refused, 'SDK requireBearerAuth', 'requests/s')
}
