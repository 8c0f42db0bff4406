import {
  mcpAuthMetadataRouter,
  type OAuthTokenVerifier,
  requireBearerAuth,
} from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import {
  type AuthInfo,
  createMcpHandler,
  McpServer,
  OAuthError,
  OAuthErrorCode,
} from '@modelcontextprotocol/server'
import express, { type Express } from 'express'
import { mcpAuth, type OAuthOptions, protectedResourceRouter } from 'mcp-gatekit'

export interface MigrationOptions {
  readonly issuer: string
  /** The URL of this server as clients see it. */
  readonly resource: string
  /** Returns the owner of a token, or `undefined` for an invalid token. */
  readonly lookUp: (token: string) => Promise<KnownToken | undefined>
}

export interface KnownToken {
  readonly clientId: string
  readonly scopes: string[]
  /** Seconds since 1970. */
  readonly expiresAt: number
}

/** Creates the MCP server, which does not change: both gates set `req.auth`, which it reads. */
function whoami(): McpServer {
  const server = new McpServer({ name: 'whoami', version: '1.0.0' })
  server.registerTool(
    'whoami',
    { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
    ({ http }) => ({
      content: [{ type: 'text', text: http?.authInfo?.clientId ?? 'unknown' }],
    }),
  )
  return server
}

/** Protects the server with the middleware of the official SDK. */
export function before({ issuer, resource, lookUp }: MigrationOptions): Express {
  const verifier: OAuthTokenVerifier = {
    async verifyAccessToken(token): Promise<AuthInfo> {
      const known = await lookUp(token)
      if (known === undefined) throw new OAuthError(OAuthErrorCode.InvalidToken, 'Unknown token')
      return { token, ...known }
    },
  }
  const { origin, pathname } = new URL(resource)
  const gate = requireBearerAuth({
    verifier,
    requiredScopes: ['mcp:read'],
    resourceMetadataUrl: `${origin}/.well-known/oauth-protected-resource${pathname}`,
  })
  const metadata = mcpAuthMetadataRouter({
    // The complete metadata of the authorization server is required, although only its issuer is used.
    oauthMetadata: {
      issuer,
      authorization_endpoint: `${issuer}/auth`,
      token_endpoint: `${issuer}/token`,
      response_types_supported: ['code'],
    },
    resourceServerUrl: new URL(resource),
    scopesSupported: ['mcp:read'],
  })
  const serve = toNodeHandler(createMcpHandler(whoami))
  const app = express()
  app.use(metadata)
  app.use('/mcp', gate, (req, res) => void serve(req as Parameters<typeof serve>[0], res))
  return app
}

/** Protects the same server with this package. */
export function after({ issuer, resource, lookUp }: MigrationOptions): Express {
  const oauth: OAuthOptions = {
    issuer,
    resource,
    scopes: ['mcp:read'],
    async verifyToken({ bearerToken }) {
      const known = bearerToken === undefined ? undefined : await lookUp(bearerToken)
      return known && { valid: true, ...known }
    },
  }
  const serve = toNodeHandler(createMcpHandler(whoami))
  const app = express()
  app.use(protectedResourceRouter(oauth))
  app.use('/mcp', mcpAuth(oauth), (req, res) => void serve(req as Parameters<typeof serve>[0], res))
  return app
}
