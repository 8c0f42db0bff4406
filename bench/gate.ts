import { createServer } from 'node:http'
import { mcpAuthMetadataRouter, requireBearerAuth } from '@modelcontextprotocol/express'
import express, { type RequestHandler } from 'express'
import { mcpAuth } from '../src/express/mcp-auth.ts'
import { protectedResourceRouter } from '../src/express/protected-resource-router.ts'
import type { Contestant } from './contestants.ts'
import { measureLoad } from './load.ts'
import { printRatios } from './report.ts'

const ISSUER = 'https://auth.example.com'
const RESOURCE = 'https://mcp.example.com/mcp'
const METADATA_PATH = '/.well-known/oauth-protected-resource/mcp'
const EXPIRES_AT = Math.floor(Date.now() / 1000) + 86_400

/** One Express route behind each gate, with a verifier that does nothing. */
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
        resourceMetadataUrl: new URL(METADATA_PATH, RESOURCE).href,
      }),
    ),
  'mcp-gatekit mcpAuth': () =>
    app(
      mcpAuth({
        issuer: ISSUER,
        resource: RESOURCE,
        scopes: ['mcp:read'],
        verifyToken: async ({ bearerToken }) =>
          bearerToken === undefined || bearerToken === 'bad'
            ? undefined
            : { valid: true, clientId: 'c', scopes: ['mcp:read'], expiresAt: EXPIRES_AT },
      }),
    ),
}

const GATES = Object.keys(contestants)

Object.assign(contestants, {
  'SDK mcpAuthMetadataRouter': () =>
    createServer(
      express().use(
        mcpAuthMetadataRouter({
          oauthMetadata: {
            issuer: ISSUER,
            authorization_endpoint: `${ISSUER}/auth`,
            token_endpoint: `${ISSUER}/token`,
            response_types_supported: ['code'],
          },
          resourceServerUrl: new URL(RESOURCE),
          scopesSupported: ['mcp:read'],
        }),
      ),
    ),
  'mcp-gatekit protectedResourceRouter': () => {
    const verifyToken = () => undefined
    const oauth = { issuer: ISSUER, resource: RESOURCE, scopes: ['mcp:read'], verifyToken }
    return createServer(express().use(protectedResourceRouter(oauth)))
  },
} satisfies Record<string, Contestant>)

function app(...gates: RequestHandler[]) {
  const served = express()
  served.use('/mcp', ...gates, (_req, res) => {
    res.writeHead(200, { 'Content-Type': 'application/json' })
    res.end('{"ok":true}')
  })
  return createServer(served)
}

/** (a) Measures requests through the gate and to the metadata document. */
export async function benchGate(): Promise<void> {
  const common = { module: new URL(import.meta.url), path: '/mcp' }
  const accepted = await measureLoad({
    ...common,
    names: GATES,
    request: { headers: { authorization: 'Bearer good-token' } },
    expectStatus: 200,
  })
  printRatios(
    '(a) accepted requests through the gate',
    accepted.rounds,
    'SDK requireBearerAuth',
    'requests/s',
    accepted.cpu,
  )
  const refused = await measureLoad({
    ...common,
    names: GATES.slice(1),
    request: { headers: {} },
    expectStatus: 401,
  })
  printRatios(
    '(a) refused requests (401, no token)',
    refused.rounds,
    'SDK requireBearerAuth',
    'requests/s',
    refused.cpu,
  )
  const metadata = await measureLoad({
    ...common,
    path: METADATA_PATH,
    names: ['SDK mcpAuthMetadataRouter', 'mcp-gatekit protectedResourceRouter'],
    request: {},
    expectStatus: 200,
  })
  printRatios(
    '(a) the metadata document',
    metadata.rounds,
    'SDK mcpAuthMetadataRouter',
    'requests/s',
    metadata.cpu,
  )
}
